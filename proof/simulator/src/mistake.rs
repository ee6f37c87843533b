use semel_core::invariants::Invariant;

use crate::Rule;

/// A mistake that can be planted, to see that it is found. All of them live in the simulator: in its store,
/// its network, its nodes and its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The store settles under any fence.
    FenceIgnored,
    /// The store gives every lease the same fence.
    FenceStandsStill,
    /// The store forgets a settled record when it restarts.
    SettledLostAtRestart,
    /// The store acknowledges a settlement and keeps nothing.
    SettlementForgotten,
    /// The store lets records expire at half their time.
    ExpiresEarly,
    /// The store replays to another request.
    MismatchReplayed,
    /// The store acknowledges renewals and keeps nothing.
    RenewalsLost,
    /// The store grants abandoned leases again under any policy.
    HoldIgnored,
    /// The store does not recognise an owner that repeats its claim.
    OwnerForgotten,
    /// The store changes a byte of what it replays.
    ReplyAltered,
    /// A node acknowledges settlements before it sends them.
    SettledTooEarly,
    /// A node executes the work before it claims.
    WorkBeforeClaim,
    /// A node gives up the work when the client hangs up.
    WorkEndsWithClient,
    /// A node leaves the scope out of the record's id.
    ScopesMixed,
    /// A node's tasks are still counted after it ended.
    TasksLeftBehind,
    /// A node has two engines, and neither sees the executions of the other.
    RegistryDivided,
    /// The store grants the next lease to the owner that has handed back the last.
    GrantedAfterRelease,
    /// A node that recovers a lease whose grant was not acknowledged does not find it.
    DoubtForgotten,
    /// A node takes a later lease of its own, as of a late claim, for that of another node.
    SuccessorUnseen,
    /// A node does not see that the store's clock was set back, and trusts copies that had expired.
    ClockBackUnseen,
}

// === impl Mistake ===

impl Mistake {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::FenceIgnored,
        Self::FenceStandsStill,
        Self::SettledLostAtRestart,
        Self::SettlementForgotten,
        Self::ExpiresEarly,
        Self::MismatchReplayed,
        Self::RenewalsLost,
        Self::HoldIgnored,
        Self::OwnerForgotten,
        Self::ReplyAltered,
        Self::SettledTooEarly,
        Self::WorkBeforeClaim,
        Self::WorkEndsWithClient,
        Self::ScopesMixed,
        Self::TasksLeftBehind,
        Self::RegistryDivided,
        Self::GrantedAfterRelease,
        Self::DoubtForgotten,
        Self::SuccessorUnseen,
        Self::ClockBackUnseen,
    ];

    /// The rule that it breaks.
    pub const fn breaks(self) -> Rule {
        match self {
            Self::FenceIgnored | Self::FenceStandsStill => Rule::Invariant(Invariant::Fenced),
            Self::SettledLostAtRestart | Self::SettlementForgotten => {
                Rule::Invariant(Invariant::SettledIsFinal)
            }
            Self::MismatchReplayed => Rule::Invariant(Invariant::MismatchIsInert),
            Self::RenewalsLost => Rule::Invariant(Invariant::OneLease),
            Self::HoldIgnored => Rule::NotAgain,
            Self::OwnerForgotten | Self::ExpiresEarly => Rule::Decided,
            Self::ReplyAltered | Self::ClockBackUnseen => Rule::Invariant(Invariant::SameAnswer),
            Self::SettledTooEarly => Rule::Invariant(Invariant::SettleFirst),
            Self::WorkBeforeClaim => Rule::Invariant(Invariant::ClaimFirst),
            Self::WorkEndsWithClient => Rule::Invariant(Invariant::Detached),
            Self::ScopesMixed => Rule::Invariant(Invariant::Scoped),
            Self::TasksLeftBehind => Rule::Invariant(Invariant::Bounded),
            Self::RegistryDivided | Self::SuccessorUnseen => Rule::SelfTakeover,
            Self::GrantedAfterRelease | Self::DoubtForgotten => Rule::NoOrphans,
        }
    }
}
