//! The grammar of numbers. Their value is never worked out: digits would be lost.

use super::NotCanonical;

/// Where the number ends that starts at `start`.
///
/// A digit after a leading zero is left over, and no value may be followed by a digit.
pub(super) fn number_end(text: &[u8], start: usize) -> Result<usize, NotCanonical> {
    let mut at = start;
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    at = if text.get(at) == Some(&b'0') { at + 1 } else { digits_end(text, at)? };
    if text.get(at) == Some(&b'.') {
        at = digits_end(text, at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let has_sign = matches!(text.get(at + 1), Some(b'+' | b'-'));
        at = digits_end(text, at + 1 + usize::from(has_sign))?;
    }
    Ok(at)
}

/// Where the digits end that start at `start`; there must be one.
fn digits_end(text: &[u8], start: usize) -> Result<usize, NotCanonical> {
    let digits = text.iter().skip(start).take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return Err(NotCanonical::Syntax { at: start });
    }
    Ok(start + digits)
}
