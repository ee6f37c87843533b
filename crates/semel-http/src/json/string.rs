//! The grammar of strings, and what they say once their escapes are undone.

use super::NotCanonical;

/// Appends what the string says whose inside starts at `start`, and returns the position after its
/// closing quote.
///
/// The text is UTF-8 and is only cut at ASCII characters, so what is appended is UTF-8 too.
pub(super) fn unescape(
    text: &[u8],
    start: usize,
    out: &mut Vec<u8>,
) -> Result<usize, NotCanonical> {
    let mut at = start;
    loop {
        let end = plain_end(text, at);
        out.extend_from_slice(&text[at..end]);
        match text.get(end) {
            Some(b'"') => return Ok(end + 1),
            Some(b'\\') => at = unescape_one(text, end, out)?,
            _ => return Err(NotCanonical::Syntax { at: end }),
        }
    }
}

/// Where the characters end that stand for themselves.
fn plain_end(text: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(eight) = text[at..].first_chunk() {
        if !all_plain(u64::from_le_bytes(*eight)) {
            break;
        }
        at += 8;
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
    let plain = text[at..].iter().position(special);
    plain.map_or(text.len(), |plain| at + plain)
}

/// Do eight bytes all stand for themselves? May say no when they do, never yes when they do not.
const fn all_plain(eight: u64) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    // The high bit of a byte that is zero, with a borrow that may also mark the one after it.
    const fn zeros(eight: u64) -> u64 {
        eight.wrapping_sub(ONES) & !eight & HIGHS
    }
    let quotes = zeros(eight ^ (ONES * b'"' as u64));
    let backslashes = zeros(eight ^ (ONES * b'\\' as u64));
    let controls = eight.wrapping_sub(ONES * b' ' as u64) & !eight & HIGHS;
    quotes | backslashes | controls == 0
}

/// Undoes the escape whose backslash is at `at`, and returns the position after it.
fn unescape_one(text: &[u8], at: usize, out: &mut Vec<u8>) -> Result<usize, NotCanonical> {
    let byte = match text.get(at + 1) {
        Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
        Some(b'b') => 0x08,
        Some(b'f') => 0x0c,
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'u') => return unescape_unicode(text, at, out),
        _ => return Err(NotCanonical::Syntax { at: at + 1 }),
    };
    out.push(byte);
    Ok(at + 2)
}

/// The same for `\u` with four digits, and for two of them that are the halves of a surrogate pair.
fn unescape_unicode(text: &[u8], at: usize, out: &mut Vec<u8>) -> Result<usize, NotCanonical> {
    let first = code_unit(text, at + 2)?;
    let after = at + 6;
    let (code, after) = match first {
        0xd800..=0xdbff if text[after..].starts_with(b"\\u") => {
            (join(first, code_unit(text, after + 2)?)?, after + 6)
        }
        code => (code, after),
    };
    // Half a pair is the only code within these bounds that is no character.
    let character = char::from_u32(code).ok_or(NotCanonical::LoneSurrogate)?;
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(after)
}

/// The code that two halves of a surrogate pair stand for.
fn join(high: u32, low: u32) -> Result<u32, NotCanonical> {
    match low {
        0xdc00..=0xdfff => Ok(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)),
        _ => Err(NotCanonical::LoneSurrogate),
    }
}

/// The value of the four hexadecimal digits at `start`.
fn code_unit(text: &[u8], start: usize) -> Result<u32, NotCanonical> {
    (start..start + 4).try_fold(0, |unit, at| {
        let digit = text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        digit.map(|digit| unit << 4 | digit).ok_or(NotCanonical::Syntax { at })
    })
}
