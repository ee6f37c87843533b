//! Shadow mode: everything passes; what protection would have done is counted.

use http::Response;
use semel_http::{KeyRule, Mode, OnMissingScope, RequestBody, RoutePolicyBuilder, SemelLayer};
use tower::ServiceExt as _;
use tower_layer::Layer as _;

use crate::support::{
    Api, Counts, Fault, Handler, HandlerError, Reply, Step, TestBody, Verb, With, charge, engine,
    keyless, policy, until,
};

fn shadow() -> RoutePolicyBuilder {
    policy().mode(Mode::Shadow)
}

fn api(policy: RoutePolicyBuilder) -> (Api, Counts) {
    let counts = Counts::default();
    let api = Api::with_routes(counts.routes(policy), Handler::counting());
    (api, counts)
}

async fn counted(counts: &Counts, decision: &str, count: u64) {
    until(decision, || counts.of(decision) >= count).await;
    assert_eq!(counts.of(decision), count, "{decision}");
}

#[tokio::test]
async fn nothing_is_refused_or_replayed_and_all_is_counted() {
    let (api, counts) = api(shadow());
    let requests = [
        (charge("k", "100"), "first"),
        (charge("k", "100"), "duplicate"),
        (charge("k", "200"), "mismatch"),
        (keyless("POST", "/charges", "100"), "key_missing"),
        (charge("two words", "100"), "key_invalid"),
    ];
    for (run, (request, decision)) in (1..).zip(requests) {
        let reply = api.send(request).await;
        assert_eq!((reply.status, reply.text()), (201, &*format!("run {run}")), "{decision}");
        assert_eq!(reply.headers.len(), 0, "{:?}", reply.headers);
        counted(&counts, decision, 1).await;
    }
    assert_eq!(counts.all().len(), 5, "{:?}", counts.all());
    assert_eq!(api.handler.runs(), 5);
}

#[tokio::test]
async fn a_missing_identity_is_counted_where_one_would_be_asked_for() {
    let (api, counts) = api(shadow().on_missing_scope(OnMissingScope::Reject));
    assert_eq!(api.send(charge("k", "100")).await.status, 201);
    counted(&counts, "scope_missing", 1).await;
    assert_eq!(counts.all().len(), 1);
}

/// What protection would let pass is no missing key, wherever keys are looked for.
#[tokio::test]
async fn an_optional_key_is_not_reported_missing() {
    let key_from = vec!["json:/key".parse().unwrap()];
    let (api, counts) = api(shadow().key_from(key_from).key(KeyRule::Optional));
    assert_eq!(api.send(keyless("POST", "/charges", r#"{"amount":1}"#)).await.status, 201);
    assert_eq!(api.send(keyless("POST", "/charges", r#"{"key":"k"}"#)).await.status, 201);
    counted(&counts, "first", 1).await;
    assert_eq!(counts.all().len(), 1, "{:?}", counts.all());
}

#[tokio::test]
async fn the_request_is_passed_on_as_it_came() {
    let (api, _) = api(shadow());
    let body = TestBody::of([Step::data("1"), Step::Yield, Step::data("00")]);
    let request = charge("k", body).with("x-trace", "7");
    api.send(request).await;
    let seen = api.handler.last();
    assert_eq!((&seen.body[..], seen.header("x-trace")), (&b"100"[..], Some("7")));
    assert_eq!(seen.header("idempotency-key"), Some("k"));
    assert_eq!(seen.header("idempotency-fence"), None);
}

#[tokio::test]
async fn a_body_over_the_limit_passes_whole() {
    let bodies: [fn() -> TestBody; 2] =
        [|| TestBody::pieces(40, 100), || TestBody::pieces(40, 100).declaring(4_000)];
    for body in bodies {
        let (api, counts) = api(shadow().max_request_body(1_000));
        assert_eq!(api.send(charge("k", body())).await.status, 201);
        let passed = api.handler.last().body;
        assert!(passed.len() == 4_000 && passed.iter().all(|byte| *byte == b'x'));
        counted(&counts, "body_too_large", 1).await;
        assert_eq!(api.store.calls(Verb::Claim), 0);
    }
}

#[tokio::test]
async fn the_reply_is_passed_on_as_it_came() {
    let handler = Handler::replying(|_| {
        let response = Response::builder().status(503).body(TestBody::pieces(40, 100)).unwrap();
        response.with("set-cookie", "a=1").with("keep-alive", "timeout=5")
    });
    let api = Api::new(shadow().max_reply_body(1_000), handler);
    let reply = api.send(charge("k", "100")).await;
    assert_eq!((reply.status, reply.body.len(), reply.headers.len()), (503, 4_000, 2));

    let failing = Api::new(shadow(), Handler::new(|_| Err(HandlerError)));
    assert_eq!(failing.try_send(charge("k", "100")).await.unwrap_err(), HandlerError);
}

#[tokio::test]
async fn a_lost_store_disturbs_nothing() {
    let (api, counts) = api(shadow());
    api.store.fail_all(Fault::Unavailable);
    assert_eq!(api.send(charge("k", "100")).await.text(), "run 1");
    counted(&counts, "unchecked", 1).await;
}

#[tokio::test]
async fn shadow_records_are_never_replayed() {
    let (watched, counts) = api(shadow());
    assert_eq!(watched.send(charge("k", "100")).await.text(), "run 1");
    counted(&counts, "first", 1).await;

    let protected = watched.beside(policy(), watched.handler.clone());
    let first = protected.send(charge("k", "100")).await;
    assert_eq!((first.text(), first.is_replayed()), ("run 2", false));
    protected.send(charge("k", "100")).await.assert_replays(&first);
    // Nor is it a mismatch.
    assert_eq!(watched.send(charge("j", "100")).await.text(), "run 3");
    counted(&counts, "first", 2).await;
    assert_eq!(protected.send(charge("j", "200")).await.text(), "run 4");
}

#[tokio::test]
async fn unprotected_requests_are_not_counted() {
    let (api, counts) = api(shadow());
    for method in ["GET", "PUT", "DELETE"] {
        assert_eq!(api.send(keyless(method, "/charges", "")).await.status, 201);
    }
    assert_eq!(counts.all(), []);
    assert_eq!(api.store.calls(Verb::Claim), 0);
}

/// A handler that answers before its request has ended, as those of streams do.
#[tokio::test]
async fn a_body_that_never_ends_is_not_waited_for() {
    let counts = Counts::default();
    let routes = counts.routes(shadow());
    let answers_at_once =
        tower::service_fn(|_request: http::Request<RequestBody<TestBody>>| async {
            Ok::<_, HandlerError>(Response::new(TestBody::from("early".to_owned())))
        });
    let service = SemelLayer::new(engine(), routes).layer(answers_at_once);
    let endless = TestBody::of([Step::Data("100".into()), Step::Stall]);
    let request = charge("k", "100").map(|_| endless);
    let reply = Reply::of(service.oneshot(request).await.unwrap()).await;
    assert_eq!(reply.text(), "early");
    counted(&counts, "unchecked", 1).await;
}
