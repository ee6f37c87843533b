//! Any bytes as the value of a header that may hold a key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use semel_core::{Key, KeyFormat, KeyLimits};

fuzz_target!(|value: &[u8]| {
    for max_len in [1, 36, 128, usize::MAX] {
        let [any, uuid] = [KeyFormat::Any, KeyFormat::Uuid].map(|format| {
            let limits = KeyLimits { max_len, format };
            let key = Key::parse_header(value, limits).ok();
            if let Some(key) = &key {
                check(key, value, limits);
            }
            key
        });
        // Asking for a UUID refuses keys, and makes no others.
        assert!(uuid.is_none() || uuid == any);
    }
});

fn check(key: &Key, value: &[u8], limits: KeyLimits) {
    let text = key.as_str();
    assert!((1..=limits.max_len).contains(&text.len()));
    assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
    // Trap 24: any character more could be one of the key.
    assert_eq!(format!("{key:?}"), format!("Key({} characters)", text.len()));

    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    assert_same(key, format!("\"{escaped}\"").as_bytes(), limits);
    assert_same(key, &[b" \t", value, b"\t "].concat(), limits);
    // A text that starts with a quote has no bare form.
    if !text.starts_with('"') {
        assert_same(key, text.as_bytes(), limits);
    }
}

fn assert_same(key: &Key, value: &[u8], limits: KeyLimits) {
    assert_eq!(Key::parse_header(value, limits).as_ref(), Ok(key));
}
