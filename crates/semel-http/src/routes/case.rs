//! Paths whose capitals count for nothing.

/// `path`, a normalised one, in lower case, but for the segments that `pattern` has parameters for.
pub(super) fn folded_like(path: &str, pattern: Option<&str>) -> String {
    let mut literals = pattern.map(|pattern| pattern.split('/'));
    let mut is_literal = true;
    let mut out = String::with_capacity(path.len());
    for (at, segment) in path.split('/').enumerate() {
        if at > 0 {
            out.push('/');
        }
        // An empty segment, and a slash at the end, have nothing in the pattern that they stand for.
        if at == 0 || !segment.is_empty() {
            let literal = literals.as_mut().and_then(Iterator::next);
            is_literal = match literal {
                Some(literal) => !literal.contains('{'),
                // After the pattern's end its last segment goes on: a `{*rest}`.
                None => is_literal,
            };
        }
        if is_literal { push_folded(&mut out, segment) } else { out.push_str(segment) }
    }
    out
}

/// A pattern in lower case, but for the names of its parameters.
pub(super) fn folded_pattern(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(start) = rest.find('{') {
        let end = rest[start..].find('}').map_or(rest.len(), |len| start + len + 1);
        push_folded(&mut out, &rest[..start]);
        out.push_str(&rest[start..end]);
        rest = &rest[end..];
    }
    push_folded(&mut out, rest);
    out
}

/// The path in lower case.
pub(super) fn folded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    push_folded(&mut out, path);
    out
}

/// Escapes stay in upper case: they are no letters.
fn push_folded(out: &mut String, text: &str) {
    let mut digits = 0_u8;
    for character in text.chars() {
        out.push(if digits > 0 { character } else { character.to_ascii_lowercase() });
        digits = if character == '%' { 2 } else { digits.saturating_sub(1) };
    }
}

#[cfg(test)]
mod tests;
