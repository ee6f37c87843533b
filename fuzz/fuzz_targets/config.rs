//! Any text as a configuration file, with any environment and flags.
//!
//! The input is the text of the file, then `NAME=VALUE` for each variable and `--name=VALUE` for
//! each flag, each after the byte 0x1e.
#![no_main]

// Without the rest of the gateway, which takes minutes to build. What `config` needs of it has a
// twin here; a difference between the two does not compile.
#[path = "../../crates/semel-gateway/src/config/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the gateway uses the rest")]
mod config;

extern crate self as semel_embedded;

use libfuzzer_sys::{Corpus, fuzz_target};

use config::{Config, Faults, Flags};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    Replace,
    Append,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    Power,
    Process,
}

const NAME: &str = "semel.toml";

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(data) = str::from_utf8(data) else { return Corpus::Reject };
    let mut parts = data.split('\x1e');
    let text = parts.next().unwrap_or_default();
    let (mut env, mut flags) = (Vec::new(), Flags::default());
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match flag(&mut flags, name) {
            Some(flag) => *flag = Some(value.to_owned()),
            None => env.push((name.to_owned(), value.to_owned())),
        }
    }
    // Variables alone make a configuration, too.
    let source = (!text.is_empty() || env.is_empty()).then_some((NAME, text));
    match Config::load(source, env.clone(), &flags) {
        Ok(config) => check_config(&config, &Config::load(source, env, &flags)),
        Err(faults) => check_faults(&faults, text),
    }
    Corpus::Keep
});

fn flag<'a>(flags: &'a mut Flags, name: &str) -> Option<&'a mut Option<String>> {
    match name {
        "--listen" => Some(&mut flags.listen),
        "--admin" => Some(&mut flags.admin),
        "--upstream" => Some(&mut flags.upstream),
        "--store" => Some(&mut flags.store),
        _ => None,
    }
}

fn check_config(config: &Config, again: &Result<Config, Faults>) {
    let again = again.as_ref().expect("what was read once is read again");
    assert!(!config.describe().is_empty());
    assert_eq!(config.describe(), again.describe());
    assert!(config.needs_restart(again).is_empty());
    assert!(config.worker_count() > 0);
    assert!(!format!("{config:?}").is_empty());
}

fn check_faults(faults: &Faults, text: &str) {
    let told = faults.iter().count();
    assert!((1..=100).contains(&told) && told <= faults.len());
    for fault in faults.iter() {
        assert!(!fault.at().is_empty() && !fault.what().is_empty() && !fault.cure().is_empty());
        if let Some(place) = fault.at().strip_prefix("semel.toml:") {
            check_place(place, text);
        }
    }
    // A terminal obeys control characters.
    let told = faults.to_string();
    let bad = told.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
    assert_eq!(bad, None, "{told:?}");
}

fn check_place(place: &str, text: &str) {
    let (line, column) = place.split_once(':').expect("a line and a column");
    let [line, column] = [line, column].map(|number| number.parse::<usize>().expect("a number"));
    let content = text.split('\n').nth(line - 1).expect("a line of the file");
    // One more than there are: where something is missing.
    assert!((1..=content.chars().count() + 1).contains(&column), "{place}");
}
