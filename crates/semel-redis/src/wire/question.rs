//! What a server is asked: so many words, each with its length before it.

/// Begins a question of so many words.
pub(crate) fn begin(outbox: &mut Vec<u8>, words: usize) {
    head(outbox, b'*', words as u64);
}

pub(crate) fn word(outbox: &mut Vec<u8>, word: &[u8]) {
    head(outbox, b'$', word.len() as u64);
    outbox.extend_from_slice(word);
    outbox.extend_from_slice(b"\r\n");
}

pub(crate) fn number(outbox: &mut Vec<u8>, number: u64) {
    word(outbox, digits(number, &mut [0; DIGITS_MAX]));
}

/// How many digits a number has at most.
const DIGITS_MAX: usize = 20;

fn head(outbox: &mut Vec<u8>, kind: u8, length: u64) {
    outbox.push(kind);
    outbox.extend_from_slice(digits(length, &mut [0; DIGITS_MAX]));
    outbox.extend_from_slice(b"\r\n");
}

/// Several of these are in every question, which is why they are not formatted.
fn digits(mut number: u64, room: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        room[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &room[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_written_as_the_protocol_has_them() {
        let mut outbox = Vec::new();
        begin(&mut outbox, 12);
        word(&mut outbox, b"");
        word(&mut outbox, b"a\r\nb");
        number(&mut outbox, 0);
        number(&mut outbox, 1_000);
        number(&mut outbox, u64::MAX);
        let expected = "*12\r\n$0\r\n\r\n$4\r\na\r\nb\r\n$1\r\n0\r\n$4\r\n1000\r\n\
                        $20\r\n18446744073709551615\r\n";
        assert_eq!(
            outbox.escape_ascii().to_string(),
            expected.as_bytes().escape_ascii().to_string()
        );
    }
}
