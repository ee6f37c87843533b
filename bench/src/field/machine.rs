//! Where and with what figures were taken.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::http::procfs;
use crate::http::subjects;
use crate::http::tools::{Tools, said};

/// A few lines for the head of a part.
pub(crate) fn describe(tools: &Tools, command: &str, scratch: &Path) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let today = said(Command::new("date").args(["-u", "+%Y-%m-%d"]));
    let redis = said(Command::new("redis-server").arg("--version"));
    let postgres = said(Command::new("psql").arg("--version"));
    format!(
        "- Machine: {cores} cores ({}), {:.0} GiB of memory, Linux {}; load average before the run: {}.\n\
         - Disk: the embedded store is on {}, the servers are on {}.\n\
         - Versions: {}, {}, PostgreSQL {}, {}. Those of the peers and their frameworks are pinned in \
         `bench/peers`.\n\
         - Taken on {today} from {} with `{command}`.\n",
        processor_name(&processor),
        memory_gib(&memory),
        kernel.trim(),
        procfs::load_average(),
        file_system(scratch),
        file_system(&std::env::temp_dir()),
        tools.versions(),
        short_redis(&redis),
        first_number(&postgres),
        subjects::versions(),
        sources(),
    )
}

/// On one in memory a sync costs nothing.
fn file_system(at: &Path) -> String {
    said(Command::new("stat").args(["-f", "-c", "%T"]).arg(at))
}

/// The commit that is checked out, and whether the programs may differ from it.
fn sources() -> String {
    let git = |arguments: &[&str]| {
        said(Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments))
    };
    let commit = git(&["rev-parse", "--short", "HEAD"]);
    if commit.starts_with("fatal") {
        return "sources without a commit".to_owned();
    }
    match git(&["status", "--porcelain", "--", ".", "../crates", "../Cargo.lock"]).as_str() {
        // Its first line, if there is one.
        "" | "?" => format!("commit {commit}"),
        _ => format!("commit {commit}, with changes"),
    }
}

/// The command as it was typed, but for where programs and files are.
pub(crate) fn command() -> String {
    let typed = std::env::args().skip(1).collect();
    format!("cargo run --release -p semel-bench -- {}", public(typed).join(" "))
}

fn public(mut typed: Vec<String>) -> Vec<String> {
    for private in ["--semel", "--directory", "--output"] {
        let at = typed.iter().position(|word| word == private).map(|at| at + 1);
        if let Some(value) = at.and_then(|at| typed.get_mut(at)) {
            "…".clone_into(value);
        }
        let together = format!("{private}=");
        if let Some(word) = typed.iter_mut().find(|word| word.starts_with(&together)) {
            *word = together + "…";
        }
    }
    let quoted = |word: String| if word.contains(' ') { format!("\"{word}\"") } else { word };
    typed.into_iter().map(quoted).collect()
}

fn memory_gib(meminfo: &str) -> f64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) / 1_024.0 / 1_024.0
}

fn processor_name(cpuinfo: &str) -> &str {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, name)| name)
}

/// `psql (PostgreSQL) 15.18 (Debian …)` as `15.18`.
fn first_number(said: &str) -> &str {
    said.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit())).unwrap_or("?")
}

/// `Redis server v=7.0.15 sha=…` as `Redis 7.0.15`.
fn short_redis(said: &str) -> String {
    let version = said.split_whitespace().find_map(|word| word.strip_prefix("v="));
    format!("Redis {}", version.unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_places_to_itself() {
        let typed = ["all", "--semel", "/x/semel", "--only", "gateway, Redis", "--output=/x"];
        let shown = public(typed.map(str::to_owned).to_vec());
        assert_eq!(shown, ["all", "--semel", "…", "--only", "\"gateway, Redis\"", "--output=…"]);
    }

    #[test]
    fn system_information_is_parsed() {
        assert!((memory_gib("MemTotal:       25165824 kB\nMemFree: 1 kB") - 24.0).abs() < 0.01);
        assert_eq!(
            processor_name("vendor_id : X\nmodel name\t: Some CPU @ 2 GHz\n"),
            "Some CPU @ 2 GHz"
        );
        assert_eq!(first_number("psql (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"), "15.18");
        assert_eq!(short_redis("Redis server v=7.0.15 sha=00000000:0 malloc=x"), "Redis 7.0.15");
    }
}
