//! `semel demo`.

mod client;
mod instructions;
mod live;
mod payments;
mod process;
mod screen;
mod stage;
mod tally;
mod tour;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;

use crate::exit::Failure;
use crate::signals::Signals;
use payments::Behaviour;
use stage::Stage;

/// Starts a payments API with the gateway in front, and says what to try.
///
/// A retry, a changed request, fifty at once, and kill -9 in the middle of a charge. The API and its ledger live in this process. The gateway is a process of its own, which is
/// started again when it dies.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The gateway's address; port 0 takes a free one [default: 127.0.0.1:8080, or a free port]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The directory of the demo: the gateway's store, configuration and log. Made if missing
    #[arg(long, default_value = "./semel-demo")]
    directory: PathBuf,
    /// How long the API takes for a charge, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(..=20_000))]
    delay: u64,
    /// How often the API fails with 500 before it charges, from 0 to 1
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    failure_rate: f64,
    /// Play everything once, check it, and end
    #[arg(long)]
    tour: bool,
}

const AFTER_HELP: &str = "\
Examples:
  semel demo                      serve until Ctrl-C, and copy the printed lines into a second shell
  semel demo --tour               play them all, in ten seconds
  semel demo --failure-rate 0.5   an API that fails half of the time";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    let outcome = runtime.block_on(play(arguments));
    runtime.shutdown_background();
    Ok(outcome?)
}

async fn play(arguments: &Arguments) -> anyhow::Result<()> {
    let mut signals = Signals::install()?;
    let behaviour = Behaviour {
        delay: Duration::from_millis(arguments.delay),
        failure_rate: arguments.failure_rate,
    };
    let mut stage = tokio::select! {
        stage = Stage::set(&arguments.directory, arguments.listen, behaviour) => stage?,
        name = signals.end() => anyhow::bail!("stopped by {name} before it began"),
    };
    let outcome = if arguments.tour {
        tokio::select! {
            outcome = tour::play(&mut stage) => outcome,
            name = signals.end() => Err(anyhow::anyhow!("the tour was stopped by {name}")),
        }
    } else {
        live::play(&mut stage, &mut signals).await
    };
    tokio::select! {
        () = stage.close() => outcome,
        name = signals.end() => anyhow::bail!("stopped at once by {name}"),
    }
}

fn probability(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(p),
        _ => Err("write a number from 0 (never) to 1 (always), such as 0.5".to_owned()),
    }
}
