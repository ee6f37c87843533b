//! Which known word someone meant.

/// Longer words are no slips of the pen.
const LENGTH_MAX: usize = 40;

/// The known word nearest to `word`, if it is near enough to be meant, or else one that starts with
/// it. Case, `-` and `_` do not count.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normalised(word);
    if word.len() > LENGTH_MAX {
        return None;
    }
    let distance_to = |known: &'a str| {
        let normal = normalised(known);
        let distance = distance(&word, &normal);
        let is_near = distance <= word.len().max(normal.len()) / 3;
        let is_start = word.len() >= 3 && normal.starts_with(&word);
        (is_near || is_start).then_some((!is_near, distance, known))
    };
    let found = known.into_iter().filter_map(distance_to);
    found.min_by_key(|(is_far, distance, _)| (*is_far, *distance)).map(|(_, _, known)| known)
}

fn normalised(word: &str) -> Vec<char> {
    word.chars().filter(|c| *c != '-' && *c != '_').flat_map(char::to_lowercase).collect()
}

/// How many characters must be inserted, deleted, replaced or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(from != to);
            let mut cost = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                cost = cost.min(before[j - 1] + 1);
            }
            row.push(cost);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["lease", "ttl", "scope", "max_headers", "max_header_bytes", "key"];

    #[test]
    fn slips_are_understood() {
        let slips = [
            ("leese", "lease"),
            ("laese", "lease"),
            ("tll", "ttl"),
            ("Scope", "scope"),
            ("scopes", "scope"),
            ("max-headers", "max_headers"),
            ("maxHeaderBytes", "max_header_bytes"),
            ("max_head", "max_headers"),
            ("sco", "scope"),
        ];
        for (slip, meant) in slips {
            assert_eq!(nearest(slip, KNOWN), Some(meant));
        }
    }

    #[test]
    fn other_words_are_not() {
        for word in ["", "timeout", "x", &"lease".repeat(20)] {
            assert_eq!(nearest(word, KNOWN), None, "{word}");
        }
        assert_eq!(nearest("lease", []), None);
    }

    #[test]
    fn a_swap_counts_once() {
        let distance = |a: &str, b: &str| distance(&normalised(a), &normalised(b));
        assert_eq!(distance("abcd", "abdc"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
