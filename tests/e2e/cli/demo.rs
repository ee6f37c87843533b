//! The demo does what it prints, and what the README says.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::support::{Ended, Process, eventually, semel};

fn tour(directory: &Path) -> Ended {
    let arguments = ["demo", "--tour", "--listen", "127.0.0.1:0", "--directory", "demo"];
    Ended::of(&mut semel(directory, &arguments))
}

#[test]
fn the_tour_can_be_played_twice_in_the_same_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    for _ in 0..2 {
        let Ended { code, out, err } = tour(directory.path());
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(out.contains("6 executed, 52 replayed, 1 refused"), "{out}");
        assert!(out.contains("5 charges, 1 refund, 1590.00 EUR; every order once"), "{out}");
        assert!(out.contains("ch_6, 900.00 EUR, fence 2"), "the charge was taken over: {out}");
        assert!(!out.contains('\x1b'), "no colour where nobody sees it: {out}");
    }
}

#[test]
fn a_directory_of_someone_else_is_refused_with_a_cure() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("demo/store");
    std::fs::create_dir_all(&store).expect("a directory");
    std::fs::write(store.join("thesis.txt"), "draft").expect("a file");
    let Ended { code, err: said, .. } = tour(directory.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is not a Semel store") && said.contains("thesis.txt"), "{said}");
    let configuration = directory.path().join("demo/gateway.toml");
    std::fs::write(&configuration, "# mine\n").expect("a file");
    let said = tour(directory.path()).err;
    assert!(said.contains("was not written by the demo"), "{said}");
    assert_eq!(std::fs::read_to_string(configuration).expect("a file"), "# mine\n");
}

/// A demo on free ports, with the commands that it prints.
fn demo(directory: &Path) -> (Process, Vec<String>) {
    let arguments = ["demo", "--listen", "127.0.0.1:0", "--directory", "a demo", "--delay", "1000"];
    let mut demo = Process::start(&mut semel(directory, &arguments));
    demo.out.wait_for("Ctrl-C ends the demo");
    let said = demo.out.so_far();
    let commands = said.lines().filter_map(|line| line.strip_prefix("    "));
    let commands = commands.map(str::to_owned).collect();
    (demo, commands)
}

fn shell(command: &str) -> String {
    let Ended { code, out, err } = Ended::of(Command::new("sh").args(["-c", command]));
    assert_eq!(code, Some(0), "{command}\n{out}{err}");
    out.to_lowercase()
}

#[test]
fn the_printed_lines_run_as_they_stand() {
    let curl = Command::new("curl").arg("--version").output();
    assert!(curl.is_ok(), "this test needs curl: sudo apt-get install curl");
    let directory = tempfile::tempdir().expect("a directory");
    let (mut demo, commands) = demo(directory.path());
    let [charge, retry, changed, fifty, kill, kill_during, ledger] = commands.as_slice() else {
        panic!("seven commands: {commands:#?}");
    };
    let replayed = "x-idempotency-replayed: true";
    let first = shell(charge);
    assert!(first.contains("201 created") && !first.contains(replayed), "{first}");
    let again = shell(retry);
    assert!(again.contains("201 created") && again.contains(replayed), "{again}");
    let refused = shell(changed);
    assert!(refused.contains("409 conflict"), "{refused}");
    assert!(refused.contains("idempotency_payload_mismatch"), "{refused}");
    let answers = shell(fifty);
    assert_eq!(answers.lines().count(), 1, "all the same: {answers}");
    assert!(answers.trim_start().starts_with("50 {"), "{answers}");

    let after = shell(kill);
    assert!(after.contains("201 created") && after.contains(replayed), "{after}");
    demo.out.wait_for("the gateway died");
    demo.out.wait_for("the gateway is back");
    let during = shell(kill_during);
    assert!(during.contains("201 created"), "{during}");
    demo.out.wait_for("the gateway is back");
    let entries = shell(ledger);
    assert!(entries.contains("3 charges, 1420.00 eur"), "{entries}");
    demo.out.wait_for("ledger: 3 charges, 1420.00 EUR");

    demo.signal(Signal::TERM);
    assert_eq!(demo.ended().code(), Some(0));
    let said = demo.out.all();
    assert!(said.contains("in the end") && !said.contains('\x1b'), "{said}");
    assert!(!directory.path().join("a demo/gateway.pid").exists(), "the gateway was stopped");
}

#[test]
fn a_demo_that_is_killed_leaves_no_gateway_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut demo, commands) = demo(directory.path());
    let rest = commands[0].split("http://").nth(1).expect("an address");
    let address = rest.split('/').next().expect("an address").to_owned();
    assert!(TcpStream::connect(&address).is_ok());
    demo.kill();
    eventually("the gateway's end", || TcpStream::connect(&address).is_err().then_some(()));
}
