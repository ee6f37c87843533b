//! A request as it arrives: its route, and what its head says about a key.

use std::sync::Arc;

use http::Request;
use semel_core::Key;

use super::{MatchedRoute, RequestBody};
use crate::extract::{KeyProblem, key_in_headers, looks_into_body};
use crate::headers;
use crate::policy::Need;
use crate::routes::{Route, Routes};

/// A request that may have to be protected, and what is known about it.
pub(crate) struct Arrival<B> {
    pub(crate) route: Arc<Route>,
    pub(crate) need: Need,
    /// The key in its headers.
    pub(crate) key: Result<Option<Key>, KeyProblem>,
    pub(crate) request: Request<B>,
}

/// What is to be done with a request, by its head.
pub(crate) enum Arrived<B> {
    /// It is passed on as it comes.
    Pass(Request<RequestBody<B>>),
    /// Its body must be read first.
    Admit(Arrival<B>),
}

/// Finds the route of a request, and whether it needs a key there.
pub(crate) fn arrive<B>(routes: &Routes, mut request: Request<B>) -> Arrived<B> {
    // Only an execution has a fence: a client must not make one up.
    request.headers_mut().remove(headers::IDEMPOTENCY_FENCE);
    let route = routes.find(request.method(), request.uri().path());
    let policy = route.policy();
    let need = policy.need(request.method());
    if need == Need::Pass {
        return Arrived::Pass(tagged(request, route).map(RequestBody::passed));
    }
    let key = key_in_headers(request.headers(), policy);
    if need == Need::Optional && key == Ok(None) && !looks_into_body(policy) {
        return Arrived::Pass(tagged(request, route).map(RequestBody::passed));
    }
    let request = tagged(request, route);
    Arrived::Admit(Arrival { route: route.clone(), need, key, request })
}

fn tagged<B>(mut request: Request<B>, route: &Arc<Route>) -> Request<B> {
    if route.is_matched() {
        request.extensions_mut().insert(MatchedRoute(route.clone()));
    }
    request
}
