//! The scripts, one per verb.
//!
//! A server knows a script by the hash of its text, once it was loaded there. It forgets them when it
//! is restarted, and one that takes its place may never have known them. So they are loaded on every
//! new connection, and if one is missing all the same it is sent with its text, which loads it.

use std::borrow::Cow;
use std::sync::LazyLock;

use redis::{Pipeline, Script as Hashed};
use semel_core::RecordId;
use semel_planted::{Bug, planted};

use crate::wire::question;

/// A script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    code: Cow<'static, str>,
    hash: String,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) claim: Script,
    /// For a server whose memory is full.
    pub(crate) claim_full: Script,
    pub(crate) renew: Script,
    pub(crate) settle: Script,
    pub(crate) release: Script,
    pub(crate) inspect: Script,
    pub(crate) health: Script,
    /// For a server whose memory is full.
    pub(crate) health_full: Script,
    pub(crate) keep: Script,
    pub(crate) tell: Script,
}

pub(crate) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(Scripts::new);

/// A call of a script for one record.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'a Script,
    pub(crate) key: &'a [u8],
    /// Are replicas waited for afterwards?
    pub(crate) confirm: bool,
    pub(crate) args: &'a [Arg<'a>],
}

/// An argument of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arg<'a> {
    Bytes(&'a [u8]),
    Number(u64),
}

/// `#!lua` makes the server refuse a script that may write before its first line, if it could not
/// write: being a replica, or out of memory, or unable to save. `even_if_full` lets it run, and write,
/// when it is out of memory.
macro_rules! script {
    (even_if_full: $($part:literal),+) => {
        script!(first: "#!lua flags=allow-oom\n"; $($part),+)
    };
    ($($part:literal),+) => {
        script!(first: "#!lua\n"; $($part),+)
    };
    (first: $first:literal; $($part:literal),+) => {
        Script::new(concat!(
            $first,
            include_str!("../lua/layout.lua"),
            $(include_str!(concat!("../lua/", $part, ".lua")),)+
        ))
    };
}

// === impl Scripts ===

impl Scripts {
    fn new() -> Self {
        Self {
            claim: script!("clock", "claim_usual", "record", "claim"),
            claim_full: script!(even_if_full: "clock", "claim_full", "record", "claim"),
            // These end or keep what was admitted, so they bring no more than that into a full memory.
            renew: script!(even_if_full: "clock", "record", "renew"),
            settle: script!(even_if_full: "settle_usual", "clock", "record", "settle"),
            release: script!(even_if_full: "clock", "record", "release"),
            inspect: script!(even_if_full: "clock", "record", "inspect"),
            health: script!("clock", "record", "health"),
            health_full: script!(even_if_full: "clock", "record", "health"),
            keep: script!("clock", "record", "keep"),
            // It writes nothing.
            tell: script!(even_if_full: "clock", "record", "tell"),
        }
    }

    /// Loads all of them.
    pub(crate) fn load(&self) -> Pipeline {
        let mut pipeline = redis::pipe();
        let Self { claim, claim_full, renew, settle, release, inspect, .. } = self;
        let Self { health, health_full, keep, tell, .. } = self;
        let ends = [renew, settle, release, inspect];
        let others = [claim, claim_full, health, health_full, keep, tell];
        for script in ends.into_iter().chain(others) {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(&*script.code).ignore();
        }
        pipeline
    }
}

// === impl Script ===

impl Script {
    fn new(code: &'static str) -> Self {
        let code = with_planted(code);
        let hash = Hashed::new(&code).get_hash().to_owned();
        Self { code, hash }
    }
}

/// The code, with a mistake in it if one is planted there.
fn with_planted(code: &'static str) -> Cow<'static, str> {
    if planted(Bug::NoFenceCheck) {
        let checked = "seen.owner == ARGV[3] and seen.fence == tonumber(ARGV[4])";
        return code.replace(checked, "true").into();
    }
    if planted(Bug::RenewAfterExpiry) && code.contains("-- Extends a lease.") {
        let taken_back = "if seen then seen.owner, seen.fence = ARGV[3], tonumber(ARGV[4]) end";
        return code
            .replace("local seen = look()", &format!("local seen = look()\n{taken_back}"))
            .into();
    }
    if planted(Bug::GrantsToAnOwnerThatReleased) {
        return code
            .replace(
                "elseif seen.state == RELEASED and seen.owner == owner then",
                "elseif false then",
            )
            .into();
    }
    let ends_work = ["-- Extends a lease.", "-- Records the outcome.", "-- Hands a lease back"];
    if planted(Bug::FullStoreRefusesOutcomes) && ends_work.iter().any(|it| code.contains(it)) {
        return code.replace("#!lua flags=allow-oom", "#!lua").into();
    }
    code.into()
}

// === impl Call ===

impl Call<'_> {
    /// About how long it is: of what can be long.
    pub(crate) fn bytes(&self) -> usize {
        let length = |arg: &Arg<'_>| match arg {
            Arg::Bytes(bytes) => bytes.len(),
            Arg::Number(_) => 0,
        };
        self.args.iter().map(length).sum()
    }

    /// The call by its hash.
    pub(crate) fn write_by_hash(&self, outbox: &mut Vec<u8>) {
        self.write(outbox, b"EVALSHA", self.script.hash.as_bytes());
    }

    /// The call with its text, for a server that may not know it.
    pub(crate) fn write_with_text(&self, outbox: &mut Vec<u8>) {
        self.write(outbox, b"EVAL", self.script.code.as_bytes());
    }

    fn write(&self, outbox: &mut Vec<u8>, name: &[u8], script: &[u8]) {
        let head = [name, script, b"1", self.key, if self.confirm { b"1" } else { b"0" }];
        question::begin(outbox, head.len() + self.args.len());
        for word in head {
            question::word(outbox, word);
        }
        for arg in self.args {
            match arg {
                Arg::Bytes(bytes) => question::word(outbox, bytes),
                Arg::Number(number) => question::number(outbox, *number),
            }
        }
    }
}

/// The key of a record: the prefix, and its id in hexadecimal, so that people can look for it.
pub(crate) fn key(prefix: &str, id: RecordId) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut key = Vec::with_capacity(prefix.len() + 64);
    key.extend_from_slice(prefix.as_bytes());
    for byte in id.as_bytes() {
        key.push(DIGITS[usize::from(byte >> 4)]);
        key.push(DIGITS[usize::from(byte & 15)]);
    }
    key
}
