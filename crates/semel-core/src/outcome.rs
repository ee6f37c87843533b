use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// How an execution ended.
///
/// Each carries the answer for the client. The variant decides whether the record keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect: keep the reply and replay it.
    Completed(Reply),
    /// It failed and will fail again: keep the reply and replay it.
    Failed(Reply),
    /// It surely did not take effect and may be tried again: hand the lease back.
    FailedForNow(Reply),
    /// It may or may not have taken effect: the policy says whether to release or to hold.
    Unknown(Reply),
}

/// What a settled record keeps for ever after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It took effect, and this was the answer.
    Completed(Reply),
    /// It failed for good, and this was the answer.
    Failed(Reply),
    /// Its lease ran out, and the policy said to call that a failure (`on_abandoned = "fail"`).
    Abandoned,
}

/// The answer to an attempt, as bytes that only the layer which wrote them can read, with the id of
/// what was made.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Reply {
    bytes: Bytes,
    result: Option<ResultId>,
}

/// The id of what an execution made, so that operators find a charge by its key and back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResultId(Arc<str>);

// === impl Settlement ===

impl Settlement {
    /// The reply, unless there never was one.
    pub const fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Completed(reply) | Self::Failed(reply) => Some(reply),
            Self::Abandoned => None,
        }
    }
}

// === impl Reply ===

impl Reply {
    /// A reply of these bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: bytes.into(), result: None }
    }

    /// The same reply, naming what was made.
    #[must_use]
    pub fn with_result(mut self, result: ResultId) -> Self {
        self.result = Some(result);
        self
    }

    /// The exact bytes.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The id of what was made, if the work named one.
    pub const fn result(&self) -> Option<&ResultId> {
        self.result.as_ref()
    }
}

/// Shows no byte of the reply: replies hold what customers bought, and `{:?}` ends up in logs
/// (trap 24).
impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({} bytes)", self.bytes.len())
    }
}

// === impl ResultId ===

impl ResultId {
    /// The longest text kept, in bytes.
    pub const MAX_LEN: usize = 512;

    /// The id, or `None` if it is empty, longer than [`MAX_LEN`](Self::MAX_LEN), or has a NUL in it,
    /// which not every store can keep in a text.
    pub fn new(text: impl Into<Arc<str>>) -> Option<Self> {
        let text = text.into();
        let is_fit = (1..=Self::MAX_LEN).contains(&text.len()) && !text.contains('\0');
        is_fit.then_some(Self(text))
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_ids_have_a_limit() {
        assert!(ResultId::new("").is_none());
        assert!(ResultId::new("x".repeat(ResultId::MAX_LEN)).is_some());
        assert!(ResultId::new("x".repeat(ResultId::MAX_LEN + 1)).is_none());
        assert!(ResultId::new("ch\0").is_none());
    }

    #[test]
    fn debug_hides_the_reply() {
        let settlement = Settlement::Completed(Reply::new("card 4242"));
        assert_eq!(format!("{settlement:?}"), "Completed(Reply(9 bytes))");
    }

    #[test]
    fn an_abandoned_execution_has_no_reply() {
        let reply = Reply::new("ok");
        assert_eq!(Settlement::Completed(reply.clone()).reply(), Some(&reply));
        assert_eq!(Settlement::Abandoned.reply(), None);
    }
}
