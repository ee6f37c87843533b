//! Admission of a claim by the quota of its scope.
//!
//! A permit is taken before the claim, and returned when the claim turns out to begin nothing. So no lease and no
//! record is made that would have to be undone. Without a permit the record is read instead of claimed, and answers that
//! need no permit are given.

use semel_core::{Claim, Fence, State};
use semel_store::StoreError;

use super::ClaimState;
use crate::{Answer, EngineError, Stored, TooManyKeys};

/// The reason why a claim has no answer.
#[derive(Debug)]
pub(crate) enum NotClaimed {
    Store(StoreError),
    TooManyKeys(TooManyKeys),
}

impl ClaimState {
    /// Claims if the scope's quota has a permit left.
    pub(super) async fn send_within_quota(&mut self) -> Result<Claim, NotClaimed> {
        if let Err(over) = self.take_permit()
            && let Some(claim) = Box::pin(self.read_instead(over)).await?
        {
            return Ok(claim);
        }
        let claimed = self.send().await;
        self.note(&claimed);
        Ok(claimed?)
    }

    /// Counts the bytes that an execution of this attempt has recorded.
    pub(crate) fn spend(&self, answer: &Answer) {
        if let (Some(permit), Answer::Executed { settlement, stored: Stored::Durable, .. }) =
            (&self.permit, answer)
        {
            let bytes = settlement.reply().map_or(0, |reply| reply.bytes().len());
            permit.spend_bytes(bytes as u64);
        }
    }

    /// Returns the permit: nothing of this attempt runs any more.
    pub(crate) fn leave_quota(&mut self) {
        self.permit = None;
    }

    fn take_permit(&mut self) -> Result<(), TooManyKeys> {
        let permit = match (&mut self.permit, self.quota) {
            (_, None) => return Ok(()),
            (Some(permit), _) => permit,
            (none, Some(quota)) => none.insert(self.context.quotas.take(quota)?),
        };
        permit.may_begin_key()
    }

    /// The answer that needs no permit. `None` if the claim may be sent, since the key is not a new one.
    async fn read_instead(&self, over: TooManyKeys) -> Result<Option<Claim>, NotClaimed> {
        let record = match self.inspect().await {
            Ok(record) => record,
            // Without a permit the attempt is refused, whatever the record is.
            Err(error) if error.is_passing() => return Err(over.into()),
            Err(error) => return Err(error.into()),
        };
        let Some(record) = record else { return Err(over.into()) };
        if !matches!(over, TooManyKeys::Executions { .. }) {
            return Ok(None);
        }
        if record.fingerprint != self.fingerprint() {
            return Ok(Some(Claim::Mismatch));
        }
        match record.state {
            State::Settled(settlement) => {
                Ok(Some(Claim::Replay { settlement, expires: record.expires }))
            }
            State::Held => Ok(Some(Claim::Unknown)),
            // It may be abandoned, which only a claim decides, by the store's clock.
            State::Leased { until } => Ok(Some(Claim::InFlight { until })),
            State::Released => Err(over.into()),
        }
    }

    /// Keeps the part of the permit that the claim needs.
    fn note(&mut self, claimed: &Result<Claim, StoreError>) {
        let is_in_doubt = self.is_in_doubt();
        let Some(permit) = &mut self.permit else { return };
        match claimed {
            Ok(Claim::Execute(lease)) if lease.fence() > Fence::FIRST => permit.return_key(),
            Ok(Claim::Execute(_)) => permit.spend_key(),
            // It may be granted later, or have been granted.
            _ if is_in_doubt => permit.spend_key(),
            // The permit for an execution is kept: an attempt that fails open executes without a claim.
            Ok(_) | Err(_) => permit.return_key(),
        }
    }
}

// === impl NotClaimed ===

impl NotClaimed {
    /// Whether the same claim may be answered later.
    pub(crate) const fn is_passing(&self) -> bool {
        match self {
            Self::Store(error) => error.is_passing(),
            Self::TooManyKeys(_) => true,
        }
    }
}

impl From<StoreError> for NotClaimed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<TooManyKeys> for NotClaimed {
    fn from(over: TooManyKeys) -> Self {
        Self::TooManyKeys(over)
    }
}

impl From<NotClaimed> for EngineError {
    fn from(why: NotClaimed) -> Self {
        match why {
            NotClaimed::Store(error) => error.into(),
            NotClaimed::TooManyKeys(over) => over.into(),
        }
    }
}
