//! The configuration as a whole. What single modules do is tested beside them.

mod faults;
mod jwt;
mod layers;
mod pages;
#[cfg(feature = "postgres")]
mod postgres;
mod properties;
#[cfg(feature = "redis")]
mod redis;
mod settings;

use super::{Config, Faults, Flags};

/// A file alone.
fn load(text: &str) -> Result<Config, Faults> {
    load_with(text, &[], &Flags::default())
}

fn load_with(text: &str, env: &[(&str, &str)], flags: &Flags) -> Result<Config, Faults> {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::load(Some(("semel.toml", text)), env, flags)
}

/// A file that must be right, behind a line with the upstream.
fn good(text: &str) -> Config {
    load(&complete(text)).unwrap_or_else(|faults| panic!("{text}\n{faults}"))
}

/// The text behind a line with the upstream: what it says begins in line 2.
fn complete(text: &str) -> String {
    format!("upstream = \"http://127.0.0.1:3000\"\n{text}\n")
}

/// Place and fault, one per line.
fn text_of(faults: &Faults) -> String {
    let lines: Vec<_> =
        faults.iter().map(|fault| format!("{}: {}", fault.at(), fault.what())).collect();
    lines.join("\n")
}
