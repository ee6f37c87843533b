//! The rule of three: if nothing failed in N trials, the rate of failures is below 3/N, with 95 %
//! confidence. Everything is rounded up, as it says *at most*.

const MILLION: u64 = 1_000_000;

/// The bound that follows from so many trials, as text.
pub(super) fn bound(trials: u64) -> String {
    match trials {
        // A bound of 100 % or more is none.
        0..=3 => "nothing is said".to_owned(),
        // Until 0.01 %. Below that percents are hard to read.
        4..=30_000 => percent(trials),
        _ => one_in_many(trials),
    }
}

/// With two digits that matter, if it is below 10 %.
fn percent(trials: u64) -> String {
    let (digits, parts): (usize, u64) = match trials {
        0..=300 => (1, 10),
        301..=3_000 => (2, 100),
        _ => (3, 1_000),
    };
    let rate = (300 * parts).div_ceil(trials);
    format!("{}.{:0digits$} %", rate / parts, rate % parts)
}

/// As a count in a round number of trials.
fn one_in_many(trials: u64) -> String {
    let (many, name) = match trials {
        0..=1_000_000 => (MILLION, "a million"),
        1_000_001..=10_000_000 => (10 * MILLION, "10 million"),
        10_000_001..=100_000_000 => (100 * MILLION, "100 million"),
        _ => (1_000 * MILLION, "a billion"),
    };
    format!("{} in {name}", (3 * many).div_ceil(trials))
}

/// `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_rounded_up_and_can_be_read() {
        for (trials, said) in [
            (0, "nothing is said"),
            (3, "nothing is said"),
            (4, "75.0 %"),
            (117, "2.6 %"),
            (300, "1.0 %"),
            (500, "0.60 %"),
            (644, "0.47 %"),
            (967, "0.32 %"),
            (4_655, "0.065 %"),
            (30_000, "0.010 %"),
            (30_001, "100 in a million"),
            (465_587, "7 in a million"),
            (1_000_000, "3 in a million"),
            (1_000_001, "30 in 10 million"),
            (5_059_489, "6 in 10 million"),
            (50_000_000, "6 in 100 million"),
            (400_000_000, "8 in a billion"),
        ] {
            assert_eq!(bound(trials), said, "{trials}");
        }
    }

    #[test]
    fn thousands_are_apart() {
        for (number, shown) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), shown);
        }
    }
}
