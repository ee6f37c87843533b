//! `semel check`.

use semel_gateway::config;

use crate::configuration;
use crate::exit::{Failure, print, say};

/// Checks a configuration and prints all that is in effect.
///
/// It also prints the source of each value. Only the file is opened. All faults are reported at once, on standard error, and
/// the exit code is 2.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    configuration: configuration::Given,
    /// Print the JSON Schema of the file instead, for editors
    #[arg(long, exclusive = true)]
    schema: bool,
}

const AFTER_HELP: &str = "\
Examples:
  semel check --config semel.toml
  SEMEL_POLICY_LEASE=10s semel check --config semel.toml --listen 0.0.0.0:80
  semel check --schema > semel.schema.json";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.schema {
        return print(&config::schema());
    }
    let sources = arguments.configuration.sources();
    say(sources.named());
    let config = sources.load().map_err(|unusable| Failure::Wrong(unusable.to_string()))?;
    print(&config.describe())
}
