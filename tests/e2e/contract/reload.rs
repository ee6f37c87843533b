//! SIGHUP: another configuration, without dropping a request.

use rustix::process::Signal;

use crate::support::{Call, Gate, Reply, Setup, Upstream, eventually};

fn held() -> (Gate, Upstream) {
    let gate = Gate::default();
    let inside = gate.clone();
    let upstream = Upstream::with(move |seen| {
        if seen.key() == Some("held") {
            inside.pass();
        }
        Reply::created("{}")
    });
    (gate, upstream)
}

/// A request that runs is not disturbed; the next one comes under the new policy.
#[test]
fn a_reload_changes_the_policy_and_keeps_connections() {
    let (gate, upstream) = held();
    let setup = Setup::before(&upstream);
    let gateway = setup.clone().start();
    let running = Call::charge("held").begin(&gateway);
    gate.wait_for(1);
    Call::charge("held").send(&gateway).assert_problem(409, "request_in_progress", true);
    setup.policy("in_flight = \"accepted\"\nmismatch_status = 422").write();
    gateway.signal(Signal::HUP);
    eventually("the new policy is in force", || {
        (Call::charge("held").send(&gateway).status == 202).then_some(())
    });
    let other = Call::charge("held").json("{}").send(&gateway);
    other.assert_problem(422, "idempotency_payload_mismatch", false);
    gate.open();
    assert_eq!(running.answer().status, 201);
    assert!(Call::charge("held").send(&gateway).is_replay());
    assert_eq!(upstream.executions("held"), 1);
}

/// A connection that was open before the reload is served by the new policy too, and the records
/// stay.
#[test]
fn a_reload_keeps_the_records() {
    let (_gate, upstream) = held();
    let setup = Setup::before(&upstream);
    let gateway = setup.clone().start();
    assert_eq!(Call::charge("k").send(&gateway).status, 201);
    setup.policy("replay_headers = [\"X-Marked: anew\"]").write();
    gateway.signal(Signal::HUP);
    eventually("the new policy is in force", || {
        (Call::charge("k").send(&gateway).header("x-marked") == Some("anew")).then_some(())
    });
    assert_eq!(upstream.count(), 1);
}

/// Another upstream takes over.
#[test]
fn a_reload_may_change_the_upstream() {
    let (_gate, old) = held();
    let new = Upstream::with(|_| Reply::new(200, "from the new one"));
    let gateway = Setup::before(&old).start();
    assert_eq!(Call::charge("k-1").send(&gateway).status, 201);
    let other = Setup::before(&new);
    let text = gateway.setup().text();
    let text = text.replace(&old.address().to_string(), &new.address().to_string());
    gateway.setup().write(&text);
    gateway.signal(Signal::HUP);
    eventually("the new upstream answers", || {
        let answer = Call::new("GET", "/").send(&gateway);
        (answer.text() == "from the new one").then_some(())
    });
    assert!(Call::charge("k-1").send(&gateway).is_replay());
    drop(other);
}

/// The store is changed by a restart alone. Until then no route may count on the one that the file names: memory
/// forgets a charge with the process.
#[test]
fn a_reload_puts_no_payments_on_the_store_in_memory() {
    let (_gate, upstream) = held();
    let gateway = Setup::before(&upstream).memory().start();
    let text = gateway.setup().text();
    let durable = format!("embedded:{}", gateway.setup().file().with_extension("d").display());
    let durable = text.replace("memory:", &durable);
    let payments = |match_| format!("[[route]]\nmatch = \"{match_}\"\npreset = \"payments\"\n");
    for round in 1..=2 {
        gateway.setup().write(&(durable.clone() + &payments("POST /v1/charges")));
        gateway.signal(Signal::HUP);
        let refusal = "the store that is open is \"memory:\"";
        eventually("it is refused", || {
            (gateway.log().matches(refusal).count() == round).then_some(())
        });
        assert_eq!(Call::charge(&format!("k-{round}")).send(&gateway).status, 201);
        // In two steps it is the same: the file names another store, the process has the old one.
        gateway.setup().write(&(durable.clone() + "[[route]]\nmatch = \"POST /other\"\n"));
        gateway.signal(Signal::HUP);
        eventually("the other is taken", || {
            (gateway.log().matches("at the next start").count() == round).then_some(())
        });
    }
}

/// A bad file: the old configuration stays, and the log says what is wrong and where.
#[test]
fn a_bad_file_changes_nothing_and_is_explained() {
    let (gate, upstream) = held();
    let gateway = Setup::before(&upstream).policy("in_flight = \"accepted\"").start();
    let running = Call::charge("held").begin(&gateway);
    gate.wait_for(1);
    for (text, why) in [
        ("upstream = \"http://127.0.0.1:1\"\n[policy]\nleese = \"10s\"\n", "leese"),
        ("upstream = \"http://127.0.0.1:1\"\n[policy]\nttl = \"soon\"\n", "soon"),
        ("this is [no TOML", "semel.toml:1:"),
    ] {
        gateway.setup().write(text);
        gateway.signal(Signal::HUP);
        eventually(why, || gateway.log().contains(why).then_some(()));
        assert_eq!(Call::charge("held").send(&gateway).status, 202, "{why}");
    }
    gate.open();
    assert_eq!(running.answer().status, 201);
    assert_eq!(Call::charge("k").send(&gateway).status, 201);
}
