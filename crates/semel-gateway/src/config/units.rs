//! Durations (`30s`), sizes (`64KiB`) and rates (`100/s`).

use std::num::NonZero;
use std::time::Duration;

use semel_engine::Rate;

/// Reads a whole number with `ms`, `s`, `m`, `h` or `d`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

/// Reads a whole number with `B`, `KiB`, `MiB`, `GiB`, or with the decimal `kB`, `MB`, `GB`.
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let bytes = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    number.checked_mul(bytes)
}

/// Reads a whole number above zero with `/s`, `/m` or `/h`.
pub(super) fn rate(text: &str) -> Option<Rate> {
    let (count, unit) = split(text)?;
    let per = match unit {
        "/s" => Duration::from_secs(1),
        "/m" => Duration::from_mins(1),
        "/h" => Duration::from_hours(1),
        _ => return None,
    };
    Some(Rate::new(NonZero::new(u32::try_from(count).ok()?)?, per))
}

fn split(text: &str) -> Option<(u64, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        let millis = |text| duration(text).map(|duration| duration.as_millis());
        assert_eq!(millis("250ms"), Some(250));
        assert_eq!(millis("30s"), Some(30_000));
        assert_eq!(millis("5m"), Some(300_000));
        assert_eq!(millis("24h"), millis("1d"));
        assert_eq!(millis("0s"), Some(0));
        for text in
            ["", "s", "30", "1.5h", "-1s", "30 s", " 30s", "30S", "30sec", "99999999999999999d"]
        {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn rates_are_read() {
        for text in ["1/s", "100/s", "600/m", "1000/h", "4294967295/s"] {
            assert_eq!(rate(text).map(|rate| rate.to_string()).as_deref(), Some(text));
        }
        for text in
            ["", "/s", "100", "100/", "0/s", "-1/s", "1/d", "1 /s", "1/ s", "1.5/s", "4294967296/s"]
        {
            assert_eq!(rate(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("512B"), Some(512));
        assert_eq!(size("64KiB"), Some(65_536));
        assert_eq!(size("1MiB"), Some(1 << 20));
        assert_eq!(size("2GiB"), Some(2 << 30));
        assert_eq!(
            (size("1kB"), size("1MB"), size("1GB")),
            (Some(1000), Some(1_000_000), Some(1_000_000_000))
        );
        for text in ["", "B", "64", "1kb", "1KB", "1 MiB", "1.5MiB", "99999999999999999GiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
