//! `semel gateway`.

mod log;
mod reload;

use std::io::Read as _;

use anyhow::{Context as _, anyhow};
use semel_gateway::admin::Metrics;
use semel_gateway::config::{Config, StoreChoice};
use semel_gateway::descriptors::raise;
use semel_gateway::{Gateway, ShutdownReport};
use tokio::sync::oneshot;

use crate::configuration::{self, Sources};
use crate::exit::{Failure, say};
use crate::signals::{Request, Signals};
use log::Log;
use reload::Reloader;

/// Serves as a gateway in front of an API.
///
/// A retry with the same key gets the first response back. Flags win over SEMEL_… environment variables, and those over the file.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    configuration: configuration::Given,
    /// Stop when standard input ends, so that a gateway does not outlive its parent process.
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

const AFTER_HELP: &str = "\
Examples:
  semel gateway --upstream http://127.0.0.1:3000
  semel gateway --config /etc/semel/semel.toml
  semel gateway --config semel.toml --listen 0.0.0.0:8080 --admin off

Signals:
  SIGTERM, SIGINT   drain: refuse new connections, complete requests in flight, exit; a second one exits at once
  SIGHUP            reload the configuration; if it is invalid, the old one stays in effect

Exit codes: 0 all requests were completed, 1 it could not start or work was cut off, 2 wrong usage or
configuration (nothing was touched).";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let sources = arguments.configuration.sources();
    say(sources.named());
    let config = sources.load().map_err(|unusable| Failure::Wrong(unusable.to_string()))?;
    let log = Log::start(config.log, config.log_format);
    if let Some(bug) = semel_core::planted::which() {
        tracing::error!(bug = bug.as_str(), "A BUG IS PLANTED: THIS GATEWAY IS WRONG ON PURPOSE");
    }
    let (before, now) = raise();
    if before != now {
        tracing::info!(before, now, "the limit of file descriptors was raised");
    }
    // One thread is enough here: the gateway serves on threads of its own. This one accepts clients, does
    // the I/O of a store on a server, and runs until the last outcome is settled.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    let stdin = arguments.until_stdin_closes.then(stdin_closed);
    let outcome = runtime.block_on(serve(sources, config, stdin));
    // Remaining tasks have had their time to finish.
    runtime.shutdown_background();
    log.finish();
    outcome
}

async fn serve(
    sources: Sources,
    config: Config,
    stdin: Option<oneshot::Receiver<()>>,
) -> Result<(), Failure> {
    let mut signals = Signals::install()?;
    let metrics = Metrics::install();
    tokio::spawn(metrics.clone().upkeep());
    let started = tokio::select! {
        started = Gateway::start(config.clone(), metrics) => started,
        // A store on a server may take its time to answer.
        reason = signals.stop() => {
            tracing::info!(reason, "stopped before it had started");
            return Ok(());
        }
    };
    // The message has the cause in it already.
    let mut gateway = started.map_err(|error| anyhow!("{error}"))?;
    announce(&gateway, &config);
    let mut reloader = Reloader::new(sources, config);
    let stdin = closed(stdin);
    tokio::pin!(stdin);
    let reason = loop {
        let request = tokio::select! {
            request = signals.next() => request,
            () = &mut stdin => Request::Stop("the end of standard input"),
        };
        match request {
            Request::Reload => reloader.reload(&mut gateway).await,
            Request::Stop(reason) => break reason,
        }
    };
    tracing::info!(reason, "draining: no new connections, in-flight requests will complete");
    tokio::select! {
        report = gateway.shutdown() => judge(report),
        reason = signals.stop() => {
            tracing::warn!(reason, "stopped at once; work may have been cut off");
            Err(Failure::Reported)
        }
    }
}

/// The first line is for users and tests to wait for; the second is structured.
fn announce(gateway: &Gateway, config: &Config) {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let listen = gateway.listen();
    let admin = gateway.admin().map_or_else(|| "off".to_owned(), |at| format!("http://{at}"));
    say(format!("semel gateway listening on {scheme}://{listen} (admin {admin})"));
    let (upstream, store, workers) = (&config.upstream, &config.store, config.worker_count());
    let store = store.to_string();
    tracing::info!(%listen, admin, %upstream, store, workers, "gateway started");
    if config.store == StoreChoice::Memory {
        tracing::warn!("records are kept in memory: they are lost when the process ends");
    }
}

fn judge(report: ShutdownReport) -> Result<(), Failure> {
    let ShutdownReport { connections, executions } = report;
    if connections == 0 && executions == 0 {
        tracing::info!("gateway stopped; all requests were completed");
        return Ok(());
    }
    tracing::warn!(connections, executions, "gateway stopped; this work was cut off");
    Err(Failure::Reported)
}

/// Completes when standard input ends. It is read on a thread that ends with the process: a read
/// cannot be cancelled.
fn stdin_closed() -> oneshot::Receiver<()> {
    let (closed, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut scrap = [0; 64];
        while std::io::stdin().read(&mut scrap).is_ok_and(|count| count > 0) {}
        // The receiver is gone if the gateway stops for another reason.
        let _ = closed.send(());
    });
    receiver
}

async fn closed(stdin: Option<oneshot::Receiver<()>>) {
    match stdin {
        Some(closed) => drop(closed.await),
        None => std::future::pending().await,
    }
}
