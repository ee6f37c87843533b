//! `semel-torture`: fault runs, and the checker of their histories.

mod command;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let arguments = command::Arguments::parse();
    match semel_torture::stop_on_signals().and_then(|()| arguments.run()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
