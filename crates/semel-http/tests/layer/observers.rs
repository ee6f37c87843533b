//! What a layer reports, and that it makes its instruments itself.

use std::num::NonZero;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use metrics::with_local_recorder;
use semel_core::{OnStoreDown, OnUnknown};
use semel_engine::{Answer, Rate};
use semel_http::{
    Decided, IdempotentLayer, IdempotentRequest, Mode, OnMissingScope, OutcomeKind, ReplyBody,
    RequestBody, RouteObserver, RoutePolicy, RoutePolicyBuilder, Routes, SemelLayer, TokenRefused,
    VerifiedToken, VerifyToken,
};
use tower::{ServiceBuilder, ServiceExt as _};
use tower_layer::Layer as _;

use crate::support::{
    Api, BodyError, Counts, Fault, Handler, HandlerError, Step, TestBody, Verb, With, charge,
    engine, keyless, policy, until,
};

/// All that was reported.
#[derive(Debug, Default)]
struct Reports {
    decided: Mutex<Vec<Decided>>,
    times: Mutex<Vec<(Option<Duration>, Duration)>>,
    others: Mutex<Vec<String>>,
}

impl Reports {
    fn decided(&self) -> Vec<Decided> {
        self.decided.lock().unwrap().clone()
    }
}

impl RouteObserver for Reports {
    fn decided(&self, decided: Decided) {
        self.decided.lock().unwrap().push(decided);
    }

    fn timed(&self, execution: Option<Duration>, added: Duration) {
        self.times.lock().unwrap().push((execution, added));
    }

    fn unknown_released(&self) {
        self.others.lock().unwrap().push("unknown released".to_owned());
    }

    fn token_refused(&self, reason: &TokenRefused) {
        self.others.lock().unwrap().push(reason.as_str().to_owned());
    }
}

fn observed(policy: RoutePolicyBuilder, handler: Handler) -> (Api, Arc<Reports>) {
    let reports = Arc::new(Reports::default());
    (Api::new(policy, handler).observed_by(reports.clone()), reports)
}

/// A verifier without keys.
#[derive(Debug)]
struct NoKeys;

impl VerifyToken for NoKeys {
    fn verify(&self, _: &str) -> Result<VerifiedToken, TokenRefused> {
        Err(TokenRefused::NoKeys)
    }

    fn renew(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// Requests under a policy, and what is decided on them.
struct Case {
    policy: RoutePolicyBuilder,
    handler: Handler,
    prepare: fn(Api) -> Api,
    requests: Vec<Request<TestBody>>,
    decided: Vec<Decided>,
}

impl Case {
    fn of(policy: RoutePolicyBuilder, decided: impl Into<Vec<Decided>>) -> Self {
        let (handler, requests, prepare) = (Handler::counting(), vec![ann("k")], |api| api);
        Self { policy, handler, prepare, requests, decided: decided.into() }
    }

    fn by(self, handler: Handler) -> Self {
        Self { handler, ..self }
    }

    fn sent(self, requests: impl Into<Vec<Request<TestBody>>>) -> Self {
        Self { requests: requests.into(), ..self }
    }

    fn prepared(self, prepare: fn(Api) -> Api) -> Self {
        Self { prepare, ..self }
    }
}

fn ann(key: &str) -> Request<TestBody> {
    charge(key, "100").with("authorization", "Bearer ann")
}

fn lose_store(api: Api) -> Api {
    api.store.fail_all(Fault::Unavailable);
    api
}

fn cases() -> Vec<Case> {
    use Decided::*;

    let one = Rate::new(NonZero::<u32>::MIN, Duration::from_hours(1));
    let unknown = Handler::replying(|_| {
        let mut response = Response::new(TestBody::from("gone"));
        response.extensions_mut().insert(OutcomeKind::Unknown);
        response
    });
    let escaped = keyless("POST", "/a%2fb", "").with("idempotency-key", "k");
    let jwt = policy().scope(vec!["jwt:sub".parse().unwrap()]);
    vec![
        Case::of(policy(), [Executed, Replayed, Mismatch]).sent([
            ann("k"),
            ann("k"),
            charge("k", "200").with("authorization", "Bearer ann"),
        ]),
        Case::of(policy(), [KeyMissing, KeyInvalid, Refused]).sent([
            keyless("POST", "/charges", "100"),
            charge("two words", "100"),
            escaped,
        ]),
        Case::of(policy().on_missing_scope(OnMissingScope::Reject), [ScopeMissing])
            .sent([charge("k", "100")]),
        Case::of(policy().max_request_body(1), [BodyTooLarge]),
        Case::of(policy(), [BodyBroken])
            .sent([charge("k", TestBody::of([Step::Fail(BodyError::Gone)]))]),
        Case::of(jwt, [TokenKeysUnavailable]).prepared(|api| api.verified_by(Arc::new(NoKeys))),
        Case::of(policy().new_keys_per_scope(Some(one)), [Executed, TooManyKeys])
            .sent([ann("k"), ann("other")]),
        Case::of(policy(), [StoreUnavailable]).prepared(lose_store),
        Case::of(policy().on_store_down(OnStoreDown::Open), [Bypassed]).prepared(lose_store),
        Case::of(policy(), [NotStored, InFlight])
            .prepared(|api| {
                api.store.fail([Verb::Settle, Verb::Renew], Fault::Unavailable);
                api
            })
            .sent([ann("k"), ann("k")]),
        Case::of(policy(), [Released]).by(Handler::answering(503)),
        Case::of(policy().on_unknown(OnUnknown::Hold), [Held, Unknown])
            .by(unknown)
            .sent([ann("k"), ann("k")]),
        Case::of(policy(), [Failed]).by(Handler::new(|_| Err(HandlerError))),
        Case::of(policy().mode(Mode::Shadow), [First, Duplicate]).sent([ann("k"), ann("k")]),
        Case::of(policy().mode(Mode::Shadow), [Unchecked]).prepared(lose_store),
    ]
}

#[tokio::test(start_paused = true)]
async fn every_decision_is_reported() {
    let mut all = Vec::new();
    for Case { policy, handler, prepare, requests, decided } in cases() {
        let (api, reports) = observed(policy, handler);
        let api = prepare(api);
        for (before, request) in requests.into_iter().enumerate() {
            // A failure of the service has no reply.
            let _ = api.try_send(request).await;
            // Shadow mode decides in a task of its own.
            until("it was decided", || reports.decided().len() > before).await;
        }
        assert_eq!(reports.decided(), decided);
        all.extend(decided);
    }
    assert!(Decided::ALL.iter().all(|decided| all.contains(decided)), "{all:?}");
}

#[tokio::test(start_paused = true)]
async fn times_are_reported_without_what_was_not_executed() {
    let (api, reports) = observed(policy(), Handler::counting());
    for request in [ann("k"), ann("k"), keyless("POST", "/charges", "100")] {
        api.send(request).await;
    }
    let nothing = Duration::ZERO;
    assert_eq!(*reports.times.lock().unwrap(), [(Some(nothing), nothing), (None, nothing)]);
}

#[tokio::test]
async fn released_unknown_outcomes_and_refused_tokens_are_reported() {
    let jwt = policy().scope(vec!["jwt:sub".parse().unwrap()]);
    let (api, reports) = observed(policy(), Handler::new(|_| Err(HandlerError)));
    api.try_send(ann("k")).await.unwrap_err();
    assert_eq!(*reports.others.lock().unwrap(), ["unknown released"]);

    for jwt in [jwt.clone(), jwt.mode(Mode::Shadow)] {
        let (api, reports) = observed(jwt, Handler::counting());
        api.verified_by(Arc::new(NoKeys)).send(ann("k")).await;
        assert_eq!(*reports.others.lock().unwrap(), ["no_keys"]);
    }
}

async fn mismatch(
    request: Request<RequestBody<TestBody>>,
) -> Result<Response<ReplyBody>, HandlerError> {
    let attempt = request.extensions().get::<IdempotentRequest>().unwrap();
    Ok(attempt.respond(Answer::Mismatch))
}

#[tokio::test]
async fn each_route_has_its_own_observer_under_both_layers() {
    let mut routes = Routes::new(policy().build().unwrap());
    routes.add("POST /charges", policy().build().unwrap()).unwrap();
    let reports = [Arc::new(Reports::default()), Arc::new(Reports::default())];
    let by_name = reports.clone();
    let observe = move |route: &semel_http::Route| -> Arc<dyn RouteObserver> {
        by_name[usize::from(route.name() == "POST /charges")].clone()
    };
    let own = IdempotentLayer::new(routes.clone()).observer(observe.clone());
    let own = ServiceBuilder::new().layer(own).service_fn(mismatch);
    own.oneshot(charge("k", "100")).await.unwrap();
    assert_eq!(reports.each_ref().map(|route| route.decided()), [vec![], vec![Decided::Mismatch]]);

    let service = SemelLayer::new(engine(), routes).observer(observe).layer(Handler::counting());
    let other = keyless("POST", "/others", "").with("idempotency-key", "k");
    service.oneshot(other).await.unwrap();
    assert_eq!(reports[0].decided(), [Decided::Executed]);
}

/// Routes are made while a configuration is read, when no recorder may be there yet.
#[tokio::test]
async fn routes_that_are_older_than_the_recorder_are_counted() {
    let (routes, counts) = (Routes::new(RoutePolicy::default()), Counts::default());
    let own = routes.clone();
    let (service, own) = with_local_recorder(&counts, || {
        let own = ServiceBuilder::new().layer(IdempotentLayer::new(own)).service_fn(mismatch);
        (SemelLayer::new(engine(), routes).layer(Handler::counting()), own)
    });
    service.oneshot(charge("k", "100")).await.unwrap();
    own.oneshot(charge("k", "100")).await.unwrap();
    assert_eq!((counts.of("executed"), counts.of("mismatch")), (1, 1));
}
