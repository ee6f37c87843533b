//! TLS towards clients and towards the upstream.

use std::io;

use rustix::process::Signal;
use semel_testserver::{SigningKey, key_set, seconds_from_now};

use crate::support::{
    After, Authority, Client, Gateway, Http2, Upstream, answer, eventually, get, post, with_body,
};

const TLS: &str = "[tls]\ncertificate = \"certificate.pem\"\nkey = \"key.pem\"\n";
const CA: &str = "[upstream_tls]\nca = \"ca.pem\"\n";

/// A gateway that serves with TLS, as `localhost`.
fn secured(upstream: &Upstream, authority: &Authority) -> Gateway {
    let directory = tempfile::tempdir().unwrap();
    authority.write(directory.path(), "localhost");
    let gateway = Gateway::start_in(directory, &upstream.url(), TLS);
    assert!(gateway.is_tls());
    gateway
}

/// A gateway in front of an upstream with TLS, trusting `authority`.
fn trusting(authority: &Authority, upstream: &str, more: &str) -> Gateway {
    let directory = tempfile::tempdir().unwrap();
    authority.write_ca(directory.path());
    Gateway::start_in(directory, upstream, &format!("{CA}{more}"))
}

#[test]
fn http_1_is_served_with_tls() {
    let (authority, upstream) = (Authority::new(), Upstream::echo());
    let gateway = secured(&upstream, &authority);
    let mut client = Client::secure(gateway.listen(), &authority).unwrap();
    assert_eq!(client.ask(post("/a", "k", "hello")).text(), "POST /a 5");
    assert!(client.ask(post("/a", "k", "hello")).is_replay());
    assert_eq!(client.ask(get("/b")).status, 200);
    assert_eq!(upstream.count_of("/a"), 1);
    assert_eq!(upstream.seen()[0].header("x-forwarded-proto"), Some("https"));
}

#[test]
fn an_early_answer_can_be_read_with_tls_too() {
    let (authority, upstream) = (Authority::new(), Upstream::echo());
    let gateway = secured(&upstream, &authority);
    let mut client = Client::secure(gateway.listen(), &authority).unwrap();
    client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 8388608\r\n\r\n");
    for _ in 0..8 {
        client.send(vec![b'x'; 1 << 20]);
    }
    let reply = client.reply();
    assert_eq!((reply.status, reply.code().as_deref()), (400, Some("idempotency_key_missing")));
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn http_2_is_agreed_on_with_tls() {
    let (authority, upstream) = (Authority::new(), Upstream::echo());
    let gateway = secured(&upstream, &authority);
    let client = Http2::secure(gateway.listen(), &authority).await;
    let first = client.post("/a", "k", "hello").await;
    let retry = client.post("/a", "k", "hello").await;
    assert_eq!(first.body(), retry.body());
    assert_eq!(retry.headers()["x-idempotency-replayed"], "true");
    assert_eq!(upstream.count_of("/a"), 1);
}

#[test]
fn a_client_without_tls_is_closed_and_others_are_served() {
    let (authority, upstream) = (Authority::new(), Upstream::echo());
    let gateway = secured(&upstream, &authority);
    for bytes in [get("/plain"), "\x16\x03\x01 garbage garbage".to_owned(), "PRI".to_owned()] {
        let mut client = gateway.connect();
        client.send(bytes);
        client.line().half_close();
        // An alert, or nothing.
        let said = client.line().rest().unwrap_or_default();
        assert!(!said.starts_with(b"HTTP"), "{said:?}");
    }
    let mut good = Client::secure(gateway.listen(), &authority).unwrap();
    assert_eq!(good.ask(get("/good")).status, 200);
    assert_eq!(upstream.count_of("/plain"), 0);
}

#[test]
fn a_handshake_that_never_ends_is_cut() {
    let (authority, upstream) = (Authority::new(), Upstream::echo());
    let directory = tempfile::tempdir().unwrap();
    authority.write(directory.path(), "localhost");
    let tables = format!("{TLS}[limits]\nheader_timeout = \"300ms\"\n");
    let gateway = Gateway::start_in(directory, &upstream.url(), &tables);
    let mut client = gateway.connect();
    client.send([0x16, 3, 1]);
    client.assert_cut();
}

#[test]
fn the_certificate_can_be_replaced_without_a_restart() {
    let (authority, upstream) = (Authority::new(), Upstream::echo());
    let mut gateway = secured(&upstream, &authority);
    let mut before = Client::secure(gateway.listen(), &authority).unwrap();
    assert_eq!(before.ask(get("/before")).status, 200);
    // From another authority: a client that trusts only the first is refused after the reload.
    let other = Authority::new();
    other.write(gateway.directory(), "localhost");
    gateway.signal(Signal::HUP);
    let mut after = eventually("the new certificate is shown", || {
        Client::secure(gateway.listen(), &other).ok()
    });
    assert_eq!(after.ask(get("/after")).status, 200);
    let refused = Client::secure(gateway.listen(), &authority).err().map(|error| error.kind());
    assert_eq!(refused, Some(io::ErrorKind::InvalidData));
    // Connections from before go on.
    assert_eq!(before.ask(get("/before")).status, 200);
    assert!(gateway.is_running());
}

#[test]
fn a_certificate_that_cannot_be_used_changes_nothing() {
    let (authority, upstream) = (Authority::new(), Upstream::echo());
    let mut gateway = secured(&upstream, &authority);
    std::fs::write(gateway.directory().join("key.pem"), "no key").unwrap();
    gateway.signal(Signal::HUP);
    for _ in 0..20 {
        let mut client = Client::secure(gateway.listen(), &authority).unwrap();
        assert_eq!(client.ask(get("/a")).status, 200);
    }
    assert!(gateway.is_running());
}

#[test]
fn an_upstream_with_tls_is_believed_if_its_certificate_is_right() {
    let authority = Authority::new();
    let upstream = authority.upstream("127.0.0.1");
    let url = format!("https://{}", upstream.address());
    let gateway = trusting(&authority, &url, "");
    assert_eq!(gateway.ask(post("/a", "k", "hello")).text(), "POST /a 5");
    assert!(gateway.ask(post("/a", "k", "hello")).is_replay());
    assert_eq!(upstream.count_of("/a"), 1);
}

#[test]
fn an_upstream_may_go_by_another_name() {
    let authority = Authority::new();
    let upstream = authority.upstream("api.internal");
    let url = format!("https://{}", upstream.address());
    let gateway = trusting(&authority, &url, "server_name = \"api.internal\"\n");
    assert_eq!(gateway.ask(get("/a")).status, 200);
}

#[test]
fn a_wrong_authority_a_wrong_name_and_no_tls_are_502_and_nothing_is_sent() {
    let (authority, other) = (Authority::new(), Authority::new());
    let strange = other.upstream("127.0.0.1");
    let misnamed = authority.upstream("elsewhere.example");
    let plain = Upstream::echo();
    for upstream in [strange, misnamed, plain] {
        let gateway = trusting(&authority, &format!("https://{}", upstream.address()), "");
        for bytes in [get("/a"), post("/b", "k", "hello")] {
            let reply = gateway.ask(&bytes);
            assert_eq!(
                (reply.status, reply.code().as_deref()),
                (502, Some("upstream_unreachable"))
            );
        }
        gateway.kill();
        let requests = upstream.connections().into_iter().map(|it| it.requests.len());
        assert_eq!(requests.sum::<usize>(), 0);
    }
}

#[test]
fn an_upstream_that_never_ends_the_handshake_has_executed_nothing() {
    let authority = Authority::new();
    let upstream = authority.upstream("127.0.0.1");
    // The system accepts; no process answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let policy = "[policy]\nupstream_timeout = \"1s\"\non_unknown = \"hold\"\n";
    let gateway = trusting(&authority, &format!("https://{silent}"), policy);
    let ask = || gateway.ask(post("/a", "k", "hello"));
    let reply = ask();
    assert_eq!((reply.status, reply.code().as_deref()), (502, Some("upstream_unreachable")));
    assert!(reply.text().contains("nothing was executed"), "{}", reply.text());
    gateway.reload(|text| text.replace(&silent.to_string(), &upstream.address().to_string()));
    let executed = eventually("the key is free", || {
        let reply = ask();
        assert_ne!(reply.code().as_deref(), Some("outcome_unknown"));
        (reply.status == 200).then_some(reply)
    });
    assert_eq!((executed.is_replay(), executed.text()), (false, "POST /a 5".to_owned()));
    assert_eq!(upstream.count_of("/a"), 1);
    drop(listener);
}

#[test]
fn an_authority_that_is_trusted_no_more_is_not_believed_on_an_old_connection() {
    let authority = Authority::new();
    let upstream = authority.upstream("127.0.0.1");
    let tables = "[limits]\npool_idle_timeout = \"1h\"\n";
    let gateway = trusting(&authority, &format!("https://{}", upstream.address()), tables);
    // One client is served by one thread, which keeps its connection to the upstream.
    let mut client = gateway.connect();
    assert_eq!(client.ask(get("/a")).status, 200);
    Authority::new().write_ca(gateway.directory());
    gateway.signal(Signal::HUP);
    let refused = eventually("the upstream is refused", || {
        let reply = client.ask(get("/a"));
        (reply.status != 200).then_some(reply)
    });
    assert_eq!((refused.status, refused.code().as_deref()), (502, Some("upstream_unreachable")));
}

/// Keys of tokens come over TLS, from a server whose certificate is right.
#[test]
fn keys_of_tokens_are_fetched_with_tls() {
    let (authority, other, key) =
        (Authority::new(), Authority::new(), SigningKey::new("EdDSA", "k-1"));
    let set = key_set(&[&key]);
    let issuer = authority.upstream_with("127.0.0.1", move |seen, line| {
        line.send(&answer(seen, &set))?;
        Ok(After::Close)
    });
    let (upstream, directory) = (Upstream::echo(), tempfile::tempdir().unwrap());
    authority.write_ca(directory.path());
    let tables = format!(
        "[policy]\nscope = [\"jwt:sub\"]\n[jwt]\nkeys = \"https://{}/jwks\"\nca = \"ca.pem\"\n\
         algorithms = [\"EdDSA\"]\nissuer = \"i\"\nrefresh = \"100ms\"\nmin_refresh = \"100ms\"\n",
        issuer.address()
    );
    let gateway = Gateway::start_in(directory, &upstream.url(), &tables);
    let claims = format!(r#"{{"iss":"i","sub":"ann","exp":{}}}"#, seconds_from_now(3600));
    let ask = || {
        let token = key.token(&claims);
        let fields = format!("Idempotency-Key: k\r\nAuthorization: Bearer {token}\r\n");
        gateway.ask(with_body("POST", "/a", &fields, "hello"))
    };
    assert_eq!(ask().text(), "POST /a 5");
    assert!(ask().is_replay());
    // Another server in its place is not believed, and the keys that are known go on.
    let asked = issuer.connections().len();
    other.write_ca(gateway.directory());
    eventually("it was asked", || (issuer.connections().len() > asked + 2).then_some(()));
    let requests = || issuer.connections().iter().map(|it| it.requests.len()).sum::<usize>();
    let before = requests();
    let asked = issuer.connections().len();
    eventually("it was asked", || (issuer.connections().len() > asked + 2).then_some(()));
    assert_eq!(requests(), before, "nothing is sent to a server that is not trusted");
    assert!(ask().is_replay());
}
