//! Resident memory of gateways.

use std::path::Path;

use anyhow::{Context as _, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::figures::Line;
use crate::http::load::PATH;
use crate::http::plain::Connection;
use crate::http::rounds::Stage;
use crate::http::subjects::{Kind, Subject};
use crate::http::tools::Tools;

const IDLE: usize = 2_000;
const ASKED_MB: f64 = 150.0;

/// A fresh gateway, with connections that each sent one request and stay.
pub(crate) fn measure(stage: &Stage, tools: &Tools, scratch: &Path) -> anyhow::Result<Line> {
    let upstream = stage.upstream().address;
    let gateway = Subject::gateway(Kind::Default, "idle", &tools.semel, upstream, scratch)?;
    let fresh = gateway.resident()?;
    let mut open = Vec::with_capacity(IDLE);
    for number in 0..IDLE {
        let connection = Connection::open(gateway.address);
        let mut connection = connection.with_context(|| format!("connection {number}"))?;
        ensure!(connection.get(PATH)?.status == 200, "connection {number} was refused");
        open.push(connection);
    }
    let megabytes = gateway.resident()?;
    let loaded = stage.subject(Kind::Power)?.resident()?;
    println!(
        "\nresident: {fresh:.0} MB fresh, {loaded:.0} MB after all first executions (`power`)"
    );
    Ok(Line {
        what: format!("resident memory with {} idle connections", open.len()),
        value: format!("{megabytes:.0} MB"),
        asked: "at most 150 MB".into(),
        reached: megabytes <= ASKED_MB,
    })
}

/// As many open files as this user may have, for this process and those it starts.
pub(crate) fn raise_limit() -> anyhow::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let enough = limit.maximum.is_none_or(|most| most >= 2 * IDLE as u64 + 500);
    ensure!(enough, "too few open files are allowed; raise the limit with: ulimit -Hn 8192");
    Ok(())
}
