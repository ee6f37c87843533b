//! What is sent, and the load generator that sends it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

pub(crate) const PATH: &str = "/v1/orders";
pub(crate) const CREDENTIALS: &str = "Bearer sk_bench_4242424242424242";
/// How many keys are replayed, in turn.
pub(crate) const SETTLED: u32 = 1_000;
const BODY_BYTES: usize = 200;

/// What kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// GET without a body.
    Get,
    /// POST with a key that was never used.
    First,
    /// POST with one of the keys that were settled before.
    Replay,
}

/// The load generator and its scripts.
pub(crate) struct Wrk {
    program: PathBuf,
    first: PathBuf,
    replay: PathBuf,
}

/// What one run of it says.
#[derive(Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) requests: u64,
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// Answers that were no success, or connections that failed: such a run says nothing.
    pub(crate) fault: Option<String>,
}

// === impl Wrk ===

impl Wrk {
    pub(crate) fn new(program: PathBuf, scratch: &Path) -> anyhow::Result<Self> {
        let (first, replay) = (scratch.join("first.lua"), scratch.join("replay.lua"));
        std::fs::write(&first, script(r#"seed .. "-" .. count"#))?;
        std::fs::write(&replay, script(&format!(r#""settled-" .. (count % {SETTLED})"#)))?;
        Ok(Self { program, first, replay })
    }

    /// Loads a proxy. `seed` makes the keys of this run different from those of all others.
    pub(crate) fn run(
        &self,
        load: Load,
        to: SocketAddr,
        connections: usize,
        seconds: u64,
        seed: &str,
    ) -> anyhow::Result<Report> {
        let mut command = Command::new(&self.program);
        command.args(["-t1", "--latency", "--timeout", "10s"]);
        command.arg(format!("-c{connections}")).arg(format!("-d{seconds}s"));
        match load {
            Load::Get => command.args(["-H", &format!("Authorization: {CREDENTIALS}")]),
            Load::First => command.arg("-s").arg(&self.first),
            Load::Replay => command.arg("-s").arg(&self.replay),
        };
        let output = command.arg(format!("http://{to}{PATH}")).args(["--", seed]).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let troubles = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "wrk failed and said:\n{said}{troubles}");
        parse(&said).with_context(|| format!("wrk said:\n{said}{troubles}"))
    }
}

/// The body of every POST.
pub(crate) fn body() -> String {
    let head = r#"{"amount":1000,"currency":"eur","customer":"c-7","description":""#;
    let tail = r#""}"#;
    format!("{head}{}{tail}", "d".repeat(BODY_BYTES - head.len() - tail.len()))
}

fn script(key: &str) -> String {
    let body = body();
    format!(
        r#"local body = [[{body}]]
local headers = {{ ["Content-Type"] = "application/json", ["Authorization"] = "{CREDENTIALS}" }}
local seed, count = "", 0

init = function(args) seed = args[1] end

request = function()
  count = count + 1
  headers["Idempotency-Key"] = {key}
  return wrk.format("POST", nil, headers, body)
end
"#
    )
}

fn parse(said: &str) -> anyhow::Result<Report> {
    let after = |mark: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(mark));
        line.map(str::trim).with_context(|| format!("no line {mark:?}"))
    };
    let requests = said.lines().find_map(|line| line.trim().split_once(" requests in "));
    let faults = ["Socket errors:", "Non-2xx or 3xx responses:"];
    let fault =
        said.lines().map(str::trim).filter(|line| faults.iter().any(|f| line.starts_with(f)));
    let fault = fault.collect::<Vec<_>>().join("; ");
    Ok(Report {
        requests: requests.context("no count")?.0.parse()?,
        per_second: after("Requests/sec:")?.parse()?,
        p50: duration(after("50%")?)?,
        p99: duration(after("99%")?)?,
        fault: (!fault.is_empty()).then_some(fault),
    })
}

fn duration(text: &str) -> anyhow::Result<Duration> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).context("no unit")?;
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => anyhow::bail!("an unknown unit: {unit}"),
    };
    Ok(Duration::from_secs_f64(number.parse::<f64>()? * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
Running 1s test @ http://127.0.0.1:9301/v1/orders
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     2.74ms    1.47ms  21.27ms   91.66%
  Latency Distribution
     50%    2.41ms
     75%    2.96ms
     90%    3.82ms
     99%  870.00us
  24563 requests in 1.10s, 9.53MB read
Requests/sec:  22328.71
Transfer/sec:      8.66MB
";

    #[test]
    fn reports_are_read() {
        let report = parse(SAID).expect("a report");
        assert_eq!((report.requests, report.fault), (24_563, None));
        assert!((report.per_second - 22_328.71).abs() < 0.01);
        assert_eq!(report.p50, Duration::from_micros(2_410));
        assert_eq!(report.p99, Duration::from_micros(870));
    }

    #[test]
    fn failures_are_found() {
        let said = SAID.replace(
            "Requests/sec",
            "  Socket errors: connect 0, read 3, write 0, timeout 0\n  Non-2xx or 3xx responses: 9\nRequests/sec",
        );
        let fault = parse(&said).expect("a report").fault.expect("a fault");
        assert!(fault.contains("read 3") && fault.contains("responses: 9"), "{fault}");
    }

    #[test]
    fn bodies_have_200_bytes() {
        assert_eq!(body().len(), 200);
    }
}
