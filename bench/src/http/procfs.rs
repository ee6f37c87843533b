//! What the kernel knows of a process.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// The process and all below it.
pub(crate) fn tree(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        for task in tasks(pid) {
            let children = fs::read_to_string(format!("{task}/children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    found
}

/// Processor time of the process and all below it: of every thread, in nanoseconds.
pub(crate) fn cpu_time(pid: u32) -> Duration {
    let spent = tree(pid).into_iter().flat_map(tasks).map(|task| {
        // A thread that ended meanwhile takes its time with it.
        let line = fs::read_to_string(format!("{task}/schedstat")).unwrap_or_default();
        line.split(' ').next().and_then(|spent| spent.parse().ok()).unwrap_or(0)
    });
    Duration::from_nanos(spent.sum())
}

/// Resident memory in megabytes.
pub(crate) fn resident(pid: u32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
    Ok(kib.parse::<f64>()? * 1_024.0 / 1e6)
}

pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn tasks(pid: u32) -> Vec<String> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    entries.filter_map(|entry| Some(entry.ok()?.path().display().to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_time_and_memory() {
        let own = std::process::id();
        assert!(tree(own).contains(&own));
        assert!(cpu_time(own) > Duration::ZERO);
        assert!(resident(own).expect("a figure") > 0.5);
    }
}
