use std::fmt;
use std::str::FromStr;

use http::StatusCode;

/// One status (`429`) or a class of them (`5xx`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusPattern {
    /// This status.
    One(StatusCode),
    /// All statuses with this first digit.
    Class(u8),
}

/// What a status means for the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusMeaning {
    /// The reply is the outcome: it is kept and replayed.
    Kept,
    /// The work did not take effect: a retry executes.
    Released,
    /// The work may or may not have taken effect.
    Unknown,
}

/// Not a status and not a class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a status; write one such as 429, or a class such as 5xx")]
pub struct StatusPatternError {
    text: String,
}

// === impl StatusPattern ===

impl StatusPattern {
    pub(crate) fn covers(self, status: StatusCode) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(digit) => status.as_u16() / 100 == u16::from(digit),
        }
    }

    /// A pattern of a higher precision wins over one of a lower.
    pub(crate) const fn precision(self) -> u8 {
        match self {
            Self::Class(_) => 1,
            Self::One(_) => 2,
        }
    }
}

impl FromStr for StatusPattern {
    type Err = StatusPatternError;

    fn from_str(text: &str) -> Result<Self, StatusPatternError> {
        let refused = || StatusPatternError { text: text.to_owned() };
        match text.as_bytes() {
            [digit @ b'2'..=b'5', b'x', b'x'] => Ok(Self::Class(digit - b'0')),
            [b'2'..=b'5', b'0'..=b'9', b'0'..=b'9'] => {
                StatusCode::from_bytes(text.as_bytes()).map(Self::One).map_err(|_| refused())
            }
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for StatusPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(status) => write!(f, "{}", status.as_u16()),
            Self::Class(digit) => write!(f, "{digit}xx"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read_and_written() {
        for text in ["408", "429", "5xx", "200"] {
            assert_eq!(text.parse::<StatusPattern>().unwrap().to_string(), text);
        }
        for text in ["", "xx", "100", "1xx", "6xx", "99", "5XX", "5x", "0500", "429 "] {
            assert!(text.parse::<StatusPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_class_covers_all_of_it() {
        let class: StatusPattern = "5xx".parse().unwrap();
        assert!(class.covers(StatusCode::BAD_GATEWAY) && !class.covers(StatusCode::NOT_FOUND));
        let one: StatusPattern = "429".parse().unwrap();
        assert!(one.covers(StatusCode::TOO_MANY_REQUESTS) && !one.covers(StatusCode::GONE));
    }
}
