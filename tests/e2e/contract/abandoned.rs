//! Leases that run out, and holders that come back.

use rustix::process::Signal;

use crate::support::{Call, Gate, Reply, Setup, Upstream, eventually};

/// Row "abandoned, `on_abandoned = "fail"`": settled as failed, and replayed from then on.
#[test]
fn an_abandoned_execution_may_count_as_failed() {
    let (gate, upstream) = Upstream::gated(|_| Reply::created("{}"));
    let policy = "lease = \"300ms\"\non_abandoned = \"fail\"";
    let gateway = Setup::before(&upstream).policy(policy).start();
    let first = Call::charge("k-1").begin(&gateway);
    gate.wait_for(1);
    let gateway = gateway.kill().start();
    drop(first);
    gate.open();
    let failed = eventually("the lease of the dead runs out", || {
        let answer = Call::charge("k-1").send(&gateway);
        (answer.status != 409).then_some(answer)
    });
    failed.assert_problem(500, "execution_abandoned", false);
    let gateway = gateway.kill().start();
    let again = Call::charge("k-1").send(&gateway);
    again.assert_problem(500, "execution_abandoned", false);
    assert!(again.is_replay());
    assert_eq!(upstream.count(), 1);
}

/// Trap 1, I3 and I4: a holder that was paused for longer than its lease comes back while a retry
/// comes in. Whichever wins, all clients that get an outcome get the same one.
#[test]
fn a_holder_that_slept_over_its_lease_never_has_an_outcome_of_its_own() {
    let gate = Gate::default();
    let inside = gate.clone();
    let upstream = Upstream::with(move |seen| {
        if seen.execution == 1 {
            inside.pass();
        }
        let fence = seen.header("idempotency-fence").unwrap_or("none");
        Reply::created(&format!(r#"{{"fence":{fence}}}"#))
    });
    let gateway = Setup::before(&upstream).policy("lease = \"30ms\"").start();
    let mut replaced = 0;
    for round in 0..12 {
        let key = format!("k-{round}");
        gate.close();
        let first = Call::charge(&key).begin(&gateway);
        gate.wait_for(round + 1);
        gateway.signal(Signal::STOP);
        let second = Call::charge(&key).begin(&gateway);
        let lease = crate::support::now() + std::time::Duration::from_millis(60);
        eventually("the lease runs out", || (crate::support::now() > lease).then_some(()));
        gateway.signal(Signal::CONT);
        let second = second.answer();
        gate.open();
        let first = first.answer();
        let replay = Call::charge(&key).send(&gateway);
        assert!(replay.is_replay());
        assert_eq!((first.status, &first.body), (201, &replay.body), "{key}");
        if second.status == 409 {
            assert_eq!(second.code().as_deref(), Some("request_in_progress"));
        } else {
            assert_eq!((second.status, &second.body), (201, &replay.body), "{key}");
            replaced += 1;
        }
        let expected: &[u64] = if second.status == 409 { &[1] } else { &[1, 2] };
        assert_eq!(upstream.fences(&key), expected);
    }
    println!("{replaced} of 12 holders were replaced");
}
