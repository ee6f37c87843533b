//! However a path is spelled, it does not get around its route.

use crate::support::{Call, Gateway, Setup, Upstream};

const SPELLINGS: [&str; 6] = [
    "/v1/charges",
    "/v1/charges/",
    "/v1//charges",
    "/v1/./charges",
    "/v1/%63harges",
    "/v1/x/../charges",
];

/// Protects one route only.
fn gateway(upstream: &Upstream) -> Gateway {
    let setup = Setup::before(upstream).memory().policy("mode = \"off\"");
    setup.route("POST /v1/charges", "mode = \"protect\"").start()
}

#[test]
fn no_spelling_of_a_path_gets_around_its_route() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    for path in SPELLINGS {
        let answer = Call::new("POST", path).json("{}").send(&gateway);
        answer.assert_problem(400, "idempotency_key_missing", false);
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(Call::new("POST", "/v1/refunds").send(&gateway).status, 201);
}

#[test]
fn the_upstream_sees_the_path_as_it_was_sent() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    for (number, path) in SPELLINGS.into_iter().enumerate() {
        let call = Call::new("POST", path).key(&format!("k-{number}")).json("{}");
        assert_eq!(call.send(&gateway).status, 201, "{path}");
        assert!(call.send(&gateway).is_replay(), "{path}");
    }
    let targets: Vec<_> = upstream.seen().into_iter().map(|seen| seen.target).collect();
    assert_eq!(targets, SPELLINGS);
}

/// Escapes and dots are spelling; an empty segment and a slash at the end are not, to some servers:
/// neither a second execution nor another's answer.
#[test]
fn a_key_with_another_path_that_may_be_the_same_is_a_mismatch() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let call = |path| Call::new("POST", path).key("k").json("{}").send(&gateway);
    assert_eq!(call("/v1/charges").status, 201);
    for path in ["/v1/./charges", "/v1/%63harges", "/v1/x/../charges", "/%76%31/charges"] {
        assert!(call(path).is_replay(), "{path}");
    }
    for path in ["/v1/charges/", "/v1//charges"] {
        call(path).assert_problem(409, "idempotency_payload_mismatch", false);
    }
    assert_eq!(upstream.count(), 1);
}

/// Raw UTF-8 and its escapes, in capitals and in small letters, also where no pattern matched.
#[test]
fn escapes_are_spelling_where_no_route_matches() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().start();
    let call = |path| Call::new("POST", path).key("k").json("{}").send(&gateway);
    assert_eq!(call("/caf%c3%a9/a%3ab").status, 201);
    for path in ["/caf%C3%A9/a%3Ab", "/caf\u{e9}/a%3ab", "/c%61f\u{e9}/a%3Ab"] {
        assert!(call(path).is_replay(), "{path}");
    }
    assert_eq!(upstream.count(), 1);
}

/// As Express compares paths, unless it is asked not to.
#[test]
fn an_upstream_may_ignore_capitals_and_slashes() {
    let upstream = Upstream::start();
    let ignoring = "path_case = \"ignore\"\npath_slash = \"ignore\"";
    let gateway = Setup::before(&upstream)
        .memory()
        .policy(ignoring)
        .route("POST /v1/orders/{id}", "")
        .start();
    let call = |path| Call::new("POST", path).key("k").json("{}").send(&gateway);
    for (first, others) in [
        ("/v1/charges", ["/v1/charges/", "//v1/charges", "/v1//charges/"]),
        ("/v1/orders/Ab", ["/V1/ORDERS/Ab", "/v1/orders/Ab/", "//v1/Orders//Ab"]),
    ] {
        assert_eq!(call(first).status, 201);
        for path in others {
            assert!(call(path).is_replay(), "{path}");
        }
    }
    // A parameter is a name, and names have capitals. Where no pattern matches, any segment may be one.
    for other in ["/v1/orders/ab", "/V1/Charges", "/v1//CHARGES/"] {
        call(other).assert_problem(409, "idempotency_payload_mismatch", false);
    }
    assert_eq!(upstream.count(), 2);
}

/// What two servers read differently does not get as far as either of them.
#[test]
fn a_path_that_two_servers_read_differently_is_refused() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    for path in [
        "/v1%2Fcharges",
        "/v1%2fcharges",
        "/v1%5Ccharges",
        "/v1\\charges",
        "/v1/charges%0a",
        "/v1/charges%00",
        "/../v1/charges",
        "/v1/x/..;/charges",
        "/v1/charges%",
        "/x%2F..%2Fv1/charges",
        "/a%5Cb/..%2Fv1/charges",
        "/v1/charges;a=1",
        "/v1/%c0%ae/charges",
    ] {
        for call in [Call::new("POST", path).key("k"), Call::new("POST", path)] {
            call.json("{}").send(&gateway).assert_problem(400, "request_refused", false);
        }
        if !path.contains("..") || path.contains(';') {
            assert_eq!(Call::new("GET", path).send(&gateway).status, 201, "{path}");
        }
    }
    assert!(upstream.seen().iter().all(|seen| seen.method == "GET"));
}

/// A server that takes dots for names has it under the route of a `{*rest}`, and here it is under none.
#[test]
fn dots_that_are_names_to_some_servers_do_not_lead_out_of_a_route() {
    let upstream = Upstream::start();
    let setup = Setup::before(&upstream).memory().policy("mode = \"off\"");
    let gateway = setup.route("POST /files/{*rest}", "mode = \"protect\"").start();
    for path in ["/files/a/../../x", "/files/..", "/files/./../x"] {
        let answer = Call::new("POST", path).key("k").json("{}").send(&gateway);
        answer.assert_problem(400, "request_refused", false);
    }
    for path in ["/files/a", "/files/a/../b", "/files/", "/files"] {
        let answer = Call::new("POST", path).json("{}").send(&gateway);
        answer.assert_problem(400, "idempotency_key_missing", false);
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(Call::new("POST", "/x/../y").json("{}").send(&gateway).status, 201);
}

/// Servlet containers leave parameters out, and take dots out before they look for a handler. Either
/// route is protected, and only the one that is meant asks for a key and an identity.
#[test]
fn a_parameter_or_dots_do_not_lead_to_a_weaker_route() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream)
        .route("* /v1/charges", "preset = \"payments\"\nkey = \"required\"")
        .route("* /files/{*rest}", "scope = [\"header:x-tenant\"]")
        .start();
    for (method, path) in [
        ("PUT", "/v1/charges;x"),
        ("POST", "/v1/charges;x"),
        ("POST", "/v1;a/charges"),
        ("DELETE", "/files/../x"),
        ("POST", "/v1/./charges"),
    ] {
        for call in [Call::new(method, path).key("k"), Call::new(method, path)] {
            call.json("{}").send(&gateway).assert_problem(400, "request_refused", false);
        }
    }
    assert_eq!(upstream.count(), 0);
    for path in ["/files/a;b", "/files/a/../b", "/x;y", "/x/../y"] {
        let call = Call::new("POST", path).key(path).field("X-Tenant", "a").json("{}");
        assert_eq!(call.send(&gateway).status, 201, "{path}");
    }
}

/// As frameworks have it that add or ignore a slash at the end.
#[test]
fn a_route_with_a_slash_at_its_end_is_met_without_it() {
    let upstream = Upstream::start();
    let setup = Setup::before(&upstream).memory().policy("mode = \"off\"");
    let gateway = setup.route("POST /v1/charges/", "mode = \"protect\"").start();
    for path in ["/v1/charges", "/v1/charges/"] {
        let answer = Call::new("POST", path).json("{}").send(&gateway);
        answer.assert_problem(400, "idempotency_key_missing", false);
    }
    assert_eq!(upstream.count(), 0);
}

#[test]
fn a_route_may_have_escaped_slashes_in_names() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream)
        .memory()
        .route("POST /files/{name}", "path_encoded_slash = \"allow\"")
        .start();
    let call = |path| Call::new("POST", path).key("k").json("{}").send(&gateway);
    assert_eq!(call("/files/a%2Fb").status, 201);
    assert!(call("/files/a%2fb").is_replay());
    call("/files/..%2Fcharges").assert_problem(400, "request_refused", false);
    call("/charges%2Fb").assert_problem(400, "request_refused", false);
    call("/files/a%2Fb%00").assert_problem(400, "request_refused", false);
    assert_eq!(upstream.count(), 1);
}

/// The upstream's base path cannot be left, by any method.
#[test]
fn no_path_leads_out_of_the_base_path_of_the_upstream() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).upstream_path("/public").memory().start();
    for path in [
        "/../admin",
        "/a/../../admin",
        "/%2e%2E/admin",
        "/..%2fadmin",
        "/..;/admin",
        "/;x/../admin",
        "/a%5Cb%2F../../admin",
        "/..%00",
        "/%c0%ae%c0%ae/admin",
        "/%u002e%u002e/admin",
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let answer = Call::new(method, path).key("k").send(&gateway);
            answer.assert_problem(400, "request_refused", false);
        }
    }
    assert_eq!(Call::new("GET", "/a/../b").send(&gateway).status, 201);
    assert_eq!(upstream.seen()[0].target, "/public/a/../b");
    assert_eq!(upstream.seen().len(), 1);
}
