//! Unpadded base64url (RFC 4648, section 5), as tokens have it.

/// What the text stands for, or nothing if it is not the one spelling of anything.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
    // What is left over has no bits of its own.
    let rest = bits & ((1 << count) - 1);
    (count < 6 && rest == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_is_read_and_other_text_refused() {
        assert_eq!(decode("eyJzdWIiOiJhbm4ifQ").unwrap(), br#"{"sub":"ann"}"#);
        assert_eq!(decode("-_8").unwrap(), [0xfb, 0xff]);
        assert_eq!(decode("").unwrap(), b"");
        assert!(decode("a+b").is_none() && decode("a=").is_none());
    }

    /// Two spellings of one signature would be two tokens.
    #[test]
    fn only_the_one_spelling_is_read() {
        assert!(decode("-_9").is_none() && decode("-_8A-").is_none());
    }
}
