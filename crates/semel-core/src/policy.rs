//! The rules of one route: what is kept, for how long, and what happens when things go wrong.

use std::time::Duration;

/// The rules under which an attempt is decided and executed. Made by [`Policy::builder`], which
/// refuses relations that cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    lease: Duration,
    ttl: Duration,
    in_flight: InFlight,
    on_abandoned: OnAbandoned,
    on_unknown: OnUnknown,
    on_store_down: OnStoreDown,
}

/// What a duplicate gets while the first attempt executes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InFlight {
    /// It is refused, and may come again.
    #[default]
    Conflict,
    /// It is answered that the work was accepted, and may come again.
    Accepted,
    /// It waits for the outcome, for at most this long.
    Wait(Duration),
}

/// What happens to a record whose lease ran out without a settlement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnAbandoned {
    /// The next attempt executes again, with a higher fence.
    #[default]
    Reexecute,
    /// The record is settled as failed.
    Fail,
    /// The record stays, and answers that its outcome is unknown.
    Hold,
}

/// What happens when an execution ends and it is unknown whether it took effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnknown {
    /// The lease is handed back: the next attempt executes again.
    #[default]
    Release,
    /// The record is held until its holder, an operator or its expiry resolves it.
    Hold,
}

/// What happens while the store is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreDown {
    /// Nothing executes.
    #[default]
    Closed,
    /// The work executes without protection, and its answer is marked.
    Open,
}

/// Collects the rules; [`build`](PolicyBuilder::build) checks them all together.
#[derive(Clone, Debug)]
pub struct PolicyBuilder(Policy);

/// All that is wrong with a policy, at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct PolicyError {
    /// The faults, in the order of the settings.
    pub faults: Vec<PolicyFault>,
}

/// One thing that is wrong with a policy, with its cure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyFault {
    /// A lease this short would run out between two renewals on a busy machine.
    #[error("lease is {0:?}, and must be at least {min:?}; 30s suits most work", min = Policy::LEASE_MIN)]
    LeaseTooShort(Duration),
    /// A record must outlive its first lease.
    #[error(
        "lease ({lease:?}) must be shorter than ttl ({ttl:?}); shorten the lease or keep records longer"
    )]
    LeaseNotShorterThanTtl {
        /// The duration of the lease.
        lease: Duration,
        /// The duration of the retention.
        ttl: Duration,
    },
    /// Nothing can be kept for that long.
    #[error("ttl is {0:?}, and must be at most {max:?}", max = Policy::TTL_MAX)]
    TtlTooLong(Duration),
    /// Waiting must end.
    #[error("wait_timeout is {0:?}, and must be above zero and at most {max:?}", max = Policy::WAIT_MAX)]
    BadWaitTimeout(Duration),
}

// === impl Policy ===

impl Policy {
    /// The shortest lease accepted.
    pub const LEASE_MIN: Duration = Duration::from_millis(10);
    /// The longest retention accepted: ten years.
    pub const TTL_MAX: Duration = Duration::from_hours(10 * 365 * 24);
    /// The longest wait accepted: an hour.
    pub const WAIT_MAX: Duration = Duration::from_hours(1);

    /// Starts from the defaults: a lease of 30 s, a retention of 24 h, conflict, reexecute,
    /// release, closed.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder(Self {
            lease: Duration::from_secs(30),
            ttl: Duration::from_hours(24),
            in_flight: InFlight::default(),
            on_abandoned: OnAbandoned::default(),
            on_unknown: OnUnknown::default(),
            on_store_down: OnStoreDown::default(),
        })
    }

    /// How long a lease lasts without being renewed.
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// How long a record lives after its latest granted claim.
    pub const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// What a duplicate gets while the first attempt executes.
    pub const fn in_flight(&self) -> InFlight {
        self.in_flight
    }

    /// What happens to abandoned records.
    pub const fn on_abandoned(&self) -> OnAbandoned {
        self.on_abandoned
    }

    /// What happens to unknown outcomes.
    pub const fn on_unknown(&self) -> OnUnknown {
        self.on_unknown
    }

    /// What happens while the store is unavailable.
    pub const fn on_store_down(&self) -> OnStoreDown {
        self.on_store_down
    }

    fn faults(&self) -> Vec<PolicyFault> {
        let mut faults = Vec::new();
        if self.lease < Self::LEASE_MIN {
            faults.push(PolicyFault::LeaseTooShort(self.lease));
        }
        if self.lease >= self.ttl {
            faults.push(PolicyFault::LeaseNotShorterThanTtl { lease: self.lease, ttl: self.ttl });
        }
        if self.ttl > Self::TTL_MAX {
            faults.push(PolicyFault::TtlTooLong(self.ttl));
        }
        if let InFlight::Wait(timeout) = self.in_flight
            && (timeout.is_zero() || timeout > Self::WAIT_MAX)
        {
            faults.push(PolicyFault::BadWaitTimeout(timeout));
        }
        faults
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::builder().0
    }
}

// === impl PolicyBuilder ===

impl PolicyBuilder {
    /// How long a lease lasts without being renewed.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.0.lease = lease;
        self
    }

    /// How long a record lives after its latest granted claim.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.0.ttl = ttl;
        self
    }

    /// What a duplicate gets while the first attempt executes.
    #[must_use]
    pub const fn in_flight(mut self, in_flight: InFlight) -> Self {
        self.0.in_flight = in_flight;
        self
    }

    /// What happens to abandoned records.
    #[must_use]
    pub const fn on_abandoned(mut self, on_abandoned: OnAbandoned) -> Self {
        self.0.on_abandoned = on_abandoned;
        self
    }

    /// What happens to unknown outcomes.
    #[must_use]
    pub const fn on_unknown(mut self, on_unknown: OnUnknown) -> Self {
        self.0.on_unknown = on_unknown;
        self
    }

    /// What happens while the store is unavailable.
    #[must_use]
    pub const fn on_store_down(mut self, on_store_down: OnStoreDown) -> Self {
        self.0.on_store_down = on_store_down;
        self
    }

    /// The policy, or everything that is wrong with it.
    pub fn build(self) -> Result<Policy, PolicyError> {
        let faults = self.0.faults();
        if faults.is_empty() { Ok(self.0) } else { Err(PolicyError { faults }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_documented_ones_and_valid() {
        let policy = Policy::builder().build().unwrap();
        assert_eq!(policy, Policy::default());
        assert_eq!(policy.lease(), Duration::from_secs(30));
        assert_eq!(policy.ttl(), Duration::from_hours(24));
        assert_eq!(policy.in_flight(), InFlight::Conflict);
        assert_eq!(policy.on_abandoned(), OnAbandoned::Reexecute);
        assert_eq!(policy.on_unknown(), OnUnknown::Release);
        assert_eq!(policy.on_store_down(), OnStoreDown::Closed);
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let zero = Duration::ZERO;
        let error = Policy::builder()
            .lease(zero)
            .ttl(zero)
            .in_flight(InFlight::Wait(zero))
            .build()
            .unwrap_err();
        assert_eq!(
            error.faults,
            [
                PolicyFault::LeaseTooShort(zero),
                PolicyFault::LeaseNotShorterThanTtl { lease: zero, ttl: zero },
                PolicyFault::BadWaitTimeout(zero),
            ]
        );
        assert!(error.to_string().contains("shorten the lease"), "{error}");
    }

    #[test]
    fn nothing_lasts_for_ever() {
        let faults = |builder: PolicyBuilder| builder.build().unwrap_err().faults;
        assert_eq!(
            faults(Policy::builder().ttl(Duration::MAX)),
            [PolicyFault::TtlTooLong(Duration::MAX)]
        );
        assert_eq!(
            faults(Policy::builder().in_flight(InFlight::Wait(Duration::MAX))),
            [PolicyFault::BadWaitTimeout(Duration::MAX)]
        );
    }
}
