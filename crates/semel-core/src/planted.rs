//! Bugs that are planted on purpose, for the fault runs to find; not part of the public interface.
//!
//! Each mistake that Semel guards against can be made at its very place, by a program that was built with the feature
//! `planted-bugs` and started with the name of a bug in `SEMEL_PLANTED_BUG`. The fault runs
//! (`proof/torture/tests/planted.rs`) must find it: a checker that never finds anything proves nothing.
//!
//! Without the feature [`planted`] is `false` at compile time, and nothing is left of the bugs. With it no release can
//! be built: not without debug assertions (below), and `semel` not with them either (`proof/planted/build.rs`).

mod bug;

pub use bug::Bug;

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!(
    "the feature `planted-bugs` is for tests: it cannot be part of a release build. Build without it (so not with \
     --all-features), or without --release"
);

/// The environment variable that names the bug.
pub const VARIABLE: &str = "SEMEL_PLANTED_BUG";

/// Whether this bug is planted.
#[cfg(not(feature = "planted-bugs"))]
#[must_use]
pub const fn planted(_: Bug) -> bool {
    false
}

/// Whether this bug is planted.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    which() == Some(bug)
}

/// The bug that is planted, if any.
#[cfg(not(feature = "planted-bugs"))]
#[must_use]
pub const fn which() -> Option<Bug> {
    None
}

/// The bug that is planted, if any. The variable is read once.
///
/// # Panics
///
/// If the variable names no bug.
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
    fn no_bug_is_planted_by_default() {
        assert_eq!(which(), None);
        assert!(Bug::ALL.iter().all(|bug| !planted(*bug)));
    }
}
