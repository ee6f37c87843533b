//! Servers that are stopped, killed and frozen.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use semel_testserver::{Error, Postgres, Redis};

/// Long enough for anything that works at all.
const LIMIT: Duration = Duration::from_mins(1);
/// For what must not be answered: its length is nothing that a test depends on.
const SHORT: Duration = Duration::from_millis(300);

const SLEEPERS: &str = "select pid from pg_stat_activity where query = 'select pg_sleep(1000)'";

/// A server with one committed row.
fn with_a_row() -> Postgres {
    let postgres = Postgres::start().expect("a server");
    postgres.psql("create table t as select 'kept' as a").expect("a table");
    postgres
}

/// A session in the middle of a statement.
fn session(postgres: &Postgres) -> Child {
    let mut psql = Command::new(postgres.bin("psql"));
    psql.args(["-X", "-c", "select pg_sleep(1000)", "-d", &postgres.url()]);
    let session = psql.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a session");
    wait_until(|| postgres.psql(SLEEPERS).is_ok_and(|pid| !pid.is_empty()));
    session
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    for _ in 0..LIMIT.as_millis() / 20 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("it never happened");
}

fn log(postgres: &Postgres) -> String {
    fs::read_to_string(postgres.directory().join("log")).expect("a log")
}

/// Breaks the server with `fault`, and starts it again; returns what it logs.
fn survives(postgres: &Postgres, fault: impl FnOnce(&Postgres) -> Result<(), Error>) -> String {
    let mut session = session(postgres);
    let (url, output) = (postgres.url(), log(postgres).len());
    assert!(postgres.processes().len() > 3, "{:?}", postgres.processes());
    fault(postgres).expect("done");
    assert_eq!(postgres.processes(), [], "all are gone");
    assert!(!session.wait().expect("ended").success(), "the session was cut off");
    assert!(matches!(postgres.psql("select 1"), Err(Error::Failed { .. })));
    assert!(matches!(postgres.stop_fast(), Err(Error::Down)));
    assert!(matches!(postgres.pause(), Err(Error::Down)));
    postgres.start_again().expect("a server");
    assert_eq!(postgres.url(), url, "the port is the same");
    assert_eq!(postgres.psql("select a from t").expect("the row"), "kept");
    assert!(matches!(postgres.start_again(), Err(Error::Up)));
    log(postgres).split_off(output)
}

#[test]
fn a_fast_stop_keeps_data_and_port() {
    let log = survives(&with_a_row(), Postgres::stop_fast);
    assert!(log.contains("received fast shutdown request"), "{log}");
    assert!(!log.contains("automatic recovery"), "{log}");
}

#[test]
fn an_immediate_stop_is_recovered_from() {
    let log = survives(&with_a_row(), Postgres::stop_immediately);
    assert!(log.contains("received immediate shutdown request"), "{log}");
    assert!(log.contains("automatic recovery in progress"), "{log}");
}

#[test]
fn a_kill_is_recovered_from() {
    let log = survives(&with_a_row(), Postgres::kill);
    assert!(!log.contains("shutdown request"), "{log}");
    assert!(log.contains("automatic recovery in progress"), "{log}");
}

#[test]
fn a_server_can_be_killed_again_and_again() {
    let postgres = Postgres::start().expect("a server");
    postgres.psql("create table t (a int)").expect("a table");
    for round in 1..=3 {
        postgres.psql(&format!("insert into t values ({round})")).expect("committed");
        postgres.kill().expect("killed");
        postgres.start_again().expect("a server");
        assert_eq!(postgres.psql("select count(*) from t").expect("a count"), round.to_string());
    }
}

/// Its children notice by themselves, and the next one has to wait for them.
#[test]
fn a_postmaster_that_is_killed_alone_can_be_replaced() {
    let postgres = with_a_row();
    for _ in 0..3 {
        let lock = fs::read_to_string(postgres.directory().join("data/postmaster.pid"));
        let pid = lock.expect("a lock").lines().next().and_then(|pid| pid.parse().ok());
        kill_process(pid.and_then(Pid::from_raw).expect("an id"), Signal::KILL).expect("killed");
        wait_until(|| matches!(postgres.resume(), Err(Error::Down)));
        postgres.start_again().expect("a server");
        assert_eq!(postgres.psql("select a from t").expect("the row"), "kept");
    }
}

#[test]
fn a_frozen_server_can_be_stopped_and_killed() {
    let postgres = with_a_row();
    for fault in [Postgres::stop_fast, Postgres::stop_immediately, Postgres::kill] {
        survives(&postgres, |postgres| postgres.pause().and_then(|()| fault(postgres)));
    }
}

#[test]
fn a_frozen_server_answers_when_it_goes_on() {
    let postgres = Postgres::start().expect("a server");
    postgres.psql("create table t (a int)").expect("a table");
    postgres.pause().expect("frozen");
    let error = postgres.psql_within(SHORT, "insert into t values (1)").expect_err("no answer");
    assert!(matches!(error, Error::TimedOut { .. }), "{error:?}");
    postgres.resume().expect("resumed");
    assert_eq!(postgres.psql("select count(*) from t").expect("an answer"), "0");
}

#[test]
fn one_frozen_process_does_not_hold_up_the_others() {
    let postgres = with_a_row();
    let mut session = session(&postgres);
    let pid = postgres.psql(SLEEPERS).expect("a process").parse().expect("a number");
    postgres.pause_process(pid).expect("frozen");
    // A frozen session is not ended by this, and others are served.
    let end = format!("select pg_terminate_backend({pid})");
    assert_eq!(postgres.psql(&end).expect("an answer"), "t");
    assert_eq!(postgres.psql(SLEEPERS).expect("an answer"), pid.to_string());
    assert!(session.try_wait().expect("a state").is_none());
    postgres.resume_process(pid).expect("resumed");
    assert!(!session.wait().expect("ended").success());
}

#[test]
fn a_strangers_process_is_left_alone() {
    let ourselves = i32::try_from(std::process::id()).expect("an id");
    let error = Postgres::shared().pause_process(ourselves).expect_err("a stranger");
    assert!(matches!(error, Error::NotOurs { pid } if pid == ourselves), "{error:?}");
    assert!(Postgres::shared().resume_process(ourselves).is_err());
}

/// The story: a server that writes its first log refuses to end, and forgets that it was asked; a fault run
/// waited for its end for a minute, and failed.
#[test]
fn a_redis_that_refuses_to_end_is_asked_again() {
    let redis = Redis::options().start().expect("a server");
    for key in ["a", "b", "c"] {
        redis.cli(&["SET", key, "1"]).expect("set");
    }
    // Microseconds for each key, in a log as well.
    redis.cli(&["CONFIG", "SET", "rdb-key-save-delay", "1000000"]).expect("a slow disk");
    redis.cli(&["CONFIG", "SET", "appendonly", "yes"]).expect("a log");
    redis.stop().expect("it ends");
    assert!(matches!(redis.stop(), Err(Error::Down)));
}
