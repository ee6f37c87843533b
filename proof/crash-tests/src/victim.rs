//! Starts, stops and kills writers.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use semel_embedded::Durability;
use tokio::time::Instant;

use crate::ledger::Ledger;

/// A running writer. Killed when dropped.
pub struct Victim {
    child: Child,
    lines: mpsc::Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

// === impl Victim ===

impl Victim {
    /// Starts a writer: `program` is the `semel-crash` binary.
    pub fn start(
        program: &Path,
        store: &Path,
        durability: Durability,
        run: u32,
    ) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .arg("writer")
            .arg(store)
            .args(["--run", &run.to_string()])
            .args([
                "--durability",
                if durability == Durability::Power { "power" } else { "process" },
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let stdout = child.stdout.take().context("the writer has no output")?;
        let (send, lines) = mpsc::channel();
        // Read on all the time: a writer must never wait for its pipe.
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, lines, reader: Some(reader) })
    }

    /// Waits until at least `count` further lines have come, and takes them down.
    pub fn wait_for(&mut self, count: usize, ledger: &mut Ledger) -> anyhow::Result<()> {
        for _ in 0..count {
            let line =
                self.lines.recv_timeout(Duration::from_mins(1)).context("the writer is silent")?;
            ledger.note(&line)?;
        }
        Ok(())
    }

    /// Takes down what has come so far.
    pub fn take_down(&mut self, ledger: &mut Ledger) -> anyhow::Result<()> {
        while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(20)) {
            ledger.note(&line)?;
        }
        Ok(())
    }

    /// Freezes the writer.
    pub fn stop(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a frozen writer go on.
    pub fn go_on(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// Kills the writer with no chance to clean up, and takes down its last words. Returns when that was.
    pub fn kill(mut self, ledger: &mut Ledger) -> anyhow::Result<Instant> {
        self.child.kill()?;
        let killed = Instant::now();
        self.child.wait()?;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let mut lines: Vec<String> = self.lines.try_iter().collect();
        // The kill may have cut the last line off.
        if lines.last().is_some_and(|line| line.split(' ').count() != 3) {
            lines.pop();
        }
        lines.iter().try_for_each(|line| ledger.note(line))?;
        Ok(killed)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("the writer has no process id")?, signal)?;
        Ok(())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
