//! `semel completions`.

use clap::CommandFactory as _;
use clap_complete::Shell;

/// For which shell.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The shell to complete for.
    shell: Shell,
}

#[expect(clippy::unnecessary_wraps, reason = "every command has this shape")]
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut command = crate::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "semel", &mut std::io::stdout());
    Ok(())
}
