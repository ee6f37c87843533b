//! Bad input of every kind gets an error that names what is wrong.

use proptest::prelude::*;

use super::super::{Config, Flags};

const SAMPLE: &str = include_str!("../../../../../examples/semel.toml");

/// Pieces that the reader has something to say about.
const PIECES: &[&str] = &[
    "[",
    "]",
    "[[route]]",
    "[policy]",
    "=",
    "\"",
    "'",
    "\"\"\"",
    "\n",
    "\r\n",
    ",",
    ".",
    "{",
    "}",
    "#",
    "lease",
    "match",
    "POST /{a}",
    "ttl",
    "upstream",
    "http://",
    "@",
    "://",
    "\u{feff}",
    "ä",
    "\t",
    "\0",
    "1",
    "-",
    "9999999999999999999",
    "1d",
    "30s",
    "true",
    "[]",
    "key_from",
    "limits",
    "\\",
    "\u{1b}",
];

fn load_and_tell(text: &str) {
    match Config::load(Some(("f", text)), [], &Flags::default()) {
        Ok(config) => assert!(!config.describe().is_empty()),
        Err(faults) => assert!(!faults.to_string().is_empty()),
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        load_and_tell(&text);
    }

    #[test]
    fn any_pieces_are_read_or_refused(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        load_and_tell(&pieces.concat());
    }

    #[test]
    fn any_edit_of_the_sample_is_read_or_refused(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..12)
    ) {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        for (index, byte, kind) in edits {
            let at = index.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        load_and_tell(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_setting_with_any_value_is_read_or_refused(
        name in prop::sample::select(crate::config::settings::all().collect::<Vec<_>>()),
        value in "[\"0-9a-z:/ .{}*\\[\\],-]{0,20}",
        text in ".{0,20}",
    ) {
        let heading = match name.section.table() {
            "" => String::new(),
            "route" => "[[route]]\n".to_owned(),
            table => format!("[{table}]\n"),
        };
        load_and_tell(&format!("{heading}{} = {value}", name.name));
        load_and_tell(&format!("{heading}{} = {text:?}", name.name));
        if let Some(variable) = name.variable() {
            let _ = Config::load(None, [(variable, text)], &Flags::default());
        }
    }
}

#[test]
fn a_file_of_faults_is_told_in_time() {
    // Quadratic work on one long line, or on many, would take minutes.
    for text in ["a=1 ".repeat(200_000), "a=1\n".repeat(200_000), "[".repeat(500_000)] {
        load_and_tell(&text);
    }
    let faults =
        Config::load(Some(("f", &"#\n".repeat(600_000))), [], &Flags::default()).unwrap_err();
    assert_eq!(faults.iter().next().unwrap().what(), "the file has 1200000 bytes");
}

#[test]
fn no_more_than_a_hundred_faults_are_told() {
    let lines: Vec<_> = (0..300).map(|number| format!("unknown{number} = 1\n")).collect();
    let faults = Config::load(Some(("f", &lines.concat())), [], &Flags::default()).unwrap_err();
    assert_eq!((faults.iter().count(), faults.len()), (100, 301));
    assert!(faults.to_string().ends_with("\n\nand 201 more"));
}
