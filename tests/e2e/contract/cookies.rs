//! `Set-Cookie` may carry a session: replayed only if configured.

use crate::support::{Answer, Call, Reply, Setup, Upstream};

fn answers(policy: &str) -> [Answer; 2] {
    let upstream = Upstream::with(|_| {
        Reply::new(200, "a")
            .field("Set-Cookie", "session=1; HttpOnly")
            .field("X-Between", "1")
            .field("Set-Cookie", "theme=dark")
    });
    let gateway = Setup::before(&upstream).policy(policy).start();
    let first = Call::charge("k").send(&gateway);
    let gateway = gateway.kill().start();
    [first, Call::charge("k").send(&gateway)]
}

#[test]
fn cookies_are_not_replayed() {
    let [first, replay] = answers("");
    assert_eq!(first.headers("set-cookie"), ["session=1; HttpOnly", "theme=dark"]);
    assert_eq!(replay.headers("set-cookie"), [""; 0]);
    assert_eq!(replay.header("x-between"), Some("1"));
    assert!(replay.is_replay());
}

/// Trap 12: both of them, in order.
#[test]
fn cookies_are_replayed_if_asked() {
    let [first, replay] = answers("replay_cookies = true");
    assert_eq!(replay.headers("set-cookie"), ["session=1; HttpOnly", "theme=dark"]);
    assert_eq!(first.headers("set-cookie"), replay.headers("set-cookie"));
    assert!(replay.is_replay());
}
