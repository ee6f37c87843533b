//! Encoding of commands (RESP): arrays of bulk strings.

/// Begins a command of so many parts.
pub(crate) fn begin(out: &mut Vec<u8>, parts: usize) {
    head(out, b'*', parts as u64);
}

pub(crate) fn bulk(out: &mut Vec<u8>, bulk: &[u8]) {
    head(out, b'$', bulk.len() as u64);
    out.extend_from_slice(bulk);
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn number(out: &mut Vec<u8>, number: u64) {
    bulk(out, digits(number, &mut [0; DIGITS_MAX]));
}

/// The maximum number of decimal digits of a `u64`.
const DIGITS_MAX: usize = 20;

fn head(out: &mut Vec<u8>, kind: u8, length: u64) {
    out.push(kind);
    out.extend_from_slice(digits(length, &mut [0; DIGITS_MAX]));
    out.extend_from_slice(b"\r\n");
}

/// Several numbers are in every command, so they are written without the formatter.
fn digits(mut number: u64, buffer: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_written_as_the_protocol_has_them() {
        let mut out = Vec::new();
        begin(&mut out, 12);
        bulk(&mut out, b"");
        bulk(&mut out, b"a\r\nb");
        number(&mut out, 0);
        number(&mut out, 1_000);
        number(&mut out, u64::MAX);
        let expected = "*12\r\n$0\r\n\r\n$4\r\na\r\nb\r\n$1\r\n0\r\n$4\r\n1000\r\n\
                        $20\r\n18446744073709551615\r\n";
        assert_eq!(out.escape_ascii().to_string(), expected.as_bytes().escape_ascii().to_string());
    }
}
