use std::fs;

use rustix::process::Signal;

use crate::support::{Gateway, Upstream, before, post};

#[test]
fn a_good_file_takes_effect_and_a_bad_one_changes_nothing() {
    let upstream = Upstream::start();
    let setup = before(&upstream).arguments(&["--store", "memory:"]);
    let file = setup.file();
    setup.write("[policy]\nlease = \"20s\"\n");
    let mut gateway = setup.start_unready();
    let status = |gateway: &Gateway| post("/", None).send(gateway).status;
    assert_eq!(status(&gateway), 400, "a key is missing");

    gateway.setup().write("workers = 3\n[policy]\nlease = \"10s\"\nmode = \"off\"\n");
    gateway.signal(Signal::HUP);
    let err = &mut gateway.process.err;
    err.wait_for("workers: 0 -> 3");
    err.wait_for(r#"lease: \"20s\" -> \"10s\""#);
    let restart = err.wait_for("take effect at the next start");
    assert!(restart.contains("workers") && !restart.contains("lease"), "{restart}");
    err.wait_for("reloaded");
    assert_eq!(status(&gateway), 201, "nothing is protected now");

    gateway.setup().write("[policy]\nleese = \"10s\"\n");
    gateway.signal(Signal::HUP);
    gateway.process.err.wait_for("did you mean `lease`?");
    gateway.process.err.wait_for("not reloaded: the old configuration stays");
    assert_eq!(status(&gateway), 201, "as before");

    fs::remove_file(&file).expect("a file");
    gateway.signal(Signal::HUP);
    gateway.process.err.wait_for("cannot be read");
    assert_eq!(status(&gateway), 201, "as before");

    // Settings that need a restart are logged again, although they are not new.
    gateway.setup().write("workers = 3\n");
    gateway.signal(Signal::HUP);
    gateway.process.err.wait_for("take effect at the next start");
    assert_eq!(status(&gateway), 400, "a key is missing again");
    assert_eq!(gateway.terminate().0.code(), Some(0));
}
