//! Refuses planted bugs in every build with a release profile.
//!
//! `semel_core::planted` refuses them where debug assertions are off. That is the default of releases, but a profile
//! may turn them on; the kind of a profile cannot be set.

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
