//! Routing by the head of a request: its route, and the key in its headers.

use std::sync::Arc;

use http::{Method, Request, Version};
use semel_core::Key;

use super::rejected::Rejected;
use super::rejection::Rejection;
use super::{MatchedRoute, RequestBody};
use crate::extract::{KeyProblem, key_in_headers, looks_into_body};
use crate::headers;
use crate::observe::{Decided, LiveRoute, LiveRoutes};
use crate::policy::{Mode, Need};
use crate::routes::Routes;

/// A request that may have to be protected, and what is known about it.
pub(crate) struct RoutedRequest<B> {
    pub(crate) route: Arc<LiveRoute>,
    pub(crate) need: Need,
    /// The key in its headers.
    pub(crate) key: Result<Option<Key>, KeyProblem>,
    pub(crate) request: Request<B>,
}

/// How a request is handled, by its head.
pub(crate) enum Routing<B> {
    /// It is passed on as it comes.
    Pass(Request<RequestBody<B>>),
    /// Its body must be read first.
    Admit(RoutedRequest<B>),
    /// Two servers may read it differently, so it is neither claimed nor passed on.
    Refuse { route: Arc<LiveRoute>, why: Rejected, version: Version },
}

/// Finds the route of a request, and whether it needs a key there.
pub(crate) fn route_request<B>(live: &LiveRoutes, mut request: Request<B>) -> Routing<B> {
    // Only an execution has a fence: a client must not make one up.
    request.headers_mut().remove(headers::IDEMPOTENCY_FENCE);
    let routes = &live.routes;
    let method = &effective_method(routes, &request);
    let route = live.of(routes.find(method, request.uri().path()));
    match routes.ambiguity(method, request.uri().path()) {
        Some((ambiguity, Mode::Protect)) => {
            let (route, version) = (route.clone(), request.version());
            // Its body stays unread, so the connection is closed: no further request is read from it.
            let why = Rejection::Ambiguous(ambiguity).into();
            return Routing::Refuse { route, why, version };
        }
        Some(_) => {
            route.decided(Decided::Refused, None, 0);
            return Routing::Pass(tagged(request, route).map(RequestBody::passed));
        }
        None => {}
    }
    let policy = route.policy();
    let need = policy.need(method);
    if need == Need::Pass {
        return Routing::Pass(tagged(request, route).map(RequestBody::passed));
    }
    let key = key_in_headers(request.headers(), policy);
    if need == Need::Optional && key == Ok(None) && !looks_into_body(policy) {
        return Routing::Pass(tagged(request, route).map(RequestBody::passed));
    }
    let request = tagged(request, route);
    Routing::Admit(RoutedRequest { route: route.clone(), need, key, request })
}

/// The effective method of a request: its own, unless a header overrides it with one whose route asks for more. Where
/// both ask for as much, the request keeps its own route; the header counts in the fingerprint.
fn effective_method<B>(routes: &Routes, request: &Request<B>) -> Method {
    let (own, path) = (request.method(), request.uri().path());
    let asked = |method: &Method| routes.asked_for(method, path);
    let others = headers::methods_in_place(request.headers());
    let strictest = others.max_by_key(asked).filter(|other| asked(other) > asked(own));
    strictest.unwrap_or_else(|| own.clone())
}

fn tagged<B>(mut request: Request<B>, route: &Arc<LiveRoute>) -> Request<B> {
    if route.is_matched() {
        request.extensions_mut().insert(MatchedRoute(route.route.clone()));
    }
    request
}
