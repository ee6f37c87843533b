//! `semel demo`: a shop that charges cards, on a durable store, in five scenes.

mod bank;
mod crash;
mod scenes;
mod shop;

use std::path::PathBuf;

/// Where to play.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory of the demo: its store and the bank's ledger. Made if missing.
    #[arg(long, default_value = "./semel-demo")]
    directory: PathBuf,
    #[command(flatten)]
    victim: crash::VictimArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match arguments.victim.role() {
        Some(victim) => runtime.block_on(crash::play(&arguments.directory, &victim)),
        None => runtime.block_on(scenes::play(&arguments.directory)),
    }
}
