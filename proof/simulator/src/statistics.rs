use std::fmt;
use std::time::Duration;

use crate::Fault;

/// What happened in one run or in many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// How many seeds were run.
    pub seeds: u64,
    /// How many lines their traces have.
    pub events: u64,
    /// How many pieces of work were begun under a lease.
    pub executions: u64,
    /// How many were begun without protection.
    pub bypassed: u64,
    /// How many answers clients got.
    pub answers: u64,
    /// How many of them were replays.
    pub replays: u64,
    /// How many lives records had.
    pub lives: u64,
    /// How many leases were granted to an attempt that was over: by claims that came late.
    pub ghosts: u64,
    /// How much time passed in the simulation.
    pub simulated: Duration,
    faults: [u64; Fault::ALL.len()],
}

// === impl Statistics ===

impl Statistics {
    /// How often a kind of fault was met.
    pub const fn faults(&self, kind: Fault) -> u64 {
        self.faults[kind as usize]
    }

    pub(crate) const fn count(&mut self, kind: Fault) {
        self.faults[kind as usize] += 1;
    }

    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.events += other.events;
        self.executions += other.executions;
        self.bypassed += other.bypassed;
        self.answers += other.answers;
        self.replays += other.replays;
        self.lives += other.lives;
        self.ghosts += other.ghosts;
        self.simulated += other.simulated;
        for (mine, theirs) in self.faults.iter_mut().zip(other.faults) {
            *mine += theirs;
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_seed = self.events / self.seeds.max(1);
        writeln!(f, "seeds      {:>12}", self.seeds)?;
        writeln!(f, "events     {:>12}   {per_seed} a seed", self.events)?;
        writeln!(f, "executions {:>12}   and {} bypassed", self.executions, self.bypassed)?;
        writeln!(f, "answers    {:>12}   {} of them replays", self.answers, self.replays)?;
        writeln!(f, "lives      {:>12}   {} ghost leases", self.lives, self.ghosts)?;
        writeln!(f, "simulated  {:>12.1} days", self.simulated.as_secs_f64() / 86_400.0)?;
        f.write_str("faults")?;
        for kind in Fault::ALL {
            write!(f, "\n  {:<16} {:>10}", kind.name(), self.faults(kind))?;
        }
        Ok(())
    }
}
