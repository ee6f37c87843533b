use bytes::Bytes;
use semel_core::{Fingerprint, Key, KeyError, RecordId, Scope};

/// The id of an event, chosen by its producer and the same in every delivery.
///
/// The id that a broker gives to a delivery is none: a redelivery has another (trap 20).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventId(Key);

/// A text that is no event id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an event id ({0}); let the producer send one with each event, such as a UUID in `ce-id`"
)]
pub struct EventIdError(#[from] KeyError);

/// An event, as a consumer receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    id: EventId,
    payload: Bytes,
    deliveries: u64,
}

// === impl EventId ===

impl EventId {
    /// An id of 1 to 128 visible ASCII characters. UUIDs are compared without regard to case.
    pub fn parse(text: &str) -> Result<Self, EventIdError> {
        Ok(Self(Key::parse(text)?))
    }

    /// The id as it names the record.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

// === impl Message ===

impl Message {
    /// A message of this event.
    pub fn new(id: EventId, payload: impl Into<Bytes>) -> Self {
        Self { id, payload: payload.into(), deliveries: 1 }
    }

    /// How often the broker has delivered it so far, this time included, if it says so (`num_delivered`,
    /// `ApproximateReceiveCount`, `x-delivery-count`).
    #[must_use]
    pub const fn deliveries(mut self, count: u64) -> Self {
        self.deliveries = count;
        self
    }

    /// The id of its event.
    pub const fn id(&self) -> &EventId {
        &self.id
    }

    /// What the producer sent.
    pub const fn payload(&self) -> &Bytes {
        &self.payload
    }

    pub(crate) const fn delivered(&self) -> u64 {
        self.deliveries
    }

    /// The record of this event's work by a consumer, on a channel.
    pub(crate) fn record(&self, namespace: &str, consumer: &str, channel: &str) -> RecordId {
        let scope = Scope::new([("consumer", consumer), ("channel", channel)]);
        RecordId::new(namespace, &scope, &self.id.0)
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new([("payload", &self.payload[..])])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_id_is_refused_with_a_cure() {
        for bad in ["", "two words", "\u{e9}", &"x".repeat(129)] {
            let error = EventId::parse(bad).expect_err(bad).to_string();
            assert!(error.contains("ce-id"), "{error}");
        }
    }

    #[test]
    fn records_differ_by_event_consumer_channel_and_namespace() {
        let message = |id: &str| Message::new(EventId::parse(id).expect("an id"), "payload");
        let records = [
            message("e-1").record("n", "mailer", "email"),
            message("e-2").record("n", "mailer", "email"),
            message("e-1").record("n", "mailer", "sms"),
            message("e-1").record("n", "audit", "email"),
            message("e-1").record("m", "mailer", "email"),
        ];
        for (at, record) in records.iter().enumerate() {
            assert!(!records[..at].contains(record), "{at}");
        }
        assert_eq!(records[0], message("e-1").deliveries(3).record("n", "mailer", "email"));
    }
}
