//! Trap 25: one client does not take all there is, and gets what it is owed all the same.

use std::num::NonZero;
use std::time::Duration;

use http::{Request, Response};
use semel_engine::Rate;
use semel_http::{PartSource, Preset, RoutePolicyBuilder, Routes, ScopeSource};

use crate::support::{Api, Counts, Handler, Reply, TestBody, Verb, With, charge, keyless, policy};

fn ann(key: &str) -> Request<TestBody> {
    charge(key, "100").with("authorization", "Bearer ann")
}

fn bob(key: &str) -> Request<TestBody> {
    charge(key, "100").with("authorization", "Bearer bob")
}

#[track_caller]
fn assert_refused(reply: &Reply) {
    reply.assert_problem(429, "too_many_keys", true);
    reply.assert_retry_after(true);
    assert!(reply.text().contains("nothing was executed"), "{}", reply.text());
}

/// A client whose first request is held back by the gate.
async fn busy(policy: RoutePolicyBuilder, first: Request<TestBody>) -> Busy {
    let counts = Counts::default();
    let (handler, gate) = Handler::counting().gated();
    let api = Api::with_routes(counts.routes(policy), handler);
    let running = api.spawn(first);
    api.handler.started(1).await;
    Busy { api, counts, gate, running }
}

struct Busy {
    api: Api,
    counts: Counts,
    gate: crate::support::Gate,
    running: tokio::task::JoinHandle<Reply>,
}

impl Busy {
    /// Lets the first request end.
    async fn end(self) -> Api {
        self.gate.open();
        assert_eq!(self.running.await.unwrap().status, 201);
        self.api
    }
}

#[tokio::test(start_paused = true)]
async fn one_execution_too_many_of_a_client_is_refused() {
    let busy = busy(policy().max_executions_per_scope(1), ann("first")).await;
    let refused = busy.api.send(ann("second")).await;
    assert_refused(&refused);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("connection"), None, "the body was read");
    assert_eq!((busy.counts.of("too_many_keys"), busy.api.handler.runs()), (1, 1));
    let record = busy.api.store.memory().len();
    assert_eq!(record, 1, "what was refused has no record");
    // A duplicate of a running request does not count, and other clients are not limited.
    busy.api.send(ann("first")).await.assert_problem(409, "request_in_progress", true);
    assert_eq!(busy.api.send(bob("second")).await.status, 201);
    let api = busy.end().await;
    assert_eq!(api.send(ann("second")).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_replay_needs_no_room() {
    let (handler, gate) = Handler::counting().gated();
    let api = Api::new(policy().max_executions_per_scope(1), handler);
    let first = api.spawn(ann("first"));
    api.handler.started(1).await;
    gate.open();
    let first = first.await.unwrap();
    let again = Handler::counting().gated();
    let slow = api.served_by(again.0);
    let running = slow.spawn(ann("slow"));
    slow.handler.started(1).await;
    slow.send(ann("first")).await.assert_replays(&first);
    let other = charge("first", "200").with("authorization", "Bearer ann");
    slow.send(other).await.assert_problem(409, "idempotency_payload_mismatch", false);
    again.1.open();
    assert_eq!(running.await.unwrap().status, 201);
}

/// One limit for all anonymous clients would let any of them exhaust it for the others.
#[tokio::test(start_paused = true)]
async fn anonymous_clients_have_no_quota() {
    let one = || policy().max_executions_per_scope(1);
    for policy in [one(), one().scope(vec![ScopeSource::Global])] {
        let busy = busy(policy, charge("first", "100")).await;
        assert_eq!(busy.api.send(charge("second", "100")).await.status, 201);
        busy.end().await;
    }
    // One of two sources is enough to know them.
    let sources = ["header:x-shop", "header:x-user"].map(|source| source.parse().unwrap());
    let of_shop = |key: &str| charge(key, "100").with("x-shop", "7");
    let busy = busy(one().scope(sources.to_vec()), of_shop("first")).await;
    assert_refused(&busy.api.send(of_shop("second")).await);
    busy.end().await;
}

/// Where no pattern matches, each path is a scope of its own. It must not be a way around the limit.
#[tokio::test(start_paused = true)]
async fn a_client_has_one_count_on_each_route() {
    let mut routes = Routes::new(policy().max_executions_per_scope(1).build().unwrap());
    let limited = policy().max_executions_per_scope(1).build().unwrap();
    routes.add("POST /orders/{id}", limited).unwrap();
    let (handler, gate) = Handler::counting().gated();
    let api = Api::with_routes(routes, handler);
    let of_ann = |path: &str| {
        keyless("POST", path, "100").with("idempotency-key", "k").with("authorization", "ann")
    };
    let running = api.spawn(of_ann("/a"));
    api.handler.started(1).await;
    assert_refused(&api.send(of_ann("/b")).await);
    assert_eq!(api.send(of_ann("/orders/1")).await.status, 201);
    gate.open();
    assert_eq!(running.await.unwrap().status, 201);
}

#[tokio::test(start_paused = true)]
async fn new_keys_have_a_rate_and_retries_have_none() {
    let rate = Rate::per_second(NonZero::new(2).unwrap());
    let api = Api::new(policy().new_keys_per_scope(Some(rate)), Handler::counting());
    let first = api.send(ann("first")).await;
    assert_eq!(api.send(ann("second")).await.status, 201);
    let refused = api.send(ann("third")).await;
    assert_refused(&refused);
    assert!(refused.text().contains("2/s"), "{}", refused.text());
    for _ in 0..10 {
        api.send(ann("first")).await.assert_replays(&first);
    }
    assert_eq!(api.send(bob("third")).await.status, 201);
    assert_eq!((api.handler.runs(), api.store.memory().len()), (3, 3));
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(api.send(ann("third")).await.status, 201);
}

/// The number of records comes back over the time that they live.
#[tokio::test(start_paused = true)]
async fn records_are_begun_up_to_their_number_in_a_ttl() {
    let ttl = Duration::from_hours(1);
    let policy = policy().max_records_per_scope(NonZero::new(2)).ttl(ttl);
    let api = Api::new(policy, Handler::counting());
    let first = api.send(ann("first")).await;
    assert_eq!(api.send(ann("second")).await.status, 201);
    let refused = api.send(ann("third")).await;
    assert_refused(&refused);
    assert_eq!(refused.header("retry-after"), Some("1800"));
    api.send(ann("first")).await.assert_replays(&first);
    assert_eq!(api.send(bob("third")).await.status, 201);
    assert_eq!((api.handler.runs(), api.store.memory().len()), (3, 3));
    tokio::time::advance(ttl / 2).await;
    assert_eq!(api.send(ann("third")).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn stored_replies_have_so_many_bytes_in_a_ttl() {
    let ttl = Duration::from_hours(1);
    let policy = policy().ttl(ttl).max_record_bytes_per_scope(NonZero::new(200));
    // Longer ones would be compressed.
    let large = Handler::replying(|_| Response::new(TestBody::from("x".repeat(300))));
    let api = Api::new(policy, large);
    let first = api.send(ann("first")).await;
    let refused = api.send(ann("second")).await;
    assert_refused(&refused);
    // The head of a reply counts as well.
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1_800..5_400).contains(&seconds), "{seconds}");
    api.send(ann("first")).await.assert_replays(&first);
    assert_eq!(api.send(bob("second")).await.status, 200);
    assert_eq!(api.store.memory().len(), 2);
    tokio::time::advance(Duration::from_secs(seconds)).await;
    assert_eq!(api.send(ann("second")).await.status, 200);
}

/// A key in the body is known later, and its client is counted all the same.
#[tokio::test(start_paused = true)]
async fn a_key_in_the_body_counts() {
    let key_from: Vec<PartSource> = vec!["json:/key".parse().unwrap()];
    let of_ann = |key: &str| {
        keyless("POST", "/charges", format!(r#"{{"key":"{key}"}}"#)).with("authorization", "ann")
    };
    let busy = busy(policy().key_from(key_from).max_executions_per_scope(1), of_ann("first")).await;
    assert_refused(&busy.api.send(of_ann("second")).await);
    busy.end().await;
}

#[tokio::test(start_paused = true)]
async fn by_default_a_thousand_of_a_client_may_run() {
    for policy in [policy(), policy().preset(Preset::Payments)] {
        assert_eq!(policy.build().unwrap().scope_limits, semel_engine::ScopeLimits::default());
    }
    let (handler, gate) = Handler::counting().gated();
    let api = Api::new(policy(), handler);
    let running = api.spawn(ann("first"));
    api.handler.started(1).await;
    assert_eq!(api.send(ann("second")).await.status, 201);
    gate.open();
    assert_eq!(running.await.unwrap().status, 201);
    assert_eq!(api.store.calls(Verb::Inspect), 0, "the limits cost no question");
    assert!(policy().max_executions_per_scope(0).build().is_err());
}
