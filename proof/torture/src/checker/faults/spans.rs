//! Spans of time, by their beginnings and ends.

type Span = (u64, u64);

/// Those that touch become one; in order.
pub(super) fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut merged: Vec<Span> = Vec::new();
    for (began, ended) in spans {
        match merged.last_mut() {
            Some(last) if began <= last.1 => last.1 = last.1.max(ended),
            _ => merged.push((began, ended)),
        }
    }
    merged
}

/// How much of the time from `from` until `until` lies in one of them, which are merged.
pub(super) fn overlap(merged: &[Span], from: u64, until: u64) -> u64 {
    let part = |(began, ended): &Span| (*ended).min(until).saturating_sub((*began).max(from));
    merged.iter().map(part).sum()
}

/// The longest time from `from` until `until` that lies in none of them, which are merged.
pub(super) fn gap_max(merged: &[Span], from: u64, until: u64) -> u64 {
    let (mut longest, mut free_since) = (0, from);
    for (began, ended) in merged {
        longest = longest.max((*began).min(until).saturating_sub(free_since));
        free_since = free_since.max(*ended);
    }
    longest.max(until.saturating_sub(free_since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_spans_merge_and_count_once() {
        let spans = merged(vec![(5, 9), (1, 3), (8, 12), (3, 4)]);
        assert_eq!(spans, [(1, 4), (5, 12)]);
        assert_eq!(overlap(&spans, 0, 20), 10);
        assert_eq!(overlap(&spans, 2, 6), 3);
        assert_eq!(overlap(&spans, 12, 20), 0);
    }

    #[test]
    fn the_longest_gap_may_be_before_between_or_after() {
        let spans = [(10, 20), (25, 40)];
        assert_eq!(gap_max(&spans, 0, 40), 10);
        assert_eq!(gap_max(&spans, 15, 40), 5);
        assert_eq!(gap_max(&spans, 15, 60), 20);
        assert_eq!(gap_max(&spans, 30, 35), 0);
        assert_eq!(gap_max(&[], 3, 10), 7);
    }
}
