//! The Lua scripts, one per verb.
//!
//! A server knows a script by the hash of its text once it was loaded. A restart forgets all scripts, and
//! a promoted replica may never have known them. So they are loaded on every new connection, and a
//! missing script is sent with its text, which loads it.

use std::borrow::Cow;
use std::sync::LazyLock;

use redis::{Pipeline, Script as Hashed};
use semel_core::RecordId;
use semel_core::planted::{Bug, planted};

use crate::wire::command;

/// A script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    code: Cow<'static, str>,
    hash: String,
}

/// All scripts.
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
    pub(crate) publish: Script,
}

pub(crate) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(Scripts::new);

/// A call of a script for one record.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'a Script,
    pub(crate) key: &'a [u8],
    /// Whether replicas are waited for afterwards.
    pub(crate) confirm: bool,
    pub(crate) args: &'a [Arg<'a>],
}

/// An argument of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arg<'a> {
    Bytes(&'a [u8]),
    Number(u64),
}

/// `#!lua` makes the server refuse the script before its first line if the server cannot write: as a
/// replica, out of memory, or unable to save. `even_if_full` lets the script run, and write, when the
/// server is out of memory.
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
            claim: script!("clock", "claim_fast_path", "record", "claim"),
            claim_full: script!(even_if_full: "clock", "claim_full", "record", "claim"),
            // These end or extend admitted work, so they add no new records to a full memory.
            renew: script!(even_if_full: "clock", "record", "renew"),
            settle: script!(even_if_full: "settle_fast_path", "clock", "record", "settle"),
            release: script!(even_if_full: "clock", "record", "release"),
            inspect: script!(even_if_full: "clock", "record", "inspect"),
            health: script!("clock", "record", "health"),
            health_full: script!(even_if_full: "clock", "record", "health"),
            keep: script!("clock", "record", "keep"),
            // It writes nothing.
            publish: script!(even_if_full: "clock", "record", "publish"),
        }
    }

    /// Loads all of them.
    pub(crate) fn load(&self) -> Pipeline {
        let mut pipeline = redis::pipe();
        let Self { claim, claim_full, renew, settle, release, inspect, .. } = self;
        let Self { health, health_full, keep, publish, .. } = self;
        let ends = [renew, settle, release, inspect];
        let others = [claim, claim_full, health, health_full, keep, publish];
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
    /// The approximate size: only arguments can be long.
    pub(crate) fn bytes(&self) -> usize {
        let length = |arg: &Arg<'_>| match arg {
            Arg::Bytes(bytes) => bytes.len(),
            Arg::Number(_) => 0,
        };
        self.args.iter().map(length).sum()
    }

    /// Encodes the call by its hash.
    pub(crate) fn write_by_hash(&self, out: &mut Vec<u8>) {
        self.write(out, b"EVALSHA", self.script.hash.as_bytes());
    }

    /// Encodes the call with its text, for a server that may not know the script.
    pub(crate) fn write_with_text(&self, out: &mut Vec<u8>) {
        self.write(out, b"EVAL", self.script.code.as_bytes());
    }

    fn write(&self, out: &mut Vec<u8>, name: &[u8], script: &[u8]) {
        let head = [name, script, b"1", self.key, if self.confirm { b"1" } else { b"0" }];
        command::begin(out, head.len() + self.args.len());
        for part in head {
            command::bulk(out, part);
        }
        for arg in self.args {
            match arg {
                Arg::Bytes(bytes) => command::bulk(out, bytes),
                Arg::Number(number) => command::number(out, *number),
            }
        }
    }
}

/// The key of a record: the prefix, and its id in hexadecimal, so that operators can search for it.
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
