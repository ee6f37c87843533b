//! Choices that configuration names by a word.

use std::fmt;
use std::str::FromStr;

/// What a route does, from the least to the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Everything passes.
    Off,
    /// Everything passes; what protection would have done is counted and logged.
    Shadow,
    /// Requests are protected.
    #[default]
    Protect,
}

/// Which requests need a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyRule {
    /// POST and PATCH need one; GET, HEAD, OPTIONS and TRACE pass; all others may bring one.
    #[default]
    ByMethod,
    /// Every request needs one, but for CONNECT, OPTIONS and TRACE, which cannot bring any.
    Required,
    /// A request that brings one is protected, others pass.
    Optional,
}

/// What happens to a request without a client identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissingScope {
    /// All clients without an identity share one scope.
    #[default]
    Anonymous,
    /// It is refused.
    Reject,
}

/// What becomes of claims of tokens that nothing here verifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JwtUnverified {
    /// They are read as they stand, and the operator is warned.
    #[default]
    Warn,
    /// Requests of the route are refused.
    Refuse,
    /// They are read as they stand: something in front has verified them.
    BehindAVerifier,
}

/// How an upstream compares paths, in one respect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathComparison {
    /// What differs is another path.
    #[default]
    Exact,
    /// What differs in this respect is the same path.
    Ignore,
}

/// What becomes of a path with `%2F` or `%5C`, which some servers take for a slash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncodedSlash {
    /// It is refused.
    #[default]
    Refuse,
    /// It is passed on: the upstream takes it for part of a name.
    Allow,
}

/// Choices that follow a convention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// 409 for a mismatch; 2xx, 3xx and 4xx are kept.
    #[default]
    Classic,
    /// As the IETF draft has it: 422 for a mismatch.
    Ietf,
    /// As Stripe documents it: 400 for a mismatch, 5xx kept too, keys up to 255 characters.
    Stripe,
}

/// Choices that suit a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Rather never than twice: closed, held when in doubt (after a 500, 502 or 504 too), identity
    /// required and not taken from unverified tokens, kept for 48 hours.
    Payments,
    /// Kept for 24 hours.
    Api,
    /// Rather twice than never: open, executed again, kept for 4 hours.
    Notifications,
    /// Kept for 7 days.
    Batch,
}

/// A word that names none of the choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not known here; write {}", self.known.join(", "))]
pub struct UnknownChoice {
    /// What was written.
    pub text: String,
    /// What could have been.
    pub known: Vec<&'static str>,
}

/// Gives a choice its words, in one place for reading and writing.
macro_rules! words {
    ($choice:ident: $($variant:ident = $word:literal),+ $(,)?) => {
        impl $choice {
            /// Its words, as configuration has them.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word for it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl FromStr for $choice {
            type Err = UnknownChoice;

            fn from_str(text: &str) -> Result<Self, UnknownChoice> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(UnknownChoice { text: text.to_owned(), known: Self::WORDS.to_vec() }),
                }
            }
        }

        impl fmt::Display for $choice {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words!(Mode: Protect = "protect", Shadow = "shadow", Off = "off");
words!(KeyRule: ByMethod = "by-method", Required = "required", Optional = "optional");
words!(OnMissingScope: Anonymous = "anonymous", Reject = "reject");
words!(JwtUnverified: Warn = "warn", Refuse = "refuse", BehindAVerifier = "behind-a-verifier");
words!(PathComparison: Exact = "exact", Ignore = "ignore");
words!(EncodedSlash: Refuse = "refuse", Allow = "allow");
words!(Profile: Classic = "classic", Ietf = "ietf", Stripe = "stripe");
words!(Preset: Payments = "payments", Api = "api", Notifications = "notifications", Batch = "batch");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written() {
        for word in Preset::WORDS {
            assert_eq!(word.parse::<Preset>().unwrap().as_str(), *word);
        }
        let error = "Shadow".parse::<Mode>().unwrap_err();
        assert_eq!(error.to_string(), "`Shadow` is not known here; write protect, shadow, off");
    }
}
