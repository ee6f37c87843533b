use std::io;

use crate::line::malformed;
use crate::message::{Content, Head};
use crate::{Fields, Framing, Line};

/// An answer as its client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its header fields.
    pub fields: Fields,
    /// How the end of its body was known.
    pub framing: Framing,
    /// Its body, or the beginning of it: see [`Line::keep_all`].
    pub body: Vec<u8>,
    /// The length of the whole body.
    pub len: u64,
    /// The fields after its body.
    pub trailers: Fields,
}

// === impl Answer ===

impl Answer {
    /// The next answer on a connection, also an interim one; an error of kind `UnexpectedEof` if there is none.
    pub fn read(line: &mut Line, to_head: bool) -> io::Result<Self> {
        let head = Head::read(line)?;
        let status = status(&head.start)?;
        let framing = framing(&head, status, to_head)?;
        let Content { bytes: body, len, trailers } = Content::read(line, framing)?;
        Ok(Self { status, fields: head.fields, framing, body, len, trailers })
    }

    /// The first value of a field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    /// All values of a field, in order.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        self.fields.all(name)
    }

    /// Its body.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// True if it announces the end of the connection.
    pub fn closes(&self) -> bool {
        self.header("connection") == Some("close")
    }

    /// True if it comes from the record.
    pub fn is_replay(&self) -> bool {
        self.header("x-idempotency-replayed") == Some("true")
    }

    /// Its `Retry-After`, in seconds.
    pub fn retry_after(&self) -> Option<u64> {
        self.header("retry-after").map(|value| value.parse().expect("seconds"))
    }

    /// The code of a problem, if it is one.
    pub fn code(&self) -> Option<String> {
        let problem: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        Some(problem.get("error_code")?.as_str()?.to_owned())
    }

    /// It is the problem `code`, whole and well-formed.
    #[track_caller]
    pub fn assert_problem(&self, status: u16, code: &str, retry_safe: bool) {
        assert_eq!((self.status, self.code().as_deref()), (status, Some(code)), "{}", self.text());
        assert_eq!(self.headers("content-type"), ["application/problem+json"]);
        assert!(!self.is_replay() || code == "execution_abandoned");
        let problem: serde_json::Value = serde_json::from_slice(&self.body).expect("JSON");
        let text = |member: &str| problem[member].as_str().expect("a text").to_owned();
        assert!(text("type").ends_with(&format!("/{code}")), "{problem}");
        assert!(text("title").len() > 5 && text("detail").len() > 20, "{problem}");
        assert_eq!(text("error_message"), text("detail"));
        assert_eq!(problem["status"], status);
        assert_eq!(problem["retry_safe"], retry_safe, "{problem}");
    }
}

fn status(start: &str) -> io::Result<u16> {
    let rest = start.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..));
    let digits = rest.and_then(|rest| rest.get(..3)).ok_or_else(|| malformed(start))?;
    digits.parse().map_err(|_| malformed(start))
}

fn framing(head: &Head, status: u16, to_head: bool) -> io::Result<Framing> {
    let has_none = to_head || status < 200 || status == 204 || status == 304;
    match head.framing()? {
        _ if has_none => Ok(Framing::None),
        Framing::None => Ok(Framing::Close),
        framing => Ok(framing),
    }
}
