use bytes::Bytes;
use semel_core::{Owner, RecordId, Timestamp};
use sha2::{Digest as _, Sha256};

/// A message to other systems, published once and only if the transaction commits.
///
/// It is a row of the table `outbox`, written together with the outcome; a relay publishes it.
///
/// ```
/// use semel_postgres::transaction::Event;
///
/// let event = Event::new("transfers", r#"{"amount":100}"#)
///     .key("account-7")
///     .event_type("transfer.made")
///     .header("content-type", "application/json");
/// # drop(event);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    topic: String,
    kind: Option<String>,
    key: Option<String>,
    headers: Vec<(String, String)>,
    payload: Bytes,
    not_before: Option<Timestamp>,
}

/// Events as columns: one array each, so that all are written by one statement.
#[derive(Debug, Default)]
pub(crate) struct EventColumns {
    pub(crate) ids: Vec<u128>,
    pub(crate) topics: Vec<String>,
    pub(crate) keys: Vec<Option<String>>,
    pub(crate) headers: Vec<String>,
    pub(crate) payloads: Vec<Bytes>,
    pub(crate) types: Vec<String>,
    /// In milliseconds since 1970.
    pub(crate) not_befores: Vec<Option<i64>>,
}

// === impl Event ===

impl Event {
    /// An event for a topic, queue or subject.
    pub fn new(topic: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        let (topic, payload) = (topic.into(), payload.into());
        Self { topic, kind: None, key: None, headers: Vec::new(), payload, not_before: None }
    }

    /// The kind of event, for its consumers; the topic by default. It is published as `ce-type`.
    #[must_use]
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.kind = Some(event_type.into());
        self
    }

    /// Events of one key are published in the order in which they were written. That is the order in
    /// which they were committed if their transactions exclude each other, as two do that lock the same
    /// row before they stage.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The event is not published before this time, by the clock of the database. Later events of its key do not wait
    /// for it.
    #[must_use]
    pub const fn not_before(mut self, time: Timestamp) -> Self {
        self.not_before = Some(time);
        self
    }

    /// A header for the message, such as `traceparent`. Of two with the same name the later counts.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

// === impl EventColumns ===

impl EventColumns {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The events of one attempt. Their ids differ from those of all others, including those of earlier
    /// records under the same key.
    pub(crate) fn new(record: RecordId, owner: Owner, events: Vec<Event>) -> Self {
        let mut columns = Self::default();
        for (place, event) in events.into_iter().enumerate() {
            let Event { topic, kind, key, headers, payload, not_before } = event;
            columns.ids.push(event_id(record, owner, place as u64));
            columns.types.push(kind.unwrap_or_else(|| topic.clone()));
            columns.not_befores.push(not_before.map(millis));
            columns.topics.push(topic);
            columns.keys.push(key);
            let headers = headers.into_iter().map(|(name, value)| (name, value.into())).collect();
            columns.headers.push(serde_json::Value::Object(headers).to_string());
            columns.payloads.push(payload);
        }
        columns
    }
}

/// As the database takes it.
fn millis(time: Timestamp) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX).min(YEAR_9999_MS)
}

/// The last millisecond of the year 9999: the database refuses times beyond its own range.
const YEAR_9999_MS: i64 = 253_402_300_799_999;

/// A UUID of version 8: the start of a hash over the record, the attempt and the position.
fn event_id(record: RecordId, owner: Owner, place: u64) -> u128 {
    let hash = Sha256::new()
        .chain_update(b"semel event 1")
        .chain_update(record.as_bytes())
        .chain_update(owner.as_u128().to_be_bytes())
        .chain_update(place.to_be_bytes())
        .finalize();
    let start = hash.iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte));
    let variable = !(0xf << 76 | 0b11 << 62);
    start & variable | 0x8 << 76 | 0b10 << 62
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: RecordId = RecordId::from_bytes([7; 32]);
    const OWNER: Owner = Owner::from_u128(9);

    #[test]
    fn ids_are_stable_and_tell_events_apart() {
        let ids = |record, owner| {
            let events = vec![Event::new("t", "a"), Event::new("t", "b")];
            EventColumns::new(record, owner, events).ids
        };
        let one = ids(RECORD, OWNER);
        assert_eq!(one, ids(RECORD, OWNER));
        assert_ne!(one[0], one[1]);
        assert_ne!(one[0], ids(RecordId::from_bytes([8; 32]), OWNER)[0]);
        // A key that is used again after its retention: another attempt, another event.
        assert_ne!(one[0], ids(RECORD, Owner::from_u128(10))[0]);
    }

    #[test]
    fn ids_are_uuids() {
        for place in 0..100 {
            let text = format!("{:032x}", event_id(RECORD, OWNER, place));
            assert_eq!(&text[12..13], "8");
            assert!(["8", "9", "a", "b"].contains(&&text[16..17]), "{text}");
        }
    }

    #[test]
    fn a_type_is_the_topic_unless_it_is_set() {
        let far = Timestamp::from_millis(u64::MAX);
        let events = vec![Event::new("t", ""), Event::new("t", "").event_type("e").not_before(far)];
        let columns = EventColumns::new(RECORD, OWNER, events);
        assert_eq!(columns.types, ["t", "e"]);
        assert_eq!(columns.not_befores, [None, Some(YEAR_9999_MS)]);
    }

    #[test]
    fn headers_become_an_object() {
        let event = Event::new("t", "p").key("k").header("a", "1\"").header("b", "2");
        let columns = EventColumns::new(RECORD, OWNER, vec![event]);
        assert_eq!(columns.headers, [r#"{"a":"1\"","b":"2"}"#]);
        assert_eq!(columns.keys, [Some("k".to_owned())]);
    }
}
