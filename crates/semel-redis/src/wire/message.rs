//! What a server says: one message after the other, as the protocol has it (RESP2).

use redis::{ErrorKind, RedisError, Value, parse_redis_value};

/// The message that the bytes begin with, and how long it is; none if it is not all there yet.
pub(super) fn read_message(bytes: &[u8]) -> Result<Option<(Value, usize)>, RedisError> {
    let Some(end) = end_of_message(bytes)? else {
        return Ok(None);
    };
    let message = &bytes[..end];
    // The two that answer nearly all questions are read here.
    let value = match Part::first(message)? {
        Some((Part::Number(number), _)) => Value::Int(number),
        Some((Part::Bytes(length), start)) => {
            Value::BulkString(message[start..start + length].to_vec())
        }
        _ => parse_redis_value(message)?,
    };
    Ok(Some((value, end)))
}

/// A line is a number, or an error in words.
const LINE_MAX: usize = 64 << 10;
/// No server keeps a longer string (I10).
const MESSAGE_MAX: usize = 512 << 20;

/// What a line of the protocol begins.
enum Part {
    Number(i64),
    /// So many bytes follow, and the end of a line.
    Bytes(usize),
    /// So many messages follow.
    Messages(u64),
    /// Nothing follows.
    Line,
}

// === impl Part ===

impl Part {
    /// The first part, and where what follows it starts; none if its line has no end yet.
    fn first(bytes: &[u8]) -> Result<Option<(Self, usize)>, RedisError> {
        let line = &bytes[..bytes.len().min(LINE_MAX)];
        let Some(end) = line.iter().position(|byte| *byte == b'\r') else {
            return if line.len() < LINE_MAX { Ok(None) } else { Err(odd()) };
        };
        match bytes.get(end + 1) {
            None => return Ok(None),
            Some(b'\n') => {}
            Some(_) => return Err(odd()),
        }
        let content = bytes.get(1..end).ok_or_else(odd)?;
        let part = match bytes[0] {
            b':' => Self::Number(number(content)?),
            // Less than none: there is no such thing.
            b'$' => usize::try_from(number(content)?).map_or(Self::Line, Self::Bytes),
            b'*' => u64::try_from(number(content)?).map_or(Self::Line, Self::Messages),
            b'+' | b'-' => Self::Line,
            _ => return Err(odd()),
        };
        Ok(Some((part, end + 2)))
    }
}

/// Where the first message ends, if it does.
fn end_of_message(bytes: &[u8]) -> Result<Option<usize>, RedisError> {
    let (mut at, mut open) = (0_usize, 1_u64);
    while open > 0 {
        let Some((part, length)) = Part::first(&bytes[at..])? else {
            return Ok(None);
        };
        at += length;
        open -= 1;
        match part {
            Part::Number(_) | Part::Line => {}
            Part::Messages(count) => open = open.checked_add(count).ok_or_else(odd)?,
            Part::Bytes(count) => {
                at = at.checked_add(count).ok_or_else(odd)?.checked_add(2).ok_or_else(odd)?;
                if at > MESSAGE_MAX {
                    return Err(odd());
                }
                match bytes.get(at - 2..at) {
                    None => return Ok(None),
                    Some(b"\r\n") => {}
                    Some(_) => return Err(odd()),
                }
            }
        }
    }
    Ok(Some(at))
}

fn number(digits: &[u8]) -> Result<i64, RedisError> {
    str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(odd)
}

fn odd() -> RedisError {
    (ErrorKind::Parse, "the server does not speak its protocol").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reads(bytes: &[u8], expected: &Value) {
        // Whatever comes after it, and however it is cut.
        let more = [bytes, b":1\r\n"].concat();
        let (value, length) = read_message(&more).expect("a message").expect("all of it");
        assert_eq!((&value, length), (expected, bytes.len()));
        for cut in 0..bytes.len() {
            assert!(read_message(&bytes[..cut]).expect("a part").is_none(), "cut at {cut}");
        }
    }

    #[test]
    fn every_kind_is_read_and_only_when_it_is_whole() {
        reads(b":-17\r\n", &Value::Int(-17));
        reads(b"$5\r\na\r\nb\0\r\n", &Value::BulkString(b"a\r\nb\0".to_vec()));
        reads(b"$0\r\n\r\n", &Value::BulkString(Vec::new()));
        reads(b"$-1\r\n", &Value::Nil);
        reads(b"*-1\r\n", &Value::Nil);
        reads(b"+OK\r\n", &Value::Okay);
        reads(b"*0\r\n", &Value::Array(Vec::new()));
        let nested = Value::Array(vec![
            Value::Int(1),
            Value::Array(vec![Value::BulkString(b"x".to_vec()), Value::Nil]),
            Value::Okay,
        ]);
        reads(b"*3\r\n:1\r\n*2\r\n$1\r\nx\r\n$-1\r\n+OK\r\n", &nested);
    }

    #[test]
    fn a_servers_error_is_a_value() {
        let (value, _) = read_message(b"-NOSCRIPT what\r\n").expect("a message").expect("whole");
        let error = value.extract_error().expect_err("an error");
        assert_eq!(error.kind(), ErrorKind::Server(redis::ServerErrorKind::NoScript));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for odd in [
            &b"HTTP/1.1 400 Bad Request\r\n"[..],
            b":x\r\n",
            b":1\rx",
            b"$1\r\nab\r\n",
            b"$99999999999999999999\r\n",
            b"$9223372036854775807\r\n",
            b"*2\r\n:1\r\n?\r\n",
            b"\r\n",
            b"*1\r\n\r\n",
            &vec![b'+'; LINE_MAX],
        ] {
            let read = read_message(odd);
            assert!(read.is_err(), "{read:?} of {}", odd.escape_ascii());
        }
    }

    /// Whatever bytes come: a message, more to wait for, or an error.
    #[test]
    fn nothing_that_comes_is_too_odd() {
        const USUAL: &[u8] = b"+-:$*\r\n019a";
        for _ in 0..200_000 {
            let bytes: [u8; 12] = rand::random();
            let bytes =
                bytes.map(|byte| USUAL.get(usize::from(byte % 16)).copied().unwrap_or(byte));
            if let Ok(Some((_, length))) = read_message(&bytes) {
                assert!((3..=bytes.len()).contains(&length), "{}", bytes.escape_ascii());
            }
        }
    }
}
