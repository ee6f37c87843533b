//! `examples/tokens`, as docs/guides/tokens.md has it.

use std::fs;
use std::path::Path;

use crate::support::{api, eventually, gateway, lines_of, run_in};
use crate::{PUBLIC, is_replay};

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/tokens.md");
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tokens");

/// The example in a directory of its own: keys are made there.
fn copy(to: &Path) {
    for name in ["semel.toml", "token.sh"] {
        fs::copy(Path::new(EXAMPLE).join(name), to.join(name)).expect("a copy");
    }
}

#[test]
fn the_guide_tells_the_truth() {
    let home = tempfile::tempdir().expect("a directory");
    copy(home.path());
    let guide = fs::read_to_string(GUIDE).expect("a guide");
    let keys = lines_of(&guide, "openssl ");
    assert_eq!(keys.len(), 2);
    let make_keys = || keys.iter().for_each(|line| drop(run_in(home.path(), line)));
    make_keys();
    let (_api, api_at) = api();
    let gateway = gateway(home.path(), api_at, home.path());
    let calls: Vec<_> = lines_of(&guide, "curl ")
        .iter()
        .map(|line| line.replace(PUBLIC, &gateway.listen().to_string()))
        .collect();
    let [ann, again, bob, expired] = &calls[..] else { panic!("not four lines: {calls:?}") };
    let said = run_in(home.path(), ann);
    assert!(said.starts_with("HTTP/1.1 201") && !is_replay(&said), "{said}");
    assert!(is_replay(&run_in(home.path(), again)));
    let said = run_in(home.path(), bob);
    assert!(said.starts_with("HTTP/1.1 201") && !is_replay(&said), "{said}");
    let said = run_in(home.path(), expired);
    assert!(said.starts_with("HTTP/1.1 401") && said.contains("the token has expired"), "{said}");
    make_keys();
    eventually("the new key is believed", || is_replay(&run_in(home.path(), ann)).then_some(()));
}
