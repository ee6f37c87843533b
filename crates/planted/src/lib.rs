//! Mistakes that are planted on purpose.
//!
//! A checker that never finds anything proves nothing. So each mistake that Semel guards against can be
//! made at its very place: by a program that was built with the feature `planted-bugs` and is started
//! with the name of one in `SEMEL_PLANTED_BUG`. The fault runs (`crates/torture/tests/planted.rs`) must find it.
//!
//! Without the feature [`planted`] is `false` at compile time, and nothing is left of the mistakes. With
//! it a release cannot be built: neither without debug assertions (below), nor with them (`build.rs`).

mod bug;

pub use bug::Bug;

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!(
    "the feature `planted-bugs` of semel-planted is for tests: it cannot be part of a release build. \
     Build without it (so not with --all-features), or without --release"
);

/// The variable that names the mistake.
pub const VARIABLE: &str = "SEMEL_PLANTED_BUG";

/// Is this mistake to be made?
#[cfg(not(feature = "planted-bugs"))]
#[must_use]
pub const fn planted(_: Bug) -> bool {
    false
}

/// Is this mistake to be made?
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    which() == Some(bug)
}

/// The mistake that is planted, if any is.
#[cfg(not(feature = "planted-bugs"))]
#[must_use]
pub const fn which() -> Option<Bug> {
    None
}

/// The mistake that is planted, if any is. The variable is read once.
///
/// # Panics
///
/// If no mistake has the name that the variable says.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn which() -> Option<Bug> {
    static WHICH: std::sync::OnceLock<Option<Bug>> = std::sync::OnceLock::new();
    *WHICH.get_or_init(|| {
        let name = std::env::var_os(VARIABLE)?.to_string_lossy().into_owned();
        let found = Bug::named(&name);
        let names = Bug::ALL.map(Bug::as_str).join(", ");
        assert!(found.is_some(), "{VARIABLE} is {name:?}, which is none of: {names}");
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_planted_unless_it_is_asked_for() {
        assert_eq!(which(), None);
        assert!(Bug::ALL.iter().all(|bug| !planted(*bug)));
    }
}
