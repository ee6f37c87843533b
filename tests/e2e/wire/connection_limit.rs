//! Many connections at once, and connections over the limit.

use crate::support::{Client, Gateway, Upstream, eventually, get};

const IDLE: usize = 2_000;

#[test]
fn two_thousand_idle_connections_stay_usable_and_cost_little() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "");
    for _ in 0..4 {
        assert_eq!(gateway.ask(get("/warm")).status, 200);
    }
    let baseline = gateway.open_files();
    let mut clients: Vec<Client> = (0..IDLE).map(|_| gateway.connect()).collect();
    for turn in ["/first", "/second"] {
        for (n, client) in clients.iter_mut().enumerate() {
            let target = format!("{turn}/{n}");
            let reply = client.ask(get(&target));
            assert_eq!((reply.status, reply.text()), (200, format!("GET {target} 0")));
        }
        assert!(gateway.open_files() >= IDLE);
    }
    let resident_kib = gateway.resident_kib();
    assert!(resident_kib <= 150 * 1024, "{resident_kib} KiB");
    drop(clients);
    // Connections to the upstream may have come to stay: one for each thread.
    gateway.wait_for_open_files(baseline + 8);
}

#[test]
fn a_connection_over_the_limit_is_refused_and_admitted_when_one_closes() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "[limits]\nmax_connections = 50\n");
    let mut clients: Vec<Client> = (0..50).map(|_| gateway.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask(get("/in")).status, 200);
    }
    for _ in 0..5 {
        let mut more = gateway.connect();
        let reply = more.reply();
        assert_eq!((reply.status, reply.code().as_deref()), (503, Some("too_busy")));
        assert_eq!(reply.header("retry-after"), Some("1"));
        assert!(reply.closes());
        more.assert_ended();
    }
    assert_eq!(upstream.seen().len(), 50);
    // Open connections are not affected.
    for client in &mut clients {
        assert_eq!(client.ask(get("/still")).status, 200);
    }
    clients.truncate(40);
    let admitted = eventually("a connection is admitted", || {
        let mut client = gateway.connect();
        // Refused, it may be gone before the request is out.
        client.try_send(get("/again")).ok()?;
        let reply = client.final_reply(false).ok()??;
        (reply.status == 200).then_some(reply)
    });
    assert_eq!(admitted.text(), "GET /again 0");
}

#[test]
fn a_client_over_the_limit_can_read_the_refusal_after_sending_a_request() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "[limits]\nmax_connections = 1\n");
    let mut holder = gateway.connect();
    assert_eq!(holder.ask(get("/in")).status, 200);
    let mut lost = 0;
    for _ in 0..50 {
        let mut more = gateway.connect();
        let sent = more.try_send(get("/more"));
        match more.final_reply(false) {
            Ok(Some(reply)) => assert_eq!(reply.status, 503),
            _ => lost += 1,
        }
        drop(sent);
    }
    assert_eq!(lost, 0, "answers were lost to resets");
    assert_eq!(upstream.count_of("/more"), 0);
}
