//! The names of what [`Metered`](super::Metered) measures, and of its labels.
//!
//! Every label takes its values from a small fixed set. An id, a key or a scope is never a label:
//! it would leak, and the set would have no bound (trap 24).

/// Histogram: how long a verb took, in seconds, whatever its answer. Labels [`STORE`], [`VERB`].
pub const VERB_SECONDS: &str = "semel_store_verb_seconds";

/// Counter: how often a verb gave which answer. Labels [`STORE`], [`VERB`], [`ANSWER`].
pub const ANSWERS_TOTAL: &str = "semel_store_answers_total";

/// Label: which kind of store, as its maker named it.
pub const STORE: &str = "store";

/// Label: `claim`, `renew`, `settle`, `release`, `inspect`, `sweep` or `health`.
pub const VERB: &str = "verb";

/// Label: what was answered, by verb. Every verb may also answer with an error: `unavailable`,
/// `declined`, `timed_out`, `corrupt` or `misconfigured`.
///
/// | verb | answers |
/// |---|---|
/// | `claim` | `execute`, `replay`, `in_flight`, `mismatch`, `unknown` |
/// | `renew` | `renewed`, or refused: `settled`, `superseded`, `gone` |
/// | `settle` | `recorded`, or refused: `settled`, `superseded`, `gone` |
/// | `release` | `done`, or refused: `settled`, `superseded`, `gone` |
/// | `inspect` | `found`, `absent` |
/// | `sweep` | `swept` |
/// | `health` | `healthy` |
pub const ANSWER: &str = "answer";

/// Tells the installed recorder what the metrics mean. Call once, after installing it.
pub fn describe() {
    metrics::describe_histogram!(
        VERB_SECONDS,
        metrics::Unit::Seconds,
        "How long a verb of the store took, whatever its answer"
    );
    metrics::describe_counter!(
        ANSWERS_TOTAL,
        metrics::Unit::Count,
        "How often a verb of the store gave which answer"
    );
}
