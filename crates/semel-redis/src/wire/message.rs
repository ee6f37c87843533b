//! Decoding of server messages (RESP2).

use redis::{ErrorKind, RedisError, Value, parse_redis_value};

/// The first message in `bytes` and its length; `None` if it is incomplete.
pub(super) fn read_message(bytes: &[u8]) -> Result<Option<(Value, usize)>, RedisError> {
    let Some(end) = end_of_message(bytes)? else {
        return Ok(None);
    };
    let message = &bytes[..end];
    // The two most frequent types are decoded here.
    let value = match Header::first(message)? {
        Some((Header::Number(number), _)) => Value::Int(number),
        Some((Header::Bytes(length), start)) => {
            Value::BulkString(message[start..start + length].to_vec())
        }
        _ => parse_redis_value(message)?,
    };
    Ok(Some((value, end)))
}

/// The longest line: a number, or the text of an error.
const LINE_MAX: usize = 64 << 10;
/// The longest message, which is the longest string of a server (I10).
const MESSAGE_MAX: usize = 512 << 20;

/// The header line of a message.
enum Header {
    Number(i64),
    /// A string of so many bytes follows, and a line end.
    Bytes(usize),
    /// So many messages follow.
    Messages(u64),
    /// Nothing follows.
    Empty,
}

// === impl Part ===

impl Header {
    /// The first header and the offset of what follows it; `None` if its line is incomplete.
    fn first(bytes: &[u8]) -> Result<Option<(Self, usize)>, RedisError> {
        let line = &bytes[..bytes.len().min(LINE_MAX)];
        let Some(end) = line.iter().position(|byte| *byte == b'\r') else {
            return if line.len() < LINE_MAX { Ok(None) } else { Err(malformed()) };
        };
        match bytes.get(end + 1) {
            None => return Ok(None),
            Some(b'\n') => {}
            Some(_) => return Err(malformed()),
        }
        let content = bytes.get(1..end).ok_or_else(malformed)?;
        let header = match bytes[0] {
            b':' => Self::Number(number(content)?),
            // A negative length means that the value is absent.
            b'$' => usize::try_from(number(content)?).map_or(Self::Empty, Self::Bytes),
            b'*' => u64::try_from(number(content)?).map_or(Self::Empty, Self::Messages),
            b'+' | b'-' => Self::Empty,
            _ => return Err(malformed()),
        };
        Ok(Some((header, end + 2)))
    }
}

/// The end of the first message; `None` if it is incomplete.
fn end_of_message(bytes: &[u8]) -> Result<Option<usize>, RedisError> {
    let (mut at, mut open) = (0_usize, 1_u64);
    while open > 0 {
        let Some((header, length)) = Header::first(&bytes[at..])? else {
            return Ok(None);
        };
        at += length;
        open -= 1;
        match header {
            Header::Number(_) | Header::Empty => {}
            Header::Messages(count) => open = open.checked_add(count).ok_or_else(malformed)?,
            Header::Bytes(count) => {
                at = at
                    .checked_add(count)
                    .ok_or_else(malformed)?
                    .checked_add(2)
                    .ok_or_else(malformed)?;
                if at > MESSAGE_MAX {
                    return Err(malformed());
                }
                match bytes.get(at - 2..at) {
                    None => return Ok(None),
                    Some(b"\r\n") => {}
                    Some(_) => return Err(malformed()),
                }
            }
        }
    }
    Ok(Some(at))
}

fn number(digits: &[u8]) -> Result<i64, RedisError> {
    str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(malformed)
}

fn malformed() -> RedisError {
    (ErrorKind::Parse, "the server does not speak its protocol").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reads(bytes: &[u8], expected: &Value) {
        // With any following bytes, and cut at any place.
        let more = [bytes, b":1\r\n"].concat();
        let (value, length) = read_message(&more).expect("a message").expect("all of it");
        assert_eq!((&value, length), (expected, bytes.len()));
        for cut in 0..bytes.len() {
            assert!(read_message(&bytes[..cut]).expect("a part").is_none(), "cut at {cut}");
        }
    }

    #[test]
    fn every_type_is_decoded_only_when_it_is_complete() {
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
    fn malformed_messages_are_rejected() {
        for malformed in [
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
            let read = read_message(malformed);
            assert!(read.is_err(), "{read:?} of {}", malformed.escape_ascii());
        }
    }

    /// For any bytes the result is a message, a request for more, or an error.
    #[test]
    fn any_bytes_are_handled() {
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
