//! Shadow mode: everything passes; what protection would have done is counted and logged.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use semel_core::{Key, Outcome, RecordId, Reply};
use semel_engine::{Answer, EngineError};
use semel_store::Store;
use tower_service::Service;

use super::arrival::Arrival;
use super::body::{Seen, Tap};
use super::execute::call;
use super::{BoxError, RequestBody, ResponseBody, Shared};
use crate::extract::{ClientIp, KeyProblem, key_in_body, scope_of};
use crate::fingerprint::fingerprint_of;
use crate::observe::Decided;
use crate::policy::Need;
use crate::routes::Route;

/// Passes the request on as it comes, and looks aside whether it came before.
pub(crate) async fn watch<S, I, B, R>(
    shared: Arc<Shared<S>>,
    inner: I,
    arrival: Arrival<B>,
) -> Result<Response<ResponseBody<R>>, I::Error>
where
    S: Store,
    I: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let Arrival { route, need, key, request } = arrival;
    let (parts, body) = request.into_parts();
    let (room, max) = (shared.admission.room.clone(), route.policy().max_request_body);
    let watcher = Watcher { shared, route, need, key, head: head_of(&parts) };
    let tap = Tap::new(max, &room, |seen| watcher.look(seen));
    let request = Request::from_parts(parts, RequestBody::tapped(body, tap));
    Ok(call(inner, request).await?.map(ResponseBody::passed))
}

/// What is needed to judge a request once its body has passed.
struct Watcher<S> {
    shared: Arc<Shared<S>>,
    route: Arc<Route>,
    need: Need,
    key: Result<Option<Key>, KeyProblem>,
    head: Parts,
}

// === impl Watcher ===

impl<S: Store> Watcher<S> {
    fn look(self, seen: Seen) {
        match seen {
            Seen::Whole(body) => self.judge(&body),
            Seen::TooLarge => self.route.decided(Decided::BodyTooLarge, None, 0),
            Seen::Broken | Seen::NoRoom => self.route.decided(Decided::Unchecked, None, 0),
        }
    }

    fn judge(self, body: &Bytes) {
        let Self { shared, route, need, key, head } = self;
        let policy = route.policy();
        let refused = |decided| route.decided(decided, None, 0);
        let key = match key
            .and_then(|key| key.map_or_else(|| key_in_body(body, policy), |key| Ok(Some(key))))
        {
            Ok(Some(key)) => key,
            Ok(None) if need == Need::Required => return refused(Decided::KeyMissing),
            Ok(None) => return,
            Err(_) => return refused(Decided::KeyInvalid),
        };
        let Ok(scope) = scope_of(&head, &route.what(head.uri.path()), policy) else {
            return refused(Decided::ScopeMissing);
        };
        // A namespace of its own: what is noted here has no reply that could ever be replayed.
        let namespace = format!("{} (shadow)", shared.admission.namespace);
        let id = RecordId::new(&namespace, &scope, &key);
        let attempt = shared.engine.attempt(id, fingerprint_of(&head, body, policy));
        // Aside, so that the request does not wait for the store. The engine limits how many.
        tokio::spawn(async move {
            let seen = |_execution| async { Outcome::Completed(Reply::default()) };
            let answer = shared.engine.once(attempt, &route.policy().core, seen).await;
            route.decided(would_have(&answer), Some(id), 0);
        });
    }
}

/// The head of a request once more: the request itself is on its way.
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

/// What protection would have made of it.
fn would_have(answer: &Result<Answer, EngineError>) -> Decided {
    match answer {
        Ok(Answer::Executed { .. } | Answer::Released { .. }) => Decided::First,
        Ok(Answer::Replayed { .. } | Answer::InFlight { .. }) => Decided::Duplicate,
        Ok(Answer::Mismatch) => Decided::Mismatch,
        Ok(Answer::Unknown { .. } | Answer::Bypassed { .. }) | Err(_) => Decided::Unchecked,
    }
}
