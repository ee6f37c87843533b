/// A planted bug. Each has occurred in real systems (`docs/reference/traps.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Settle, release and renew succeed though another attempt has the lease by now (Redis).
    NoFenceCheck,
    /// A lease that ran out is taken back by a renewal, though another has it by now (Redis).
    RenewAfterExpiry,
    /// The client gets an outcome before it is settled (engine).
    AnswerBeforeSettle,
    /// A settlement is acknowledged while it is in a buffer of the process only (embedded store).
    SettleNotSynced,
    /// Bodies are left out of the fingerprint (HTTP).
    FingerprintIgnored,
    /// The client's identity is left out of the scope (HTTP).
    ScopeDropped,
    /// Cookies are kept with the reply, and replayed (HTTP).
    CookiesReplayed,
    /// A request is refused early, and its unread body is taken for the next request (gateway).
    BodyNotDrained,
    /// A sweep takes records without an outcome for garbage (embedded store).
    SweepDeletesLiveLeases,
    /// A holder remembers its own outcome, though its settlement was refused (cache).
    CacheAnswersAfterTakeover,
    /// A claim whose answer was lost is sent again with another owner (engine).
    ClaimRetriedWithoutOwner,
    /// A waiter that gives up releases the lease of the attempt that it waits for (engine).
    WaiterDeletesTheClaim,
    /// An execution is dropped, and its lease forgotten, when its client hangs up (engine).
    ExecutionDiesWithClient,
    /// An attempt that finds no record executes at once, and claims afterwards (engine).
    ExecutesBeforeClaim,
    /// An outcome that could not be settled at once never is (engine).
    GivesUpSettling,
    /// A claim is sent though this very process executes or settles the record (engine).
    ClaimsPastOwnExecution,
    /// An owner that has handed back its lease is granted the next one, by a late claim (Redis), and does not
    /// check for it, since a later claim was answered (engine).
    GrantsToAnOwnerThatReleased,
    /// A server whose memory is full refuses to record what was executed, and to replay it (Redis).
    FullStoreRefusesOutcomes,
}

// === impl Bug ===

impl Bug {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::NoFenceCheck,
        Self::RenewAfterExpiry,
        Self::AnswerBeforeSettle,
        Self::SettleNotSynced,
        Self::FingerprintIgnored,
        Self::ScopeDropped,
        Self::CookiesReplayed,
        Self::BodyNotDrained,
        Self::SweepDeletesLiveLeases,
        Self::CacheAnswersAfterTakeover,
        Self::ClaimRetriedWithoutOwner,
        Self::WaiterDeletesTheClaim,
        Self::ExecutionDiesWithClient,
        Self::ExecutesBeforeClaim,
        Self::GivesUpSettling,
        Self::ClaimsPastOwnExecution,
        Self::GrantsToAnOwnerThatReleased,
        Self::FullStoreRefusesOutcomes,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoFenceCheck => "no-fence-check",
            Self::RenewAfterExpiry => "renew-after-expiry",
            Self::AnswerBeforeSettle => "answer-before-settle",
            Self::SettleNotSynced => "settle-not-synced",
            Self::FingerprintIgnored => "fingerprint-ignored",
            Self::ScopeDropped => "scope-dropped",
            Self::CookiesReplayed => "cookies-replayed",
            Self::BodyNotDrained => "body-not-drained",
            Self::SweepDeletesLiveLeases => "sweep-deletes-live-leases",
            Self::CacheAnswersAfterTakeover => "cache-answers-after-takeover",
            Self::ClaimRetriedWithoutOwner => "claim-retried-without-owner",
            Self::WaiterDeletesTheClaim => "waiter-deletes-the-claim",
            Self::ExecutionDiesWithClient => "execution-dies-with-client",
            Self::ExecutesBeforeClaim => "executes-before-claim",
            Self::GivesUpSettling => "gives-up-settling",
            Self::ClaimsPastOwnExecution => "claims-past-own-execution",
            Self::GrantsToAnOwnerThatReleased => "grants-to-an-owner-that-released",
            Self::FullStoreRefusesOutcomes => "full-store-refuses-outcomes",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| bug.as_str() == name)
    }
}
