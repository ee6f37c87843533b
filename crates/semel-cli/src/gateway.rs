//! `semel gateway`.

mod log;
mod reload;

use std::io::Read as _;

use anyhow::{Context as _, anyhow};
use semel_gateway::admin::Metrics;
use semel_gateway::config::{Config, StoreChoice};
use semel_gateway::{Farewell, Gateway};
use tokio::sync::oneshot;

use crate::configuration::{self, Sources};
use crate::exit::{Failure, say};
use crate::signals::{Request, Signals};
use log::Log;
use reload::Reloader;

/// Serves as a gateway in front of an API.
///
/// A request that comes again with the same key gets the first answer back. Flags win over SEMEL_… environment variables, and those over the file.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    configuration: configuration::Given,
    /// Stop when standard input ends: so that a gateway does not outlive who started it.
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

const AFTER_HELP: &str = "\
Examples:
  semel gateway --upstream http://127.0.0.1:3000
  semel gateway --config /etc/semel/semel.toml
  semel gateway --config semel.toml --listen 0.0.0.0:8080 --admin off

Signals:
  SIGTERM, SIGINT   let no one in, answer what runs, then end; a second one ends at once
  SIGHUP            read the configuration again; if anything is wrong with it, the old one stays

Exit codes: 0 everything was answered, 1 it could not start or work was cut off, 2 wrong usage or
configuration (nothing was touched).";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let sources = arguments.configuration.sources();
    say(sources.named());
    // Before the configuration, whose routes look up their counters when they are made.
    let metrics = Metrics::install();
    let config = sources.load().map_err(|unusable| Failure::Wrong(unusable.to_string()))?;
    let log = Log::start(config.log, config.log_format);
    if let Some(bug) = semel_planted::which() {
        tracing::error!(bug = bug.as_str(), "A BUG IS PLANTED: THIS GATEWAY IS WRONG ON PURPOSE");
    }
    // One thread is enough here: the gateway serves on threads of its own. It lets clients in, moves
    // the bytes between them and a store on a server, and lives until the last outcome is settled.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    let stdin = arguments.until_stdin_closes.then(stdin_closed);
    let outcome = runtime.block_on(serve(sources, config, metrics, stdin));
    // What still runs was waited for, or is not worth waiting for.
    runtime.shutdown_background();
    log.finish();
    outcome
}

async fn serve(
    sources: Sources,
    config: Config,
    metrics: Metrics,
    stdin: Option<oneshot::Receiver<()>>,
) -> Result<(), Failure> {
    let mut signals = Signals::install()?;
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
            Request::Reload => reloader.reload(&mut gateway),
            Request::Stop(reason) => break reason,
        }
    };
    tracing::info!(reason, "stopping: no one is let in, what runs is answered");
    tokio::select! {
        farewell = gateway.shutdown() => judge(farewell),
        reason = signals.stop() => {
            tracing::warn!(reason, "stopped at once; work may have been cut off");
            Err(Failure::Told)
        }
    }
}

/// Tests and people wait for the first line; machines read the second.
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

fn judge(farewell: Farewell) -> Result<(), Failure> {
    let Farewell { connections, executions } = farewell;
    if connections == 0 && executions == 0 {
        tracing::info!("gateway stopped; everything was answered");
        return Ok(());
    }
    tracing::warn!(connections, executions, "gateway stopped; this much was cut off");
    Err(Failure::Told)
}

/// Tells when standard input ends. It is read on a thread that dies with the process: there is no
/// way to stop waiting for it.
fn stdin_closed() -> oneshot::Receiver<()> {
    let (closed, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut scrap = [0; 64];
        while std::io::stdin().read(&mut scrap).is_ok_and(|count| count > 0) {}
        // Nobody listens any more once the gateway stops for another reason.
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
