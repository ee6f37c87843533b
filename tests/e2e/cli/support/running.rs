use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::eventually;

/// How long anything may take. A loaded machine is slow.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A process that is dead when the test is over.
pub(crate) struct Running {
    child: Child,
    pub(crate) out: Lines,
    pub(crate) err: Lines,
}

/// What a process says, line by line.
pub(crate) struct Lines {
    coming: mpsc::Receiver<String>,
    seen: Vec<String>,
}

// === impl Running ===

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let out = Lines::of(child.stdout.take().expect("standard output"));
        let err = Lines::of(child.stderr.take().expect("standard error"));
        Self { child, out, err }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a process to signal");
    }

    pub(crate) fn kill(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for the end.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        let status = eventually("the end of the process", || {
            self.child.try_wait().expect("a process to wait for")
        });
        status.code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

// === impl Lines ===

impl Lines {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let (lines, coming) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        Self { coming, seen: Vec::new() }
    }

    /// Waits for a line that contains this.
    pub(crate) fn wait_for(&mut self, part: &str) -> String {
        loop {
            let line = self.coming.recv_timeout(TIMEOUT).unwrap_or_else(|error| {
                panic!("never said {part:?} ({error}), but:\n{}", self.seen.join("\n"))
            });
            self.seen.push(line.clone());
            if line.contains(part) {
                return line;
            }
        }
    }

    /// All there is, from the start to the end of the process.
    pub(crate) fn all(&mut self) -> String {
        while let Ok(line) = self.coming.recv_timeout(TIMEOUT) {
            self.seen.push(line);
        }
        self.seen.join("\n")
    }

    pub(crate) fn seen(&self) -> &[String] {
        &self.seen
    }
}
