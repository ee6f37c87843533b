//! `semel completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::exit::{Failure, print};

/// Prints a completion script for your shell.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The shell to complete for.
    shell: Shell,
}

const AFTER_HELP: &str = "\
Examples:
  semel completions bash > ~/.local/share/bash-completion/completions/semel
  semel completions zsh > \"${fpath[1]}/_semel\"
  semel completions fish > ~/.config/fish/completions/semel.fish";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    let mut command = crate::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "semel", &mut script);
    print(&String::from_utf8_lossy(&script))
}
