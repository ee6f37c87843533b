use std::io::{self, Read as _};

use crate::{After, Fields, Line};

/// What an upstream does with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Answers with a status, fields and a body.
    Whole(u16, Fields, Vec<u8>),
    /// The same with a body of so many bytes, all `x`.
    Large(u16, Fields, u64),
    /// Says that a body of so many bytes comes, sends this, and closes the connection.
    BreaksOff(usize, Vec<u8>),
    /// Says that a body of so many bytes comes, sends this, and then no more.
    Stalls(usize, Vec<u8>),
    /// Closes the connection without an answer.
    Closes,
    /// Never answers.
    Hangs,
}

// === impl Reply ===

impl Reply {
    /// A whole answer.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::Whole(status, Fields::default(), body.into())
    }

    /// A body of so many bytes.
    pub fn large(status: u16, bytes: u64) -> Self {
        Self::Large(status, Fields::default(), bytes)
    }

    /// 201, and what was created.
    #[must_use]
    pub fn created(json: &str) -> Self {
        Self::new(201, json).field("Content-Type", "application/json")
    }

    /// With one more field.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        if let Self::Whole(_, fields, _) | Self::Large(_, fields, _) = &mut self {
            fields.0.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    pub(crate) fn write(&self, line: &mut Line, is_head: bool) -> io::Result<After> {
        match self {
            Self::Whole(status, fields, body) => {
                let sent = if is_head || *status == 204 { &[][..] } else { body };
                let length = (*status != 204).then_some(body.len() as u64);
                line.send(&[&head(*status, fields, length), sent].concat())?;
                return Ok(After::Keep);
            }
            Self::Large(status, fields, bytes) => {
                line.send(&head(*status, fields, Some(*bytes)))?;
                io::copy(&mut io::repeat(b'x').take(*bytes), line)?;
                return Ok(After::Keep);
            }
            Self::BreaksOff(declared, body) => {
                line.send(&[&half_head(*declared), &**body].concat())?;
            }
            Self::Stalls(declared, body) => {
                line.send(&[&half_head(*declared), &**body].concat())?;
                line.fill()?;
            }
            Self::Closes => {}
            // Until the other side gives up.
            Self::Hangs => drop(line.fill()?),
        }
        Ok(After::Close)
    }
}

fn half_head(declared: usize) -> Vec<u8> {
    head(200, &Fields::default(), Some(declared as u64))
}

fn head(status: u16, fields: &Fields, length: Option<u64>) -> Vec<u8> {
    let lines = fields.0.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let mut head = format!("HTTP/1.1 {status} As-Scripted\r\n{}", lines.collect::<String>());
    if !fields.0.iter().any(|(name, _)| name.eq_ignore_ascii_case("date")) {
        // As every server does; without it the gateway says when it answered.
        head += "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    }
    let length = length.map(|length| format!("Content-Length: {length}\r\n"));
    (head + &length.unwrap_or_default() + "\r\n").into_bytes()
}
