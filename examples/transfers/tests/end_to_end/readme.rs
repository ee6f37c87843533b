//! The lines of the README, as a reader runs them.

use std::process::Command;

use semel_testserver::Postgres;

use super::support::Service;

#[test]
fn the_readme_tells_the_truth() {
    let database = Postgres::shared().new_database().expect("a database");
    let service = Service::start(&database, &[]);
    let address = service.address.to_string();
    let readme = include_str!("../../README.md").replace("127.0.0.1:3000", &address);
    let joined = readme.replace("\\\n", " ");
    let said: Vec<String> =
        joined.lines().filter(|line| line.starts_with("curl ")).map(run).collect();
    let starts: Vec<&str> = said.iter().filter_map(|said| said.get(9..12)).collect();
    assert_eq!(starts, ["201", "201", "201", "201", "409", "402", "200", "200"], "{said:?}");
    assert!(said[3].contains("x-idempotency-replayed: true"), "{}", said[3]);
    assert!(said[6].contains(r#""balance":4000"#) && said[7].contains(r#""balance":6000"#));

    // The program has printed the same lines.
    let (status, printed) = service.terminate();
    assert!(status.success());
    let mut lines = readme.lines().filter(|line| line.starts_with("curl "));
    assert!(lines.all(|line| printed.contains(line)), "{printed}");
}

fn run(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().expect("a shell");
    let troubles = String::from_utf8_lossy(&output.stderr);
    let hint = "if curl is missing: apt-get install curl";
    assert!(output.status.success(), "this failed: {line}\n{troubles}\n{hint}");
    String::from_utf8(output.stdout).expect("text")
}
