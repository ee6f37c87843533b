//! Shadow mode: everything passes; what protection would have done is counted and logged.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use semel_core::{Key, Outcome, RecordId, Reply};
use semel_engine::{Answer, EngineError};
use tower_service::Service;

use super::body::{Observed, Observer};
use super::execute::call;
use super::routing::RoutedRequest;
use super::{BoxError, RequestBody, ResponseBody, Shared};
use crate::extract::{ClientIp, KeyProblem, ScopeMissing, key_in_body, scope_of, token_now};
use crate::observe::{Decided, LiveRoute};
use crate::policy::Need;

/// Passes the request on as it comes, and checks separately for duplicates.
pub(crate) async fn watch<I, B, R>(
    shared: Arc<Shared>,
    inner: I,
    routed: RoutedRequest<B>,
) -> Result<Response<ResponseBody<R>>, I::Error>
where
    I: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let RoutedRequest { route, need, key, request } = routed;
    let (parts, body) = request.into_parts();
    let (budget, max) = (shared.admission.budget.clone(), route.policy().max_request_body);
    let watcher = Watcher { shared, route, need, key, head: head_of(&parts) };
    let observer = Observer::new(max, &budget, |observed| watcher.finish(observed));
    let request = Request::from_parts(parts, RequestBody::observed(body, observer));
    Ok(call(inner, request).await?.map(ResponseBody::passed))
}

/// What is needed to check a request once its body has passed.
struct Watcher {
    shared: Arc<Shared>,
    route: Arc<LiveRoute>,
    need: Need,
    key: Result<Option<Key>, KeyProblem>,
    head: Parts,
}

// === impl Watcher ===

impl Watcher {
    fn finish(self, observed: Observed) {
        match observed {
            Observed::Whole(body) => self.check(&body),
            Observed::TooLarge => self.route.decided(Decided::BodyTooLarge, None, 0),
            Observed::Broken | Observed::OverBudget => {
                self.route.decided(Decided::Unchecked, None, 0);
            }
        }
    }

    fn check(self, body: &Bytes) {
        let Self { shared, route, need, key, head } = self;
        let policy = route.policy();
        let refused = |decided| route.decided(decided, None, 0);
        let key = match key.and_then(|key| {
            key.map_or_else(|| key_in_body(&head.headers, body, policy), |key| Ok(Some(key)))
        }) {
            Ok(Some(key)) => key,
            Ok(None) if need == Need::Required => return refused(Decided::KeyMissing),
            Ok(None) => return,
            Err(_) => return refused(Decided::KeyInvalid),
        };
        // Without waiting for newer keys: no request may queue here.
        let token = token_now(&head.headers, policy, shared.admission.verifier.as_deref());
        let what = route.what(head.uri.path());
        let scope = match token.and_then(|token| scope_of(&head, &what, policy, &token)) {
            Ok(scope) => scope,
            Err(missing) => {
                route.scope_missing(&missing);
                let is_open =
                    matches!(&missing, ScopeMissing::Token(refused) if refused.may_be_cured());
                return refused(if is_open { Decided::Unchecked } else { Decided::ScopeMissing });
            }
        };
        // A namespace of its own: a shadow record has no reply that could be replayed.
        let namespace = format!("{} (shadow)", shared.admission.namespace);
        let id = RecordId::new(&namespace, &scope, &key);
        let Ok(fingerprint) = shared.admission.budget.fingerprint(&head, body, &route) else {
            return refused(Decided::Unchecked);
        };
        let attempt = shared.engine.attempt(id, fingerprint);
        // In a task, so that the request does not wait for the store. The engine limits their number.
        tokio::spawn(async move {
            let seen = |_execution| async { Outcome::Completed(Reply::default()) };
            let answer = shared.engine.once(attempt, &route.policy().core, seen).await;
            route.decided(would_have(&answer), Some(id), 0);
        });
    }
}

/// A copy of the head: the request itself is passed on.
fn head_of(parts: &Parts) -> Parts {
    let mut head = Request::new(()).into_parts().0;
    head.method = parts.method.clone();
    head.uri = parts.uri.clone();
    head.headers = parts.headers.clone();
    if let Some(ip) = parts.extensions.get::<ClientIp>() {
        head.extensions.insert(*ip);
    }
    head
}

/// The decision that protection would have made.
fn would_have(answer: &Result<Answer, EngineError>) -> Decided {
    match answer {
        Ok(Answer::Executed { .. } | Answer::Released { .. }) => Decided::First,
        Ok(Answer::Replayed { .. } | Answer::InFlight { .. }) => Decided::Duplicate,
        Ok(Answer::Mismatch) => Decided::Mismatch,
        Ok(Answer::Unknown { .. } | Answer::Bypassed { .. }) | Err(_) => Decided::Unchecked,
    }
}
