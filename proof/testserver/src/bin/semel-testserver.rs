//! Holds a `PostgreSQL` server for as long as its standard input is open: for examples and scripts.
//!
//! Prints the URL of the server, and its directory. An argument is a directory that is kept.

use std::env;
use std::io::{self, Read as _};
use std::process::ExitCode;

use semel_testserver::{Error, Postgres};

fn main() -> ExitCode {
    match hold() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn hold() -> Result<(), Error> {
    let options = Postgres::options();
    let postgres = match env::args_os().nth(1) {
        Some(directory) => options.directory(directory).start()?,
        None => options.start()?,
    };
    println!("{}\n{}", postgres.url(), postgres.directory().display());
    let mut input = io::stdin().lock();
    while input.read(&mut [0; 1024]).is_ok_and(|count| count > 0) {}
    Ok(())
}
