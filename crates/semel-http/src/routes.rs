//! Which policy a request comes under.

mod path;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use http::Method;
use matchit::Router;

use self::path::normalised;
use crate::observe::RouteMetrics;
use crate::policy::{Need, RoutePolicy};
use crate::retry_after::Latency;

/// The routes of an application, each with its policy, and the policy of everything else.
///
/// ```
/// use semel_http::{Preset, RoutePolicy, Routes};
///
/// let payments = RoutePolicy::builder().preset(Preset::Payments).build()?;
/// let mut routes = Routes::new(RoutePolicy::default());
/// routes.add("POST /v1/charges", payments.clone())?;
/// routes.add("POST /v1/charges/{id}/refunds", payments)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Routes {
    by_method: HashMap<Method, Router<Arc<Route>>>,
    any_method: Router<Arc<Route>>,
    fallback: Arc<Route>,
    all: Vec<Arc<Route>>,
}

/// One route.
#[derive(Debug)]
pub struct Route {
    name: Box<str>,
    pattern: Option<Box<str>>,
    policy: RoutePolicy,
    pub(crate) metrics: RouteMetrics,
    pub(crate) latency: Latency,
}

/// Why a route cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// Not `METHOD PATH`.
    #[error(
        "`{0}` is not a route; write METHOD PATH, such as POST /v1/charges/{{id}}, or * for any method"
    )]
    Malformed(String),
    /// The path is not a pattern.
    #[error(
        "`{path}` is not a path pattern: {reason}; write {{name}} for one segment and {{*rest}} for all that follow"
    )]
    BadPattern {
        /// The path.
        path: String,
        /// What the router said.
        reason: String,
    },
    /// Another route matches the same requests.
    #[error("`{new}` matches the same requests as `{old}`; keep one of them")]
    Conflict {
        /// The route to be added.
        new: String,
        /// The path pattern that is there, for the same method.
        old: String,
    },
}

// === impl Routes ===

impl Routes {
    /// No routes yet: everything comes under `fallback`.
    pub fn new(fallback: RoutePolicy) -> Self {
        let fallback = Arc::new(Route::new("*", None, fallback));
        let all = vec![fallback.clone()];
        Self { by_method: HashMap::new(), any_method: Router::new(), fallback, all }
    }

    /// Adds a route: `METHOD PATH`, with `{name}` and `{*rest}` in the path and `*` for any method.
    pub fn add(&mut self, matches: &str, policy: RoutePolicy) -> Result<(), RouteError> {
        let malformed = || RouteError::Malformed(matches.to_owned());
        let (method, path) = matches.split_once(' ').ok_or_else(malformed)?;
        // As requests are matched, or it would match none.
        let path = &*normalised(path.trim_start());
        if !path.starts_with('/') || path.contains(char::is_whitespace) {
            return Err(malformed());
        }
        let router = match method {
            "*" => &mut self.any_method,
            method if method.bytes().any(|byte| byte.is_ascii_lowercase()) => {
                return Err(malformed());
            }
            method => {
                let method = Method::from_bytes(method.as_bytes()).map_err(|_| malformed())?;
                self.by_method.entry(method).or_default()
            }
        };
        let name = format!("{method} {path}");
        let route = Arc::new(Route::new(&name, Some(path), policy));
        router.insert(path, route.clone()).map_err(|error| RouteError::of(name, path, error))?;
        self.all.push(route);
        Ok(())
    }

    /// The route of a request, however its path is spelled: escapes of unreserved characters,
    /// repeated slashes, `.`, `..` and a slash at the end do not get around a route. One for its
    /// method comes before one for any method.
    pub fn find(&self, method: &Method, path: &str) -> &Arc<Route> {
        let path = normalised(path);
        self.at(method, &path)
            .or_else(|| self.at(method, path.strip_suffix('/')?))
            .unwrap_or(&self.fallback)
    }

    fn at(&self, method: &Method, path: &str) -> Option<&Arc<Route>> {
        let by_method = self.by_method.get(method).and_then(|router| router.at(path).ok());
        by_method.or_else(|| self.any_method.at(path).ok()).map(|found| found.value)
    }

    /// What everything comes under that no pattern matches.
    pub const fn fallback(&self) -> &Arc<Route> {
        &self.fallback
    }

    /// All routes, the fallback first.
    pub fn all(&self) -> &[Arc<Route>] {
        &self.all
    }
}

impl Default for Routes {
    fn default() -> Self {
        Self::new(RoutePolicy::default())
    }
}

// === impl Route ===

impl Route {
    fn new(name: &str, pattern: Option<&str>, policy: RoutePolicy) -> Self {
        let metrics = RouteMetrics::new(name, policy.mode);
        let (pattern, latency) = (pattern.map(Into::into), Latency::default());
        Self { name: name.into(), pattern, policy, metrics, latency }
    }

    /// `METHOD PATTERN`, or `*` for the fallback: what logs and metrics call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its policy.
    pub const fn policy(&self) -> &RoutePolicy {
        &self.policy
    }

    /// Are requests of this method passed on, whatever they bring?
    pub fn passes(&self, method: &Method) -> bool {
        self.policy.need(method) == Need::Pass
    }

    /// Did a pattern match, rather than none?
    pub(crate) const fn is_matched(&self) -> bool {
        self.pattern.is_some()
    }

    /// What a key is good for: the pattern, or the path itself if none matched.
    ///
    /// That is the normalised path, while the fingerprint has the path as it was sent. So a key
    /// that comes again with another spelling of the path finds its record, and is a mismatch
    /// there. Were the scope by spelling too, a server that takes both for one path would execute
    /// twice. Were the fingerprint normalised too, one that takes them for two paths would have an
    /// operation answered with another's reply.
    pub(crate) fn what<'a>(&'a self, path: &'a str) -> Cow<'a, str> {
        match &self.pattern {
            Some(pattern) => Cow::Borrowed(pattern),
            None => without_final_slash(normalised(path)),
        }
    }
}

/// Many servers take `/charges/` for `/charges`.
fn without_final_slash(path: Cow<'_, str>) -> Cow<'_, str> {
    match path {
        Cow::Borrowed(path) => Cow::Borrowed(path.strip_suffix('/').unwrap_or(path)),
        Cow::Owned(mut path) => {
            if path.ends_with('/') {
                path.pop();
            }
            Cow::Owned(path)
        }
    }
}

// === impl RouteError ===

impl RouteError {
    fn of(new: String, path: &str, error: matchit::InsertError) -> Self {
        match error {
            matchit::InsertError::Conflict { with } => Self::Conflict { new, old: with },
            other => Self::BadPattern { path: path.to_owned(), reason: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let routes =
            routes(&["POST /v1/charges", "POST /v1/charges/{id}/refunds", "* /files/{*rest}"]);
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
        for path in
            ["/v1/charges%2F", "/v1/charges%", "/v1%2Fcharges", "/v1/charges;a", "/V1/charges"]
        {
            assert_eq!(find(&routes, "POST", path), "*", "{path}");
        }
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
        let mut add =
            |text: &str| routes.add(text, RoutePolicy::default()).unwrap_err().to_string();
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
}
