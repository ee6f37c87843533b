use proptest::prelude::*;

use super::octets::{Octet, push_spelled};
use super::servers::{SERVERS, read};
use super::*;
use crate::policy::{KeyRule, Preset};

fn routes(patterns: &[&str]) -> Routes {
    let mut routes = Routes::default();
    for pattern in patterns {
        routes.add(pattern, RoutePolicy::default()).unwrap();
    }
    routes
}

fn find<'a>(routes: &'a Routes, method: &str, path: &str) -> &'a str {
    routes.find(&method.parse().unwrap(), path).name()
}

#[test]
fn requests_find_their_route() {
    let routes = routes(&["POST /v1/charges", "POST /v1/charges/{id}/refunds", "* /files/{*rest}"]);
    assert_eq!(find(&routes, "POST", "/v1/charges"), "POST /v1/charges");
    assert_eq!(find(&routes, "PUT", "/v1/charges"), "*");
    assert_eq!(find(&routes, "POST", "/v1/charges/7/refunds"), "POST /v1/charges/{id}/refunds");
    assert_eq!(find(&routes, "PUT", "/files/a/b"), "* /files/{*rest}");
    assert_eq!(find(&routes, "POST", "/v1/charges/"), "POST /v1/charges");
    assert_eq!(find(&routes, "POST", "/"), "*");
}

#[test]
fn the_method_of_a_request_comes_first() {
    let routes = routes(&["* /a/{*rest}", "POST /a/{id}"]);
    assert_eq!(find(&routes, "POST", "/a/1"), "POST /a/{id}");
    assert_eq!(find(&routes, "PUT", "/a/1"), "* /a/{*rest}");
}

#[test]
fn a_slash_at_the_end_may_have_a_route_of_its_own() {
    let routes = routes(&["POST /a", "POST /a/"]);
    assert_eq!(find(&routes, "POST", "/a"), "POST /a");
    assert_eq!(find(&routes, "POST", "/a/"), "POST /a/");
    let fallback = routes.fallback();
    assert_eq!(fallback.what("/b/"), fallback.what("/b"));
    assert_eq!(fallback.what("/b//"), fallback.what("/%62"));
}

/// Many servers read all of these as one path: none gets around its route.
#[test]
fn no_spelling_gets_around_a_route() {
    let routes = routes(&["POST /v1/charges", "POST /v1/charges/{id}", "* /files/{*rest}"]);
    for path in [
        "/v1/%63harge%73",
        "/v1//charges",
        "//v1/charges",
        "/v1/./charges",
        "/v1/x/../charges",
        "/v1/x/%2e%2e/charges",
        "/v1/%2e/x/.%2E//charges",
    ] {
        assert_eq!(find(&routes, "POST", path), "POST /v1/charges", "{path}");
    }
    assert_eq!(find(&routes, "POST", "/v1/charges//./7"), "POST /v1/charges/{id}");
    assert_eq!(find(&routes, "PUT", "/x/..//files/a//b"), "* /files/{*rest}");
    for path in ["/v1/charges%2F", "/v1/charges%", "/v1%2Fcharges", "/v1/charges;a", "/V1/charges"]
    {
        assert_eq!(find(&routes, "POST", path), "*", "{path}");
    }
}

#[test]
fn a_missing_slash_or_rest_does_not_bypass_a_route() {
    let routes = routes(&["POST /v1/charges/", "* /files/{*rest}", "POST /files", "POST /a/{*b}"]);
    assert_eq!(find(&routes, "POST", "/v1/charges"), "POST /v1/charges/");
    assert_eq!(find(&routes, "PUT", "/v1/charges"), "*");
    // What matches as it is comes first, for any method too.
    assert_eq!(find(&routes, "POST", "/files/"), "POST /files");
    for path in ["/files/", "/files", "/files//", "/files/x"] {
        assert_eq!(find(&routes, "PUT", path), "* /files/{*rest}", "{path}");
    }
    assert_eq!(find(&routes, "POST", "/"), "*");
    let all = super::tests::routes(&["POST /{*rest}"]);
    assert_eq!(find(&all, "POST", "/"), "POST /{*rest}");
}

#[test]
fn a_pattern_is_normalised_as_requests_are() {
    let mut routes = routes(&["POST /v1//%63harges/./{id}"]);
    let name = "POST /v1/charges/{id}";
    for path in ["/v1/charges/1", "/v1//%63harges/./1"] {
        assert_eq!(find(&routes, "POST", path), name);
    }
    let error = routes.add(name, RoutePolicy::default()).unwrap_err();
    assert!(matches!(error, RouteError::Conflict { .. }), "{error}");
}

#[test]
fn an_unmatched_path_is_a_scope_of_its_own() {
    let routes = routes(&["POST /a/{id}"]);
    let what = |path| routes.find(&Method::POST, path).what(path);
    assert_eq!(what("/a/1"), "/a/{id}");
    assert_eq!(what("/b/1"), "/b/1");
    assert_eq!(what("/b//%31"), "/b/1");
}

#[test]
fn bad_routes_are_refused_with_a_cure() {
    let mut routes = Routes::default();
    let mut add = |text: &str| routes.add(text, RoutePolicy::default()).unwrap_err().to_string();
    for text in ["", "/a", "POST", "POST a", "post /a", "PO(ST /a", "POST /a b"] {
        assert!(add(text).contains("METHOD PATH"), "{text}");
    }
    assert!(add("POST /a/{*rest}/b").contains("{*rest}"));
    assert!(add("POST /a/{").contains("{name}"));
}

#[test]
fn two_routes_for_the_same_requests_are_refused() {
    let mut routes = routes(&["POST /a/{id}"]);
    let error = routes.add("POST /a/{name}", RoutePolicy::default()).unwrap_err();
    assert!(matches!(error, RouteError::Conflict { .. }), "{error}");
    routes.add("PUT /a/{name}", RoutePolicy::default()).unwrap();
}

fn ignoring(case: bool, slash: bool) -> RoutePolicy {
    let choice =
        |is_ignored| if is_ignored { PathComparison::Ignore } else { PathComparison::Exact };
    RoutePolicy::builder().path_case(choice(case)).path_slash(choice(slash)).build().unwrap()
}

/// Express routes like this unless it is asked not to.
#[test]
fn capitals_do_not_bypass_a_case_insensitive_route() {
    let mut routes = routes(&["POST /Exact/{id}", "* /{*rest}"]);
    routes.add("POST /v1/Charges/{id}", ignoring(true, false)).unwrap();
    let name = "POST /v1/Charges/{id}";
    for path in ["/v1/charges/Ab", "/V1/CHARGES/Ab", "/v1//charges/./Ab/", "/%561/charges/Ab"] {
        assert_eq!(find(&routes, "POST", path), name, "{path}");
    }
    assert_eq!(find(&routes, "POST", "/Exact/1"), "POST /Exact/{id}");
    assert_eq!(find(&routes, "POST", "/exact/1"), "* /{*rest}");
    let error = routes.add("POST /V1/charges/{key}", ignoring(true, false)).unwrap_err();
    assert!(matches!(error, RouteError::Conflict { .. }), "{error}");
}

/// The text before a parameter, too.
#[test]
fn capitals_of_a_pattern_do_not_hide_its_route() {
    let mut routes = Routes::default();
    routes.add("POST /V1/Of_{Name}", ignoring(true, false)).unwrap();
    for path in ["/v1/of_a", "/V1/Of_a", "/V1/OF_A"] {
        assert_eq!(find(&routes, "POST", path), "POST /V1/Of_{Name}", "{path}");
    }
}

#[test]
fn the_more_specific_of_two_routes_wins_whichever_of_them_ignores_capitals() {
    let mut routes = routes(&["POST /a/b"]);
    routes.add("* /{*rest}", ignoring(true, false)).unwrap();
    routes.add("POST /a/{id}", ignoring(true, false)).unwrap();
    assert_eq!(find(&routes, "POST", "/a/b"), "POST /a/b");
    assert_eq!(find(&routes, "POST", "/A/b"), "POST /a/{id}");
    assert_eq!(find(&routes, "PUT", "/a/b"), "* /{*rest}");
}

#[test]
fn the_path_that_is_compared_has_one_spelling() {
    let route = |policy| Route::new("*", None, policy, 0);
    let exact = route(RoutePolicy::default());
    for same in ["/v1/charges", "/v1/%63harges", "/v1/./charges", "/x/../v1/charges"] {
        assert_eq!(exact.compared(same), "/v1/charges", "{same}");
    }
    for other in ["/v1//charges", "/v1/charges/"] {
        assert_ne!(exact.compared(other), "/v1/charges", "{other}");
        assert_eq!(route(ignoring(true, true)).compared(other), "/v1/charges", "{other}");
    }
    // Where no pattern matches, any segment may be a parameter, whose capitals count to the upstream.
    assert_eq!(route(ignoring(true, true)).compared("/V1/charges"), "/V1/charges");
    let slash = route(ignoring(false, true));
    assert_eq!(slash.compared("/v1//charges/"), "/v1/charges");
    assert_ne!(slash.compared("/V1/charges"), "/v1/charges");
    assert_eq!(route(ignoring(true, false)).what("/V1/Charges"), "/v1/charges");
    // A parameter keeps its capitals.
    let matched = Route::new("POST /v1/{id}", Some("/v1/{id}"), ignoring(true, false), 0);
    assert_eq!(matched.compared("/V1/Ab"), "/v1/Ab");
}

fn refused(routes: &Routes, method: &str, path: &str) -> bool {
    routes.ambiguity(&method.parse().unwrap(), path).is_some_and(|(_, mode)| mode == Mode::Protect)
}

/// By either reading.
#[test]
fn a_path_is_refused_if_it_is_protected_by_one_of_its_readings() {
    let off = RoutePolicy::builder().mode(Mode::Off).build().unwrap();
    let mut routes = Routes::new(off.clone());
    routes.add("POST /v1/charges", RoutePolicy::default()).unwrap();
    let allow = RoutePolicy::builder().path_encoded_slash(EncodedSlash::Allow).build().unwrap();
    routes.add("POST /files/{*name}", allow).unwrap();
    for path in ["/v1%2Fcharges", "/v1%5ccharges", "/x%2F..%2fv1/charges", "/files/..%2Fv1/charges"]
    {
        assert!(refused(&routes, "POST", path), "{path}");
        assert!(!refused(&routes, "GET", path), "{path}");
    }
    for path in ["/files/a%2Fb", "/files/a%5Cb", "/off%2Fa", "/v1/charges"] {
        assert!(!refused(&routes, "POST", path), "{path}");
    }
    // What no reading tells is refused where anything is protected.
    for path in ["/off/a%00", "/files/a%0a", "/off\\a", "/../off", "/off/100%", "/off/..;/a"] {
        assert!(refused(&routes, "POST", path), "{path}");
        assert!(!refused(&routes, "GET", path), "{path}");
    }
    let nothing = Routes::new(off);
    for path in ["/a%2Fb", "/a%00", "/../a"] {
        assert!(!refused(&nothing, "POST", path), "{path}");
    }
    let gets = RoutePolicy::builder().key(KeyRule::Required).build().unwrap();
    assert!(refused(&Routes::new(gets), "GET", "/a%2Fb"));
}

fn guarded(patterns: &[&str]) -> Routes {
    let mut routes = Routes::new(RoutePolicy::builder().mode(Mode::Off).build().unwrap());
    for pattern in patterns {
        routes.add(pattern, RoutePolicy::default()).unwrap();
    }
    routes
}

/// nginx takes `%2F` for a slash and `%5C` for none; Express takes dots for names; servlet containers
/// leave parameters out.
#[test]
fn a_path_is_refused_if_one_of_many_servers_has_it_protected() {
    let routes = guarded(&["POST /v1/charges", "POST /files/{*rest}", "POST /v1/{account}/orders"]);
    for path in [
        "/a%5Cb/..%2Fv1/charges",
        "/v1%2Fa%5Cb%2Forders",
        "/files/a/../../x",
        "/v1/../orders",
        "/v1/./orders",
        "/v1/charges;a=1",
        "/v1;a/x;b/orders;c",
        "/v1/./charges;a/../charges;b",
    ] {
        assert!(refused(&routes, "POST", path), "{path}");
        assert!(!refused(&routes, "GET", path), "{path}");
    }
    // Protected all the same, or by no reading.
    for path in ["/v1/x/../charges", "/v1/./charges", "/files/a;b", "/x;a/y", "/x/../y", "/x/./y"] {
        assert!(!refused(&routes, "POST", path), "{path}");
    }
    let everything = Routes::default();
    for path in ["/a/../b", "/a;b", "/a;b/./c"] {
        assert!(!refused(&everything, "POST", path), "{path}");
    }
}

/// Segments as a path that the table can be asked for.
fn joined(segments: &[Vec<u8>]) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        for &byte in segment {
            let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b';');
            push_spelled(&mut path, if is_plain { Octet::Raw(byte) } else { Octet::Escaped(byte) });
        }
    }
    path
}

proptest! {
    /// What passes here unprotected is protected by no server's reading.
    #[test]
    fn no_server_reads_a_path_that_passes_as_a_protected_one(
        path in "(/|//|[.]{1,2}|;|%2[eEfF]|%5[cC]|%3[bB]|%0a|%c0%a[ef]|\\\\|a|b|a/b|/b/c){1,9}",
    ) {
        let routes = guarded(&["POST /a/b", "POST /b/{*rest}", "POST /a/{id}/b"]);
        let path = format!("/{path}");
        if !refused(&routes, "POST", &path) && routes.find(&Method::POST, &path).policy.mode == Mode::Off {
            for &server in SERVERS {
                let seen = joined(&read(server, &path));
                let route = routes.look_up(&Method::POST, &seen);
                prop_assert_eq!(route.policy.mode, Mode::Off, "{} is {} to {:?}", path, seen, server);
            }
        }
    }
}

/// Routes of which none is stricter than the others by its mode: they differ in what they ask for.
fn differing() -> Routes {
    let scope = |source: &str| vec![source.parse().unwrap()];
    let mut routes = Routes::default();
    let builder = RoutePolicy::builder;
    for (pattern, policy) in [
        ("* /a/b", builder().preset(Preset::Payments).key(KeyRule::Required)),
        ("POST /b/{*rest}", builder().scope(scope("header:x-tenant"))),
        ("PUT /b", builder().key(KeyRule::Required).scope(scope("jwt:sub"))),
        ("* /a/{id}/b", builder().key(KeyRule::Optional).preset(Preset::Notifications)),
        ("POST /a", builder().mode(Mode::Shadow)),
    ] {
        routes.add(pattern, policy.build().unwrap()).unwrap();
    }
    routes
}

/// Servlet containers take `/a/b;x` for `/a/b`: its key, scope and verified tokens would not be asked for.
#[test]
fn a_path_is_refused_if_one_of_its_readings_is_under_another_route() {
    let routes = differing();
    for (method, path) in [
        ("PUT", "/a/b;x"),
        ("POST", "/a/b;x"),
        ("DELETE", "/a;x/b"),
        ("PUT", "/b;x"),
        ("POST", "/b/../x"),
        ("POST", "/b/./../x;y"),
        ("POST", "/a/./b"),
        ("POST", "/a/1/b;x"),
    ] {
        assert!(refused(&routes, method, path), "{method} {path}");
    }
    // On one route, or passed by each.
    for (method, path) in [
        ("POST", "/b/x;y"),
        ("POST", "/b/x/../y"),
        ("POST", "/x;y"),
        ("POST", "/x/../y"),
        ("GET", "/b;x"),
        ("GET", "/b/../x"),
    ] {
        assert!(!refused(&routes, method, path), "{method} {path}");
    }
    // The same is asked for by either route.
    let mut alike = Routes::default();
    alike.add("POST /a/b", RoutePolicy::default()).unwrap();
    assert!(!refused(&alike, "POST", "/a/./b") && refused(&alike, "POST", "/a/b;x"));
    // Where a reading is only watched, the protection of the path's own route is enough.
    assert_eq!(routes.ambiguity(&Method::POST, "/a;x"), None);
}

proptest! {
    /// What passes here is under one route to all servers, or passed by the others.
    #[test]
    fn no_server_reads_a_path_that_passes_as_one_of_another_route(
        method in "POST|PUT|GET",
        path in "(/|//|[.]{1,2}|;|%2[eEfF]|%5[cC]|%3[bB]|a|b|a/b|/b/c){1,9}",
    ) {
        let (routes, path) = (differing(), format!("/{path}"));
        let method: Method = method.parse().unwrap();
        let own = routes.find(&method, &path);
        if !refused(&routes, method.as_str(), &path) {
            for &server in SERVERS {
                let seen = joined(&read(server, &path));
                let route = routes.look_up(&method, &seen);
                let is_guarded = route.guard(&method) == Mode::Protect;
                prop_assert!(
                    !is_guarded || route.name() == own.name(),
                    "{} of {} is {} of {} to {:?}", path, own.name(), seen, route.name(), server,
                );
            }
        }
    }
}

/// In shadow mode it is counted, and passes.
#[test]
fn the_strictest_route_decides() {
    let policy = |mode| RoutePolicy::builder().mode(mode).build().unwrap();
    let mut routes = Routes::new(policy(Mode::Shadow));
    let mode = |routes: &Routes, path| routes.ambiguity(&Method::POST, path).map(|(_, mode)| mode);
    for path in ["/a%2Fb", "/a%00"] {
        assert_eq!(mode(&routes, path), Some(Mode::Shadow));
    }
    routes.add("POST /a/b", policy(Mode::Protect)).unwrap();
    for path in ["/a%2Fb", "/a%00", "/c%00"] {
        assert_eq!(mode(&routes, path), Some(Mode::Protect));
    }
    assert_eq!(mode(&routes, "/c%2Fd"), Some(Mode::Shadow));
}
