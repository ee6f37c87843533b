//! `examples/gateway-any-language`, as its README has it.

mod support;
mod tokens;

use std::net::TcpStream;

use rustix::process::Signal;
use support::{
    API, Ended, GATEWAY, address_after, api, curl_lines, directory, eventually, free_port, gateway,
    get, run, run_sh, semel,
};

const PUBLIC: &str = "127.0.0.1:8080";

#[test]
fn the_readme_tells_the_truth() {
    let records = tempfile::tempdir().expect("a directory");
    let (_api, api_at) = api();
    let gateway = gateway(&directory(), api_at, records.path());
    let play = |line: &String| run(&line.replace(PUBLIC, &gateway.listen().to_string()));
    let said: Vec<String> = curl_lines().iter().map(play).collect();
    let [first, retry, changed, keyless, list] = &said[..] else {
        panic!("not five lines: {said:?}");
    };
    assert!(first.starts_with("HTTP/1.1 201"), "{first}");
    assert!(!is_replay(first), "{first}");
    assert!(retry.starts_with("HTTP/1.1 201"), "{retry}");
    assert!(is_replay(retry), "{retry}");
    assert_eq!(body(first), body(retry));
    assert!(changed.starts_with("HTTP/1.1 409"), "{changed}");
    assert!(changed.contains("idempotency_payload_mismatch"), "{changed}");
    assert!(keyless.starts_with("HTTP/1.1 400"), "{keyless}");
    assert!(list.starts_with("HTTP/1.1 200"), "{list}");
    // Asked past the gateway: what it says of itself proves nothing.
    let ledger = get(api_at, "/v1/charges");
    assert_eq!(ledger.matches("ch_").count(), 1, "{ledger}");
    assert!(ledger.contains(body(first).trim()), "{ledger} has {first}");
}

#[test]
fn after_a_restart_of_both_a_retry_gets_the_first_answer() {
    let records = tempfile::tempdir().expect("a directory");
    let charge = &curl_lines()[0];
    let mut answers = Vec::new();
    for _ in 0..2 {
        let (_api, api_at) = api();
        let gateway = gateway(&directory(), api_at, records.path());
        answers.push(run(&charge.replace(PUBLIC, &gateway.listen().to_string())));
        let charges = get(api_at, "/v1/charges").matches("ch_").count();
        assert_eq!(charges, 2 - answers.len(), "the second API is not asked");
    }
    assert!(!is_replay(&answers[0]) && is_replay(&answers[1]), "{answers:?}");
    assert_eq!(body(&answers[0]), body(&answers[1]));
}

#[test]
fn run_sh_starts_both_and_ends_both() {
    for signal in [Signal::INT, Signal::TERM] {
        let records = tempfile::tempdir().expect("a directory");
        let port = free_port();
        let mut script = run_sh(port, records.path());
        let gateway_at = address_after(GATEWAY, &mut script.err);
        eventually(API, || TcpStream::connect(("127.0.0.1", port)).ok());
        assert!(run(&curl_lines()[0].replace(PUBLIC, &gateway_at.to_string())).contains("ch_"));
        script.signal(signal);
        script.ended();
        let gone = || TcpStream::connect(gateway_at).is_err().then_some(());
        eventually("the end of the gateway", gone);
        let gone = || TcpStream::connect(("127.0.0.1", port)).is_err().then_some(());
        eventually("the end of the API", gone);
    }
}

#[test]
fn the_configuration_is_sound() {
    let checked = Ended::of(&mut semel(&directory(), &["check", "--config", "semel.toml"]));
    assert_eq!(checked.code, Some(0), "{}", checked.err);
}

fn is_replay(answer: &str) -> bool {
    answer.to_lowercase().contains("x-idempotency-replayed: true")
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").expect("a head").1
}
