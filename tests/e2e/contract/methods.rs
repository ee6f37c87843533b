//! Which methods are protected, and how a route says otherwise.

use crate::support::{Call, Gateway, Setup, Upstream};

/// Sends a request twice; how often it was executed, and the status of the second answer.
fn twice(method: &str, key: Option<&str>, gateway: &Gateway, upstream: &Upstream) -> (usize, u16) {
    let mut call = Call::new(method, "/things/1");
    if let Some(key) = key {
        call = call.key(key);
    }
    let before = upstream.count();
    call.send(gateway);
    let second = call.send(gateway);
    (upstream.count() - before, second.status)
}

#[test]
fn post_and_patch_need_a_key_and_are_protected() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    for method in ["POST", "PATCH"] {
        assert_eq!(twice(method, None, &gateway, &upstream), (0, 400), "{method}");
        assert_eq!(twice(method, Some("k"), &gateway, &upstream), (1, 201), "{method}");
    }
}

#[test]
fn put_and_delete_may_bring_a_key() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    for method in ["PUT", "DELETE"] {
        assert_eq!(twice(method, None, &gateway, &upstream), (2, 201), "{method}");
        assert_eq!(twice(method, Some("k"), &gateway, &upstream), (1, 201), "{method}");
    }
}

#[test]
fn safe_methods_always_pass() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
        assert_eq!(twice(method, None, &gateway, &upstream), (2, 201), "{method}");
        assert_eq!(twice(method, Some("k"), &gateway, &upstream), (2, 201), "{method}");
        // Not even a key that would be refused elsewhere matters.
        assert_eq!(twice(method, Some("two words"), &gateway, &upstream), (2, 201), "{method}");
    }
    assert!(upstream.seen().iter().all(|seen| seen.header("idempotency-fence").is_none()));
}

/// Some servers take `post` for `POST`, and have no key then.
#[test]
fn only_registered_methods_in_upper_case_are_forwarded() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().start();
    for method in ["post", "Post", "pOST", "patch", "delete", "get", "PURGE", "BREW"] {
        for call in [Call::new(method, "/things/1"), Call::new(method, "/things/1").key("k")] {
            call.send(&gateway).assert_problem(400, "request_refused", false);
        }
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(twice("PROPFIND", None, &gateway, &upstream), (2, 201));
    assert_eq!(twice("PROPFIND", Some("k"), &gateway, &upstream), (1, 201));
}

/// `methods`: others that are forwarded.
#[test]
fn other_methods_are_forwarded_if_they_are_named() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().top("methods = [\"PURGE\"]").start();
    assert_eq!(twice("PURGE", None, &gateway, &upstream), (2, 201));
    assert_eq!(twice("PURGE", Some("k"), &gateway, &upstream), (1, 201));
    let refused = Call::new("purge", "/things/1").send(&gateway);
    refused.assert_problem(400, "request_refused", false);
}

/// A route may ask every request for a key, or none.
#[test]
fn a_route_can_say_otherwise() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream)
        .route("GET /things/{id}", "key = \"required\"")
        .route("POST /things/{id}", "key = \"optional\"")
        .start();
    assert_eq!(twice("GET", None, &gateway, &upstream), (0, 400));
    assert_eq!(twice("GET", Some("k"), &gateway, &upstream), (1, 201));
    assert_eq!(twice("POST", None, &gateway, &upstream), (2, 201));
    assert_eq!(twice("POST", Some("k"), &gateway, &upstream), (1, 201));
}

/// `mode = "off"`: the route is left alone, also with a key.
#[test]
fn a_route_can_be_left_alone() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).route("* /things/{*rest}", "mode = \"off\"").start();
    assert_eq!(twice("POST", Some("k"), &gateway, &upstream), (2, 201));
    assert_eq!(twice("POST", None, &gateway, &upstream), (2, 201));
}
