//! Processes that are dead when their test is over.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::eventually_within;

/// How long a start or an end may take. A loaded machine is slow.
const LIMIT: Duration = Duration::from_mins(1);
/// How long a process may take to end what it has started, when it is dropped.
const GRACE: Duration = Duration::from_secs(2);

/// A process, and what it says. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    has_grace: bool,
    /// Its standard output.
    pub out: Lines,
    /// Its standard error.
    pub err: Lines,
}

/// What a process says, line by line.
#[derive(Debug)]
pub struct Lines {
    said: Arc<Mutex<Vec<String>>>,
    /// What was not looked through by [`wait_for`](Self::wait_for) begins here.
    next: usize,
    reader: JoinHandle<()>,
}

// === impl Process ===

impl Process {
    /// Starts it.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let out = Lines::of(child.stdout.take().expect("standard output"));
        let err = Lines::of(child.stderr.take().expect("standard error"));
        Self { child, has_grace: false, out, err }
    }

    /// When it is dropped, it is asked to end before it is killed: a script ends what it has started.
    #[must_use]
    pub fn with_grace(mut self) -> Self {
        self.has_grace = true;
        self
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The same, for the system's calls.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// SIGTERM, SIGHUP and others.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a process to signal");
    }

    /// `kill -9`, and its end. It may have ended before.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// How it has ended, if it has.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a process to wait for")
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        eventually_within(LIMIT, "the process ends", || self.has_ended())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.has_grace && self.has_ended().is_none() {
            self.signal(Signal::TERM);
            let step = Duration::from_millis(10);
            let mut left = GRACE;
            while !left.is_zero() && self.has_ended().is_none() {
                thread::sleep(step);
                left -= step;
            }
        }
        self.kill();
    }
}

// === impl Lines ===

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let said = Arc::<Mutex<Vec<String>>>::default();
        let lines = said.clone();
        let reader = thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                lines.lock().expect("lines").push(line);
            }
        });
        Self { said, next: 0, reader }
    }

    /// Waits for a line with this in it, after the one that was waited for last.
    pub fn wait_for(&mut self, part: &str) -> String {
        eventually_within(LIMIT, part, || {
            // In this order: what has ended has said everything.
            let is_over = self.reader.is_finished();
            let said = self.said.lock().expect("lines");
            let found = said[self.next..].iter().position(|line| line.contains(part));
            assert!(found.is_some() || !is_over, "never said {part:?}, but:\n{}", said.join("\n"));
            self.next = found.map_or(said.len(), |at| self.next + at + 1);
            found.map(|_| said[self.next - 1].clone())
        })
    }

    /// All so far.
    pub fn so_far(&self) -> String {
        self.said.lock().expect("lines").join("\n")
    }

    /// All there is, from the start to the end of the process.
    pub fn all(&self) -> String {
        eventually_within(LIMIT, "all is said", || self.reader.is_finished().then_some(()));
        self.so_far()
    }
}
