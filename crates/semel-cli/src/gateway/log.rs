//! The log: to standard error, as text or JSON, without ever blocking the logging thread.

mod lines;
mod plain;

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use semel_gateway::config::LogFormat;
use tracing::Level;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::paint;
use lines::Lines;
use plain::Plain;

/// The log of this process.
pub(crate) struct Log {
    lines: Arc<Lines>,
}

// === impl Log ===

impl Log {
    /// Starts logging, for the whole process.
    pub(crate) fn start(level: Level, format: LogFormat) -> Self {
        let lines = Lines::start(io::stderr(), |count| {
            tracing::warn!(count, "log lines were dropped: standard error takes them too slowly");
        });
        let subscriber =
            tracing_subscriber::registry().with(filter(level)).with(layer(format, &lines));
        // It fails only if another was there first, and this is the only one.
        let _ = subscriber.try_init();
        Self { lines }
    }

    /// Writes what is left, for at most a second.
    pub(crate) fn finish(self) {
        self.lines.finish();
    }
}

/// Our own crates at the level; libraries only when something is wrong with them, or everything is
/// asked for.
fn filter(level: Level) -> Targets {
    let others = match level {
        Level::TRACE => LevelFilter::TRACE,
        Level::ERROR => LevelFilter::ERROR,
        _ => LevelFilter::WARN,
    };
    Targets::new().with_default(others).with_target("semel", level)
}

fn layer<S>(format: LogFormat, lines: &Arc<Lines>) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(lines.clone());
    match format {
        LogFormat::Text => {
            let has_colour = io::stderr().is_terminal() && !paint::is_refused();
            if has_colour {
                layer.with_ansi(true).boxed()
            } else {
                layer.with_ansi(false).event_format(Plain).boxed()
            }
        }
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_quiet_unless_everything_is_asked_for() {
        let info = filter(Level::INFO);
        assert!(info.would_enable("semel_http::observe", &Level::INFO));
        assert!(!info.would_enable("semel_http::observe", &Level::DEBUG));
        assert!(info.would_enable("hyper::proto", &Level::WARN));
        assert!(!info.would_enable("hyper::proto", &Level::INFO));
        assert!(!filter(Level::DEBUG).would_enable("lsm_tree", &Level::DEBUG));
        assert!(!filter(Level::ERROR).would_enable("lsm_tree", &Level::WARN));
        assert!(filter(Level::TRACE).would_enable("h2", &Level::TRACE));
    }
}
