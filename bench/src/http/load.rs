//! What is sent, and the load generator that sends it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

pub(crate) const PATH: &str = "/v1/orders";
pub(crate) const CREDENTIALS: &str = "Bearer sk_bench_4242424242424242";
/// The bytes of a body, unless something else is asked for.
pub(crate) const BODY_BYTES: usize = 200;
/// How often each key comes if duplicates are sent.
pub(crate) const COPIES: u64 = 50;
/// What all replies that are replayed take together, at most, unless they are very large.
const REPLAYED_BYTES: usize = 20_000_000;

/// What kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// GET without a body.
    Get,
    /// POST with a key that was never used.
    First,
    /// POST with one of the keys that were settled before.
    Replay,
    /// POST with a key that was never used, many times one after the other on all connections.
    Duplicates,
}

/// The load generator.
pub(crate) struct Wrk {
    program: PathBuf,
    script: PathBuf,
}

/// One run of it.
pub(crate) struct Shot<'a> {
    pub(crate) load: Load,
    pub(crate) to: SocketAddr,
    pub(crate) connections: usize,
    pub(crate) seconds: u64,
    /// Makes the keys of this run different from those of all others.
    pub(crate) seed: &'a str,
    /// Sessions, if an app needs one; a key always uses the same.
    pub(crate) cookies: &'a [String],
    /// The size of bodies, both ways if it is not the usual one.
    pub(crate) bytes: usize,
    /// Looks at every status, which costs time: for runs that are not counted.
    pub(crate) looks: bool,
}

/// What one run of it says.
#[derive(Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) requests: u64,
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// How many different keys were sent.
    pub(crate) keys: u64,
    /// Answers that were no success.
    pub(crate) refused: u64,
    /// What makes the run say nothing: connections that failed, or answers that should not be.
    pub(crate) fault: Option<String>,
}

// === impl Load ===

impl Load {
    /// The number in the key of request `count`, in Lua.
    fn number(self, bytes: usize) -> String {
        match self {
            Self::Get | Self::First => "count".to_owned(),
            Self::Replay => format!("count % {}", settled(bytes)),
            Self::Duplicates => format!("math.floor((count - 1) / {COPIES})"),
        }
    }
}

// === impl Wrk ===

impl Wrk {
    pub(crate) fn new(program: PathBuf, scratch: &Path) -> Self {
        Self { program, script: scratch.join("load.lua") }
    }

    pub(crate) fn run(&self, shot: &Shot<'_>) -> anyhow::Result<Report> {
        let mut command = Command::new(&self.program);
        command.args(["-t1", "--latency", "--timeout", "10s"]);
        command.arg(format!("-c{}", shot.connections)).arg(format!("-d{}s", shot.seconds));
        if shot.load == Load::Get {
            command.args(["-H", &format!("Authorization: {CREDENTIALS}")]);
        } else {
            std::fs::write(&self.script, script(shot))?;
            command.arg("-s").arg(&self.script);
        }
        let output = command.arg(format!("http://{}{}", shot.to, path(shot.bytes))).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let troubles = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "wrk failed and said:\n{said}{troubles}");
        parse(&said, shot.load).with_context(|| format!("wrk said:\n{said}{troubles}"))
    }
}

// === impl Shot ===

impl<'a> Shot<'a> {
    pub(crate) fn new(
        load: Load,
        to: SocketAddr,
        connections: usize,
        seconds: u64,
        seed: &'a str,
    ) -> Self {
        let (cookies, bytes, looks) = (&[], BODY_BYTES, false);
        Self { load, to, connections, seconds, seed, cookies, bytes, looks }
    }
}

/// The body of every POST: JSON of this size.
pub(crate) fn body(bytes: usize) -> String {
    let head = r#"{"amount":1000,"currency":"eur","customer":"c-7","description":""#;
    let tail = r#""}"#;
    format!("{head}{}{tail}", "d".repeat(bytes.saturating_sub(head.len() + tail.len())))
}

/// Where it is sent. Only the bench's own upstream can be asked for answers of another size.
pub(crate) fn path(bytes: usize) -> String {
    match bytes {
        BODY_BYTES => PATH.to_owned(),
        _ => format!("{PATH}?bytes={bytes}"),
    }
}

/// How many keys are replayed, in turn.
pub(crate) fn settled(bytes: usize) -> usize {
    (REPLAYED_BYTES / bytes.max(1)).clamp(20, 1_000)
}

/// What the keys begin with that are replayed.
pub(crate) fn settled_prefix(bytes: usize) -> String {
    format!("settled-{bytes}-")
}

fn script(shot: &Shot<'_>) -> String {
    let (body, number) = (body(shot.bytes), shot.load.number(shot.bytes));
    let prefix = match shot.load {
        Load::Replay => settled_prefix(shot.bytes),
        _ => format!("{}-", shot.seed),
    };
    let cookies: Vec<String> = shot.cookies.iter().map(|cookie| format!("\"{cookie}\"")).collect();
    let cookies = cookies.join(", ");
    let looks = if shot.looks { LOOKS } else { "" };
    format!(
        r#"local body = [[{body}]]
local headers = {{ ["Content-Type"] = "application/json", ["Authorization"] = "{CREDENTIALS}" }}
local cookies = {{ {cookies} }}
local thread
count, odd, number = 0, 0, 0

setup = function(one) thread = one end

request = function()
  count = count + 1
  number = {number}
  headers["Idempotency-Key"] = "{prefix}" .. number
  if #cookies > 0 then headers["Cookie"] = cookies[number % #cookies + 1] end
  return wrk.format("POST", nil, headers, body)
end
{looks}
done = function()
  print("Last key: " .. thread:get("number"))
  print("Odd answers: " .. thread:get("odd"))
end
"#
    )
}

/// A success or a conflict, and nothing else.
const LOOKS: &str = "
response = function(status)
  if status ~= 201 and status ~= 409 then odd = odd + 1 end
end
";

fn parse(said: &str, load: Load) -> anyhow::Result<Report> {
    let after = |mark: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(mark));
        line.map(str::trim).with_context(|| format!("no line {mark:?}"))
    };
    let figure = |mark: &str| after(mark).ok().and_then(|text| text.parse::<u64>().ok());
    let requests = said.lines().find_map(|line| line.trim().split_once(" requests in "));
    let refused = figure("Non-2xx or 3xx responses:").unwrap_or(0);
    let mut faults = Vec::new();
    faults.extend(after("Socket errors:").ok().map(|errors| format!("socket errors: {errors}")));
    if refused > 0 && load != Load::Duplicates {
        faults.push(format!("{refused} answers were no success"));
    }
    if let Some(odd @ 1..) = figure("Odd answers:") {
        faults.push(format!("{odd} answers were neither 201 nor 409"));
    }
    Ok(Report {
        requests: requests.context("no count")?.0.parse()?,
        per_second: after("Requests/sec:")?.parse()?,
        p50: duration(after("50%")?)?,
        p99: duration(after("99%")?)?,
        keys: figure("Last key:").map_or(0, |last| last + 1),
        refused,
        fault: (!faults.is_empty()).then(|| faults.join("; ")),
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
Last key: 491
Odd answers: 0
";

    #[test]
    fn reports_are_read() {
        let report = parse(SAID, Load::First).expect("a report");
        assert_eq!((report.requests, report.keys, report.fault), (24_563, 492, None));
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
        let fault = parse(&said, Load::First).expect("a report").fault.expect("a fault");
        assert!(fault.contains("read 3") && fault.contains("9 answers"), "{fault}");
    }

    #[test]
    fn a_duplicate_may_be_refused_with_409_alone() {
        let said = SAID.replace("Requests/sec", "  Non-2xx or 3xx responses: 9\nRequests/sec");
        let report = parse(&said, Load::Duplicates).expect("a report");
        assert_eq!((report.refused, report.fault), (9, None));
        let said = said.replace("Odd answers: 0", "Odd answers: 2");
        assert!(parse(&said, Load::Duplicates).expect("a report").fault.is_some());
    }

    #[test]
    fn bodies_have_the_bytes_that_are_asked_for() {
        assert_eq!(body(BODY_BYTES).len(), 200);
        assert_eq!(body(1_000_000).len(), 1_000_000);
        assert_eq!((settled(200), settled(1_000_000)), (1_000, 20));
    }

    #[test]
    fn a_key_always_comes_with_the_same_session() {
        let to = SocketAddr::from(([127, 0, 0, 1], 80));
        let mut shot = Shot::new(Load::Duplicates, to, 1, 1, "seed");
        assert!(!script(&shot).contains("response ="), "looking is for runs that do not count");
        shot.looks = true;
        let script = script(&shot);
        assert!(script.contains("response ="), "{script}");
        assert!(script.contains("number = math.floor((count - 1) / 50)"), "{script}");
        assert!(script.contains("cookies[number % #cookies + 1]"), "{script}");
    }
}
