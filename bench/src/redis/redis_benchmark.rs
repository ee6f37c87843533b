//! redis-benchmark on the same server.

use std::process::Command;

use anyhow::{Context as _, ensure};
use semel_testserver::Redis;

macro_rules! lua {
    ($($part:literal),+) => {
        concat!($(include_str!(concat!("../../../crates/semel-redis/lua/", $part, ".lua"))),+)
    };
}

/// As the store puts them together.
const CLAIM: &str = lua!("layout", "clock", "claim_fast_path", "record", "claim");
const SETTLE: &str = lua!("layout", "settle_fast_path", "clock", "record", "settle");
const MOMENT: &str = lua!("layout", "clock");

const FINGERPRINT: &str = "0123456789abcdef0123456789abcdef";
const OWNER: &str = "0123456789abcdef";
/// The number of keys to draw unclaimed ones from: so many that none comes twice.
const FRESH: u64 = 1_000_000_000_000;
/// And those that are leased: so many that few come twice.
const LEASED: u64 = 300_000;
const LEASE_ALL: &str = "
local head = struct.pack(HEAD, VERSION, LEASED, 1, now, now + 86400000, now + 30000, ARGV[3], ARGV[2])
for number = 0, tonumber(ARGV[4]) - 1 do
  redis.call('SET', string.format('semel:%012d', number), head, 'PXAT', now + 86399999)
end";
/// About what the server does in a second.
const PER_SECOND: u64 = 30_000;

/// The two scripts of a pair, by their hashes.
pub(crate) struct RedisBenchmark<'a> {
    server: &'a Redis,
    clients: usize,
    claim: String,
    settle: String,
}

// === impl RedisBenchmark ===

impl<'a> RedisBenchmark<'a> {
    pub(crate) fn new(server: &'a Redis, clients: usize) -> anyhow::Result<Self> {
        let load = |script| server.cli(&["SCRIPT", "LOAD", &format!("#!lua\n{script}")]);
        Ok(Self { server, clients, claim: load(CLAIM)?, settle: load(SETTLE)? })
    }

    /// Claims of fresh keys, and settles of keys that are leased, each without pipelining: pairs per second.
    pub(crate) fn pairs(&self, seconds: u64) -> anyhow::Result<f64> {
        let count = seconds * PER_SECOND / 2;
        let claim = ["30000", "86400000", "0"];
        let claims = self.run(FRESH, count, &self.claim, &claim)?;
        self.lease()?;
        let outcome = "x".repeat(302);
        let settles = self.run(LEASED, count, &self.settle, &["1", "3", &outcome])?;
        Ok(1.0 / (1.0 / claims + 1.0 / settles))
    }

    /// Leases all keys that are settled next.
    fn lease(&self) -> anyhow::Result<()> {
        let script = format!("{MOMENT}{LEASE_ALL}");
        self.server.cli(&["EVAL", &script, "0", "0", FINGERPRINT, OWNER, &LEASED.to_string()])?;
        Ok(())
    }

    fn run(&self, keys: u64, count: u64, script: &str, args: &[&str]) -> anyhow::Result<f64> {
        let output = Command::new("redis-benchmark")
            .args(["--csv", "-r", &keys.to_string()])
            .args(["-p", &self.server.port().to_string(), "-c", &self.clients.to_string()])
            .args(["-n", &count.to_string(), "EVALSHA", script, "1", "semel:__rand_int__"])
            .args(["0", FINGERPRINT, OWNER])
            .args(args)
            .output()
            .context("redis-benchmark; install it with: sudo apt-get install redis-tools")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said.lines().last().unwrap_or_default();
        // The command, in quotes and with commas of its own perhaps, and then figures in quotes.
        let mut figures = line.rsplit("\",\"");
        let rate = figures.nth(6).unwrap_or_default().trim_matches('"');
        rate.parse().with_context(|| format!("no rate in {said}"))
    }
}
