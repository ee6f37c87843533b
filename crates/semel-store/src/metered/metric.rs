//! The names of the metrics of [`Metered`](super::Metered), and of their labels.
//!
//! Every label takes its values from a small fixed set. An id, a key or a scope is never a label:
//! it would leak, and the set would have no bound (trap 24).

/// Histogram: the duration of a verb in seconds, with any answer. Labels [`STORE`], [`VERB`].
pub const VERB_SECONDS: &str = "semel_store_verb_seconds";

/// Counter: the answers of each verb. Labels [`STORE`], [`VERB`], [`ANSWER`].
pub const ANSWERS_TOTAL: &str = "semel_store_answers_total";

/// Label: the kind of store, as given to [`Metered::new`](super::Metered::new).
pub const STORE: &str = "store";

/// Label: `claim`, `renew`, `settle`, `release`, `inspect`, `sweep` or `health`.
pub const VERB: &str = "verb";

/// Label: the answer, by verb. Every verb may also answer with an error: `unavailable`,
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

/// Registers the descriptions of the metrics with the installed recorder. Call once, after installing it.
pub fn describe() {
    metrics::describe_histogram!(
        VERB_SECONDS,
        metrics::Unit::Seconds,
        "Duration of the verbs of the store, with any answer"
    );
    metrics::describe_counter!(
        ANSWERS_TOTAL,
        metrics::Unit::Count,
        "Answers of the verbs of the store"
    );
}
