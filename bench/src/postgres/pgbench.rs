//! pgbench on the same server.

use std::io::Write as _;
use std::process::Command;

use anyhow::{Context as _, ensure};
use semel_testserver::Postgres;
use tempfile::NamedTempFile;

/// An id of 32 bytes that costs the server next to nothing to make.
pub(crate) fn id_sql(number: &str) -> String {
    let part = format!("int8send({number}::bigint)");
    [part.as_str(); 4].join(" || ")
}

/// A claim of a fresh key and its settle: the statements of the store.
pub(crate) const PAIR: &str = "\\set n random(1, 9000000000000000)
SELECT CASE WHEN r.state >= 3 AND r.fingerprint = {id} AND r.expires > semel.now_ms()
            THEN NULL
            ELSE semel.claim({id}, {id}, 'a0000000-0000-0000-0000-000000000001', 30000, 86400000,
                             0::smallint, r.id IS NOT NULL) END,
       r.expires, r.state, r.result, r.reply
FROM (SELECT 1) one LEFT JOIN semel.record r ON r.id = {id};
SELECT verdict, expires, state, result, reply
FROM semel.settle({id}, {id}, 'a0000000-0000-0000-0000-000000000001', 1, 3::smallint, NULL,
                  decode(repeat('ab', 300), 'hex'));
";

/// A look at a settled record.
pub(crate) const SELECT: &str = "\\set n random(1, 100000)
SELECT fingerprint, owner, created, fence, until, expires, state, result, reply
FROM semel.record WHERE id = {id};
";

pub(crate) struct Pgbench<'a> {
    server: &'a Postgres,
    script: NamedTempFile,
}

// === impl Pgbench ===

impl<'a> Pgbench<'a> {
    pub(crate) fn new(server: &'a Postgres, script: &str) -> anyhow::Result<Self> {
        let mut file = NamedTempFile::new()?;
        file.write_all(script.replace("{id}", &id_sql(":n")).as_bytes())?;
        Ok(Self { server, script: file })
    }

    /// Transactions per second.
    pub(crate) fn run(&self, clients: usize, seconds: u64) -> anyhow::Result<f64> {
        let output = Command::new(self.server.bin("pgbench"))
            .args(["-n", "-M", "prepared", "-j", "2", "-c", &clients.to_string()])
            .args(["-T", &seconds.to_string(), "-f"])
            .arg(self.script.path())
            .arg(self.server.url())
            .output()
            .context("pgbench")?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let line = said.lines().find_map(|line| line.strip_prefix("tps = ")).context("no tps")?;
        let number = line.split(' ').next().unwrap_or_default();
        number.parse().with_context(|| format!("tps = {line}"))
    }
}
