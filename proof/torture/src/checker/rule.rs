//! What a history must not show.

use std::fmt;

/// What was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// I1: two executions at once, or a takeover before the lease can have run out; or what was executed was
    /// called unknown.
    OneLease,
    /// I2: another answer or execution after an answer with the recorded outcome.
    SettledIsFinal,
    /// I3: an outcome is recorded although a later lease was granted.
    Fenced,
    /// I3: an execution began with a lower fence than an earlier one, and its gateway was not held up.
    FenceWentBack,
    /// I4: two answers to one key differ, or an answer is not what the upstream said.
    OneAnswer,
    /// I5: an execution without a claim, or two with the same one.
    ClaimFirst,
    /// I5: an outcome of an execution that never was.
    NoSuchExecution,
    /// I6: an unrecorded outcome was answered without a reason.
    SettleFirst,
    /// I6: an outcome was answered, and is gone.
    AnswerLost,
    /// I6: an outcome was never recorded, though its gateway lived and had its store.
    SettlingGivenUp,
    /// I7: a reply to one scope was given to another.
    ScopeCanary,
    /// I8: another body under a used key was executed, or got something else than its refusal; or the
    /// right one was refused.
    MismatchInert,
    /// I9: an execution without a fault left no outcome.
    Detached,
    /// I10: no answer in time without a fault, or an answer outside the contract.
    Bounded,
    /// A cookie was replayed.
    Cookies,
    /// An unread body was taken for a request, or an answer went to another request.
    DrainedBody,
    /// Under `hold`, a key was executed again.
    HoldExecutedAgain,
    /// A key was executed again, and no fault explains it.
    UnexplainedExecution,
    /// A gateway executed a key again that it had executed itself, and had not handed back.
    SelfTakeover,
    /// A store that was full did not record an outcome, or did not replay one.
    FullStore,
    /// When all faults were over, a key did not come to its end in time.
    Liveness,
    /// A key is held without an execution, though the holder of its lease is alive.
    HeldUnexecuted,
    /// A refusal that something must have caused, and nothing had happened.
    CauselessRefusal,
    /// A gateway could not start, or cut off work at its end, and its store was there.
    BadExit,
}

// === impl Rule ===

impl Rule {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::OneLease,
        Self::SettledIsFinal,
        Self::Fenced,
        Self::FenceWentBack,
        Self::OneAnswer,
        Self::ClaimFirst,
        Self::NoSuchExecution,
        Self::SettleFirst,
        Self::AnswerLost,
        Self::SettlingGivenUp,
        Self::ScopeCanary,
        Self::MismatchInert,
        Self::Detached,
        Self::Bounded,
        Self::Cookies,
        Self::DrainedBody,
        Self::HoldExecutedAgain,
        Self::UnexplainedExecution,
        Self::SelfTakeover,
        Self::FullStore,
        Self::Liveness,
        Self::HeldUnexecuted,
        Self::CauselessRefusal,
        Self::BadExit,
    ];

    /// Its name, after the id of the invariant that it belongs to, if there is one.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OneLease => "I1 one-lease",
            Self::SettledIsFinal => "I2 settled-is-final",
            Self::Fenced => "I3 fenced",
            Self::FenceWentBack => "I3 fence-went-back",
            Self::OneAnswer => "I4 one-answer",
            Self::ClaimFirst => "I5 claim-first",
            Self::NoSuchExecution => "I5 no-such-execution",
            Self::SettleFirst => "I6 settle-first",
            Self::AnswerLost => "I6 answer-lost",
            Self::SettlingGivenUp => "I6 settling-given-up",
            Self::ScopeCanary => "I7 scope-canary",
            Self::MismatchInert => "I8 mismatch-is-inert",
            Self::Detached => "I9 detached",
            Self::Bounded => "I10 bounded",
            Self::Cookies => "cookies",
            Self::DrainedBody => "drained-body",
            Self::HoldExecutedAgain => "hold-executed-again",
            Self::UnexplainedExecution => "unexplained-execution",
            Self::SelfTakeover => "self-takeover",
            Self::FullStore => "full-store-keeps-outcomes",
            Self::Liveness => "liveness",
            Self::HeldUnexecuted => "held-unexecuted",
            Self::CauselessRefusal => "causeless-refusal",
            Self::BadExit => "bad-exit",
        }
    }

    /// True if a record that a failover lost can cause it.
    pub(super) const fn may_follow_a_loss(self) -> bool {
        matches!(
            self,
            Self::OneLease
                | Self::SettledIsFinal
                | Self::Fenced
                | Self::FenceWentBack
                | Self::OneAnswer
                | Self::ClaimFirst
                | Self::AnswerLost
                | Self::SettlingGivenUp
                | Self::MismatchInert
                | Self::Detached
                | Self::HoldExecutedAgain
                | Self::UnexplainedExecution
                | Self::SelfTakeover
                | Self::HeldUnexecuted
        )
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
