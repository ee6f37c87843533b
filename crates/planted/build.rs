//! Refuses planted bugs in whatever is built as a release.
//!
//! `lib.rs` refuses them where debug assertions are off, which is only what releases are by default: a
//! profile may turn them on. What kind of profile it is cannot be set.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let has_bugs = env::var_os("CARGO_FEATURE_PLANTED_BUGS").is_some();
    if has_bugs && env::var("PROFILE").as_deref() == Ok("release") {
        println!(
            "cargo::error=the feature `planted-bugs` of semel-planted is for tests: it cannot be part of a \
             release build, whatever its debug assertions. Build without it (so not with --all-features), \
             or without --release"
        );
    }
}
