use std::fs;
use std::net::TcpListener;

use crate::support::{Ended, Upstream, before, eventually, post, ready, semel};

/// Runs a gateway that does not start, and returns what it says.
fn refused(directory: &std::path::Path, arguments: &[&str]) -> String {
    let mut command = semel(directory, &["gateway", "--upstream", "http://127.0.0.1:1"]);
    command.args(["--listen", "127.0.0.1:0", "--admin", "off"]).args(arguments);
    let Ended { code, out, err } = Ended::of(&mut command);
    assert_eq!(code, Some(1), "{err}");
    assert_eq!(out, "");
    err
}

#[test]
fn the_gateway_serves_on_free_ports_and_becomes_ready() {
    let upstream = Upstream::start();
    let gateway = before(&upstream).start_unready();
    eventually("ready", || (ready(&gateway) == Some(200)).then_some(()));
    let first = post("/orders", Some("a")).send(&gateway);
    let retry = post("/orders", Some("a")).send(&gateway);
    assert_eq!((first.status, retry.status), (201, 201), "{first:?} {retry:?}");
    assert!(!first.is_replay() && retry.is_replay(), "{first:?} {retry:?}");
    let metrics = gateway.ask("/metrics").text();
    assert!(metrics.contains(r#"decision="replayed"} 1"#), "{metrics}");
    assert!(gateway.directory().join("semel-data").is_dir(), "records are on disk");
}

#[test]
fn a_store_in_use_is_refused_with_a_cure() {
    let upstream = Upstream::start();
    let gateway = before(&upstream).start_unready();
    let store = gateway.directory().join("semel-data");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let err = refused(elsewhere.path(), &["--store", &format!("embedded:{}", store.display())]);
    let expected = format!("is in use by process {}; stop that process first", gateway.id());
    assert!(err.contains(&expected), "{err}");
    assert_eq!(err.matches("in use").count(), 1, "it is said once: {err}");
}

#[test]
fn a_store_of_someone_else_is_refused_with_a_cure() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::create_dir(directory.path().join("semel-data")).expect("a directory");
    fs::write(directory.path().join("semel-data/thesis.txt"), "draft").expect("a file");
    let err = refused(directory.path(), &[]);
    assert!(err.contains("is not a Semel store") && err.contains("thesis.txt"), "{err}");
}

#[test]
fn a_port_in_use_is_refused_with_a_cure() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let directory = tempfile::tempdir().expect("a directory");
    for flag in ["--listen", "--admin"] {
        let mut command = semel(directory.path(), &["gateway", "--upstream", "http://127.0.0.1:1"]);
        let other = if flag == "--listen" { "--admin" } else { "--listen" };
        command.args([flag, &address, other, "127.0.0.1:0"]);
        let Ended { code, err, .. } = Ended::of(&mut command);
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains(&format!("cannot listen on {address}")), "{err}");
        assert!(err.contains("choose another address"), "{err}");
    }
}

#[test]
fn missing_certificates_are_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = "[tls]\ncertificate = \"cert.pem\"\nkey = \"key.pem\"\n";
    fs::write(directory.path().join("semel.toml"), file).expect("a file");
    let err = refused(directory.path(), &["--store", "memory:"]);
    assert!(err.contains("cert.pem") && err.contains("PEM file"), "{err}");
}
