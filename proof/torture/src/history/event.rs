//! The lines of a history.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One line: when, and what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Microseconds since the run began.
    pub t: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// The paths, each with a policy of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Route {
    /// `on_abandoned` and `on_unknown` are `hold`.
    Hold,
    /// An abandoned execution is executed again.
    Reexecute,
}

/// What a store promises to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Everything it acknowledged.
    Strong,
    /// All but what a failover loses.
    Weak,
}

/// Why a client sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To have something done.
    Call,
    /// To see that another body under a used key is refused.
    Mismatch,
    /// To hang up before the request is whole.
    HangUpInRequest,
    /// To hang up before the reply is whole.
    HangUpInReply,
    /// To be refused early, with a body that must not be read as a request.
    Probe,
    /// The next request on the connection of a probe, which was left open.
    AfterProbe,
    /// To get the final answer, after all faults.
    Read,
}

/// What a gateway is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wish {
    /// To begin to serve, after it was killed or had ended.
    Start,
    /// To answer what runs, and end.
    End,
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Everything was drawn from it.
    pub seed: u64,
    /// Which store.
    pub store: String,
    /// What that store promises.
    pub tier: Tier,
    /// How long faults lasted.
    pub seconds: u64,
    /// How many gateways.
    pub gateways: usize,
    /// How many clients.
    pub clients: usize,
    /// The lease of all routes.
    pub lease_ms: u64,
    /// The kinds of faults that were allowed.
    pub kinds: Vec<String>,
    /// The versions of what was tried.
    pub versions: String,
    /// The command that repeats it.
    pub command: String,
}

/// Which execution a reply comes from, as the reply says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Its name.
    pub nonce: String,
    /// The digest of status, end-to-end headers and body without what gateways add: what the upstream
    /// should have said.
    pub said: String,
    /// The scope of the reply.
    pub scope: Option<u8>,
    /// For which key.
    pub key: String,
    /// True if it comes from the record.
    pub replayed: bool,
}

/// What happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "e", rename_all = "kebab-case")]
pub enum Event {
    /// The run begins.
    Head(Head),
    /// A part of the run begins: `faults`, `calm`, `reads` or `over`.
    Phase {
        /// Which.
        name: String,
    },
    /// A client sends a request.
    Invoke {
        /// Its number, which its answer has too.
        op: u64,
        /// Why.
        purpose: Purpose,
        /// To which gateway.
        gateway: usize,
        /// The scope of the client.
        scope: u8,
        /// By which policy.
        route: Route,
        /// With which key.
        key: String,
    },
    /// A client got an outcome.
    Ok {
        /// The request.
        op: u64,
        /// The status.
        status: u16,
        /// Which execution it is the outcome of.
        #[serde(flatten)]
        effect: Effect,
        /// The digest of status, end-to-end headers and body.
        digest: String,
        /// True if it has cookies.
        cookies: bool,
        /// Whether it is recorded: `yes`, or `no` or `gone`, which are both `X-Idempotency-Stored: false`.
        stored: String,
    },
    /// A client got an answer without an outcome.
    Fail {
        /// The request.
        op: u64,
        /// The status.
        status: u16,
        /// The code of the problem, or `upstream` if it is the upstream's own.
        code: String,
        /// True if it has a `Retry-After`.
        retry_after: bool,
        /// What else the upstream's own refusal says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<Effect>,
    },
    /// A client got no answer, so anything may have happened.
    Info {
        /// The request.
        op: u64,
        /// `hung-up`, `timeout` with its milliseconds (`timeout 700`), or how the connection broke.
        why: String,
    },
    /// The upstream begins to execute.
    Begin {
        /// The name of the execution.
        nonce: String,
        /// Which gateway asked for it.
        gateway: usize,
        /// The scope of the request.
        scope: u8,
        /// By which policy.
        route: Route,
        /// For which key.
        key: String,
        /// The fence, if there was one.
        fence: Option<u64>,
        /// Which body: 0 is the right one.
        variant: u8,
    },
    /// The upstream has executed, and this is synced. It answers now.
    End {
        /// The execution.
        nonce: String,
        /// What it answers; 0 if it closes the connection instead.
        status: u16,
        /// The digest of that status, of the end-to-end headers and of the body.
        digest: String,
    },
    /// An execution follows another whose lease expired.
    Takeover {
        /// The later one.
        nonce: String,
        /// Its fence.
        fence: u64,
        /// Where the earlier one was.
        from: usize,
        /// Where the later one is.
        to: usize,
    },
    /// A fault is injected; or an unplanned one is detected: a stall of the machine, a promoted replica.
    Fault {
        /// Its number.
        id: u64,
        /// What kind.
        kind: String,
        /// The gateways that it hits; if none is named, all.
        hits: Vec<usize>,
        /// True if it hits only the replay cache, which decides nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        near: bool,
        /// For readers.
        note: String,
    },
    /// It is mended.
    Healed {
        /// Which fault.
        id: u64,
        /// How often it struck, if that was counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        struck: Option<u64>,
    },
    /// A gateway has counted so many writes that the store refused because of their fence.
    Refused {
        /// Which gateway.
        gateway: usize,
        /// How many.
        count: u64,
    },
    /// A gateway was asked to start or to end, and this is what came of it.
    Asked {
        /// Which gateway.
        gateway: usize,
        /// What it was asked for.
        to: Wish,
        /// When, in microseconds since the run began.
        since: u64,
        /// True if it succeeded. Otherwise the exit code was 1: it could not start, or work was cut off. Or it was
        /// started, and did not listen for half a minute.
        done: bool,
        /// For readers: the last that it said, if it failed.
        note: String,
    },
}

// === impl Route ===

impl Route {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Hold, Self::Reexecute];

    /// Its name, which is also its path.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Reexecute => "reexecute",
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
