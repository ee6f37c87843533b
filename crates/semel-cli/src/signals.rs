//! Signals to a serving process.

use std::io;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals, from the moment this is made: before, they end the process.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// What a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Drain and exit: SIGTERM, SIGINT.
    Stop(&'static str),
    /// Reload the configuration: SIGHUP.
    Reload,
}

// === impl Signals ===

impl Signals {
    pub(crate) fn install() -> anyhow::Result<Self> {
        let install = || -> io::Result<Self> {
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                hang_up: signal(SignalKind::hangup())?,
            })
        };
        install().context("signals cannot be caught")
    }

    pub(crate) async fn next(&mut self) -> Request {
        tokio::select! {
            _ = self.terminate.recv() => Request::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Request::Stop("SIGINT"),
            _ = self.hang_up.recv() => Request::Reload,
        }
    }

    /// The next signal, for a command without a reload: SIGHUP ends it, too.
    pub(crate) async fn end(&mut self) -> &'static str {
        match self.next().await {
            Request::Stop(name) => name,
            Request::Reload => "SIGHUP",
        }
    }

    /// The next signal that requests a stop; others are ignored.
    pub(crate) async fn stop(&mut self) -> &'static str {
        loop {
            if let Request::Stop(name) = self.next().await {
                return name;
            }
        }
    }
}
