use std::fs;

use rustix::process::Signal;

use crate::support::{Gateway, Upstream, post};

#[test]
fn a_good_file_takes_effect_and_a_bad_one_changes_nothing() {
    let upstream = Upstream::prompt();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("semel.toml");
    fs::write(&file, "[policy]\nlease = \"20s\"\n").expect("a file");
    let mut gateway = Gateway::start_in(directory, upstream.address, &["--store", "memory:"], &[]);
    let status = |gateway: &Gateway| post(gateway.listen, "/", None).expect("an answer").status;
    assert_eq!(status(&gateway), 400, "a key is missing");

    fs::write(&file, "workers = 3\n[policy]\nlease = \"10s\"\nmode = \"off\"\n").expect("a file");
    gateway.process.signal(Signal::HUP);
    let err = &mut gateway.process.err;
    err.wait_for("workers: 0 -> 3");
    err.wait_for(r#"lease: \"20s\" -> \"10s\""#);
    let restart = err.wait_for("take effect at the next start");
    assert!(restart.contains("workers") && !restart.contains("lease"), "{restart}");
    err.wait_for("reloaded");
    assert_eq!(status(&gateway), 201, "nothing is protected now");

    fs::write(&file, "[policy]\nleese = \"10s\"\n").expect("a file");
    gateway.process.signal(Signal::HUP);
    gateway.process.err.wait_for("did you mean `lease`?");
    gateway.process.err.wait_for("not reloaded: the old configuration stays");
    assert_eq!(status(&gateway), 201, "as before");

    fs::remove_file(&file).expect("a file");
    gateway.process.signal(Signal::HUP);
    gateway.process.err.wait_for("cannot be read");
    assert_eq!(status(&gateway), 201, "as before");

    // Settings that need a restart are logged again, although they are not new.
    fs::write(&file, "workers = 3\n").expect("a file");
    gateway.process.signal(Signal::HUP);
    gateway.process.err.wait_for("take effect at the next start");
    assert_eq!(status(&gateway), 400, "a key is missing again");
    gateway.process.signal(Signal::TERM);
    assert_eq!(gateway.process.exit_code(), Some(0));
}
