//! What the upstream sees of a request.

use crate::support::{Call, Reply, Seen, Setup, Upstream};

fn seen(call: &Call) -> Seen {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().start();
    assert_eq!(call.send(&gateway).status, 201);
    let mut seen = upstream.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].headers("host"), [upstream.address().to_string()]);
    let public = gateway.listen().to_string();
    assert_eq!(seen[0].headers("x-forwarded-host"), [public.as_str()]);
    seen.remove(0)
}

/// Both for what is passed on and for what is protected.
fn both(shape: impl Fn(Call) -> Call, check: impl Fn(&Seen)) {
    check(&seen(&shape(Call::new("GET", "/v1/charges?page=2&q=a%20b"))));
    check(&seen(&shape(Call::new("POST", "/v1/charges?page=2&q=a%20b").key("k").json("{}"))));
}

#[test]
fn the_upstream_gets_the_clients_address_and_scheme() {
    both(
        |call| call,
        |seen| {
            assert_eq!(seen.headers("x-forwarded-for"), ["127.0.0.1"]);
            assert_eq!(seen.headers("x-forwarded-proto"), ["http"]);
            assert_eq!(seen.headers("via"), ["1.1 semel"]);
        },
    );
}

/// A client cannot claim another address.
#[test]
fn forwarded_fields_of_a_client_are_replaced() {
    both(
        |call| {
            call.field("X-Forwarded-For", "10.0.0.1")
                .field("X-Forwarded-Proto", "https")
                .field("X-Forwarded-Host", "evil.example")
                .field("Forwarded", "for=10.0.0.1")
                .field("X-Real-IP", "10.0.0.1")
        },
        |seen| {
            assert_eq!(seen.headers("x-forwarded-for"), ["127.0.0.1"]);
            assert_eq!(seen.headers("x-forwarded-proto"), ["http"]);
            assert_eq!((seen.header("forwarded"), seen.header("x-real-ip")), (None, None));
        },
    );
}

/// Many servers take `_` for `-`: fields that a client must not set are removed in that spelling too.
#[test]
fn forwarded_fields_with_underscores_are_removed() {
    both(
        |call| {
            call.field("X_Forwarded_For", "10.0.0.1")
                .field("X-Forwarded_Proto", "https")
                .field("X_Real_IP", "10.0.0.1")
                .field("Idempotency_Fence", "999")
                .field("Idempotency_Key", "another")
                .field("X_Kept", "1")
        },
        |seen| {
            let names = seen.fields.0.iter().map(|(name, _)| name.as_str());
            assert_eq!(names.filter(|name| name.contains('_')).collect::<Vec<_>>(), ["x_kept"]);
            assert_eq!(seen.headers("x-forwarded-for"), ["127.0.0.1"]);
        },
    );
}

/// `forwarded = "append"`: behind a trusted proxy.
#[test]
fn forwarded_fields_of_a_proxy_are_added_to() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().top("forwarded = \"append\"").start();
    Call::new("GET", "/").field("X-Forwarded-For", "192.0.2.1").send(&gateway);
    let all = upstream.seen()[0].headers("x-forwarded-for").join(", ");
    assert_eq!(all, "192.0.2.1, 127.0.0.1");
}

#[test]
fn hop_by_hop_fields_stay_on_their_connection() {
    both(
        |call| {
            // Two credentials: the one for proxies alone would be refused.
            call.from("Bearer alice")
                .field("Connection", "close, X-Private")
                .field("X-Private", "1")
                .field("Keep-Alive", "timeout=5")
                .field("TE", "trailers")
                .field("Proxy-Authorization", "Basic YTpi")
                .field("Proxy-Connection", "keep-alive")
                .field("X-Kept", "1")
        },
        |seen| {
            for name in ["x-private", "keep-alive", "te", "proxy-authorization", "proxy-connection"]
            {
                assert_eq!(seen.header(name), None, "{name}");
            }
            assert!(seen.header("connection").is_none_or(|value| !value.contains("private")));
            assert_eq!(seen.header("x-kept"), Some("1"));
        },
    );
}

/// Trap 17: the fence is set by the gateway, never by the client.
#[test]
fn a_fence_of_the_clients_own_making_is_taken_away() {
    let protected = Call::new("POST", "/a").key("k").field("Idempotency-Fence", "999");
    assert_eq!(seen(&protected).headers("idempotency-fence"), ["1"]);
    let passed = Call::new("GET", "/a").field("Idempotency-Fence", "999");
    assert_eq!(seen(&passed).headers("idempotency-fence"), [""; 0]);
    let without = Call::new("PUT", "/a").field("Idempotency-Fence", "999");
    assert_eq!(seen(&without).headers("idempotency-fence"), [""; 0]);
    let named = Call::new("POST", "/a").key("k").field("Connection", "idempotency-fence");
    assert_eq!(seen(&named).headers("idempotency-fence"), ["1"]);
}

/// The upstream gets the request as it was made: key, path, query, body, credentials.
#[test]
fn the_request_arrives_as_it_was_made() {
    let body = "{ \"b\" : 1,\n  \"a\" : 1.0 }";
    let call = Call::new("POST", "/v1/a%3Ab/../c?x=1&x=2&y=%7B").key("order-1");
    let call = call.from("Bearer alice").field("X-A", "1").field("X-A", "2").json(body);
    let seen = seen(&call);
    assert_eq!(seen.method, "POST");
    assert_eq!(seen.target, "/v1/a%3Ab/../c?x=1&x=2&y=%7B");
    assert_eq!(seen.headers("idempotency-key"), ["order-1"]);
    assert_eq!(seen.headers("authorization"), ["Bearer alice"]);
    assert_eq!(seen.headers("x-a"), ["1", "2"]);
    assert_eq!(seen.headers("content-type"), ["application/json"]);
    assert_eq!(String::from_utf8_lossy(&seen.body), body, "canonical only for the fingerprint");
}

/// An upstream below a path.
#[test]
fn the_base_path_of_the_upstream_is_put_in_front() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().upstream_path("/api/v2").start();
    Call::new("GET", "/things?a=1").send(&gateway);
    Call::new("POST", "/things").key("k").send(&gateway);
    let targets: Vec<_> = upstream.seen().into_iter().map(|seen| seen.target).collect();
    assert_eq!(targets, ["/api/v2/things?a=1", "/api/v2/things"]);
}

/// What is passed on comes back as the upstream said it.
#[test]
fn replies_without_protection_come_back_as_they_are() {
    let upstream = Upstream::with(|seen| match seen.target.as_str() {
        "/cookies" => Reply::new(200, "a").field("Set-Cookie", "a=1").field("Set-Cookie", "b=2"),
        "/error" => Reply::new(500, "broken").field("X-Why", "because"),
        _ => Reply::new(304, "").field("ETag", "\"1\""),
    });
    let gateway = Setup::before(&upstream).memory().start();
    let get = |path| Call::new("GET", path).send(&gateway);
    assert_eq!(get("/cookies").headers("set-cookie"), ["a=1", "b=2"]);
    let error = get("/error");
    assert_eq!((error.status, error.text().as_str()), (500, "broken"));
    assert_eq!(error.header("x-why"), Some("because"));
    assert_eq!(get("/same").status, 304);
    let head = Call::new("HEAD", "/cookies").send(&gateway);
    assert_eq!((head.status, head.body.len()), (200, 0));
    for name in ["x-idempotency-expires", "x-idempotency-replayed", "x-idempotency-bypassed"] {
        assert_eq!(get("/cookies").header(name), None);
    }
}
