use std::fmt;
use std::time::Duration;

use semel_core::invariants::Invariant;

/// The rules of every run: the ten invariants, and further ones that only a run can check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// One of the ten.
    Invariant(Invariant),
    /// Every verb is answered as the state machine decides.
    Decided,
    /// What may have taken effect is not executed again, unless the policy is to.
    NotAgain,
    /// A process executes nothing that it is executing itself, or has executed and not settled yet.
    SelfTakeover,
    /// No lease is left with an attempt that is over.
    NoOrphans,
    /// A lease that is lost, an error and an answer that breaks a promise: each follows from a fault.
    Explained,
    /// When the faults end, everything comes to an end.
    Live,
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// Of which key of the run, if of one.
    pub key: Option<usize>,
    /// When, in simulated time.
    pub at: Duration,
    /// How.
    pub what: String,
}

// === impl Rule ===

impl Rule {
    /// The name that reports and docs use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Invariant(invariant) => invariant.id(),
            Self::Decided => "decided",
            Self::NotAgain => "not-again",
            Self::SelfTakeover => "self-takeover",
            Self::NoOrphans => "no-orphans",
            Self::Explained => "explained",
            Self::Live => "live",
        }
    }
}

impl From<Invariant> for Rule {
    fn from(invariant: Invariant) -> Self {
        Self::Invariant(invariant)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// === impl Violation ===

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} broken at {:.3}s", self.rule, self.at.as_secs_f64())?;
        if let Some(key) = self.key {
            write!(f, " for key k{key}")?;
        }
        write!(f, ": {}", self.what)
    }
}
