//! An attack or an outage writes a line per second and kind, not a line per request, and its numbers add up.

use std::future::ready;
use std::num::NonZero;
use std::time::Duration;

use http::{Request, Response};
use semel_core::{OnStoreDown, OnUnknown};
use semel_engine::{Engine, Rate};
use semel_http::{
    ExecutionStart, Mode, OnMissingScope, OutcomeKind, RequestBody, RoutePolicyBuilder, Routes,
    SemelLayer,
};
use semel_store::MemoryStore;
use tokio::time::Instant;
use tower::{ServiceExt as _, service_fn};
use tower_layer::Layer as _;

use crate::support::{
    Api, Fault, Handler, HandlerError, Logs, TestBody, Verb, With, charge, keyless, policy,
};

const SECONDS: usize = 3;
const PER_SECOND: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// What may come in a storm, and by which words its lines are known.
struct Storm {
    what: &'static str,
    line: &'static str,
    rest: &'static str,
    policy: RoutePolicyBuilder,
    request: fn(usize) -> Request<TestBody>,
    prepare: fn(&Api),
}

impl Storm {
    /// Of requests that are decided so.
    fn of(
        decision: &'static str,
        policy: RoutePolicyBuilder,
        request: fn(usize) -> Request<TestBody>,
    ) -> Self {
        let (line, rest) = ("message=attempt ", "of=\"attempt\"");
        Self { what: decision, line, rest, policy, request, prepare: |_| () }
    }

    fn prepared(self, prepare: fn(&Api)) -> Self {
        Self { prepare, ..self }
    }

    /// Sends it, and returns how many lines there were, how many requests they tell of, and in how many seconds.
    async fn blow(self) -> (usize, usize, usize) {
        let logs = Logs::of_this_thread();
        let handler = Handler::replying(|_| {
            let mut response = Response::new(TestBody::from("done"));
            response.extensions_mut().insert(OutcomeKind::Completed);
            response
        });
        let api = Api::new(self.policy, handler);
        // The first request is not part of the storm.
        api.send((self.request)(0)).await;
        (self.prepare)(&api);
        let began = Instant::now();
        for number in 1..=SECONDS * PER_SECOND {
            api.send((self.request)(number)).await;
            tokio::time::sleep(PAUSE).await;
        }
        let seconds = usize::try_from(began.elapsed().as_millis().div_ceil(1_000)).unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let said = logs.text();
        let decision = format!("decision=\"{}\"", self.what);
        let is_of = |line: &&str| !self.line.contains("attempt") || line.contains(&decision);
        let lines: Vec<_> =
            said.lines().filter(|line| line.contains(self.line)).filter(is_of).collect();
        let rests: Vec<_> =
            said.lines().filter(|line| line.contains(self.rest)).filter(is_of).collect();
        let left_out: usize = lines.iter().chain(&rests).map(|line| left_out(line)).sum();
        (lines.len() + rests.len(), lines.len() + left_out, seconds)
    }
}

/// How many lines were left out before this one.
fn left_out(line: &str) -> usize {
    let Some((_, rest)) = line.split_once("left_out=") else { return 0 };
    rest.split(' ').next().unwrap().parse().unwrap()
}

fn new_key(number: usize) -> Request<TestBody> {
    charge(&format!("k-{number}"), "100").with("authorization", "Bearer ann")
}

fn same_key(_: usize) -> Request<TestBody> {
    charge("k", "100")
}

fn lose_store(api: &Api) {
    api.store.fail_all(Fault::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_refusal_writes_few_lines_that_add_up() {
    let one = Rate::new(NonZero::<u32>::MIN, Duration::from_hours(1));
    let refused: [Storm; 8] = [
        Storm::of("key_missing", policy(), |_| keyless("POST", "/charges", "100")),
        Storm::of("key_invalid", policy(), |_| charge("two words", "100")),
        Storm::of("scope_missing", policy().on_missing_scope(OnMissingScope::Reject), same_key),
        Storm::of("body_too_large", policy().max_request_body(2), same_key),
        Storm::of("mismatch", policy(), |number| charge("k", format!("{number}"))),
        Storm::of("too_many_keys", policy().new_keys_per_scope(Some(one)), new_key),
        Storm::of("store_unavailable", policy(), new_key).prepared(lose_store),
        Storm::of("replayed", policy(), same_key),
    ];
    for storm in refused {
        assert_few(storm).await;
    }
}

/// What executes nothing under a lease has no line per request either.
#[tokio::test(start_paused = true)]
async fn work_without_protection_writes_few_lines_that_add_up() {
    let open = policy().on_store_down(OnStoreDown::Open);
    assert_few(Storm::of("bypassed", open, new_key).prepared(lose_store)).await;
}

async fn assert_few(storm: Storm) {
    let what = storm.what;
    let (lines, requests, seconds) = storm.blow().await;
    // All of the storm, and for some the request before it.
    let all = SECONDS * PER_SECOND;
    assert!((all..=all + 1).contains(&requests), "{what}: {requests} of {all}");
    assert!(lines <= seconds + 2, "{what}: {lines} lines in {seconds} s");
}

/// Shadow mode executes nothing of its own.
#[tokio::test(start_paused = true)]
async fn first_requests_in_shadow_mode_write_few_lines_that_add_up() {
    assert_few(Storm::of("first", policy().mode(Mode::Shadow), new_key)).await;
}

/// An outage of the store that begins after the claim.
#[tokio::test(start_paused = true)]
async fn outcomes_that_are_not_stored_write_few_lines_that_add_up() {
    let lose_settling = |api: &Api| api.store.fail([Verb::Settle, Verb::Renew], Fault::Unavailable);
    assert_few(Storm::of("not_stored", policy(), new_key).prepared(lose_settling)).await;
    let of_engine = Storm::of("not_stored", policy(), new_key).prepared(lose_settling);
    let (line, rest) = ("message=answered record", "of=\"answered, not recorded\"");
    assert_few(Storm { line, rest, ..of_engine }).await;
}

/// An execution has a line for its start and one for its end. That its key is released although its outcome is
/// unknown is said once a second.
#[tokio::test(start_paused = true)]
async fn executions_have_a_line_each_and_their_doubts_have_few() {
    let logs = Logs::of_this_thread();
    let handler = Handler::replying(|_| {
        let mut response = Response::new(TestBody::from("who knows"));
        response.extensions_mut().insert(OutcomeKind::Unknown);
        response
    });
    for policy in [policy(), policy().on_unknown(OnUnknown::Hold)] {
        let before = logs.text().len();
        let api = Api::new(policy, handler.clone());
        for number in 0..50 {
            api.send(new_key(number)).await;
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        let said = &logs.text()[before..];
        let count = |what: &str| said.lines().filter(|line| line.contains(what)).count();
        assert_eq!(count("execution started"), 50);
        assert_eq!(count("message=attempt "), 50, "{said}");
        let released = count("the key is released");
        let rest = said.lines().find(|line| line.contains("unknown outcome released"));
        let expected = if count("decision=\"released\"") > 0 { (1, 49) } else { (0, 0) };
        assert_eq!((released, rest.map_or(0, left_out)), expected, "{said}");
    }
}

/// A proxy's work has not begun while it has no connection: what ends before that is an outage, with a line a second.
#[tokio::test(start_paused = true)]
async fn executions_that_did_not_begin_are_throttled_and_begun_ones_have_two_lines() {
    let logs = Logs::of_this_thread();
    let layer =
        SemelLayer::new(Engine::new(MemoryStore::new()), Routes::new(policy().build().unwrap()));
    let proxy = service_fn(|request: Request<RequestBody<TestBody>>| {
        let start =
            request.extensions().get::<ExecutionStart>().expect("it is left to the service");
        if request.headers().contains_key("x-connected") {
            start.log();
            start.log();
        }
        let mut response = Response::new(TestBody::from("later"));
        response.extensions_mut().insert(OutcomeKind::FailedForNow);
        ready(Ok::<_, HandlerError>(response))
    });
    let service = layer.service_logs_start().layer(proxy);
    let send = |request| service.clone().oneshot(request);
    for number in 0..50 {
        send(new_key(number)).await.unwrap();
    }
    for number in 0..10 {
        send(new_key(number).with("x-connected", "yes")).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let text = logs.text();
    let count = |what: &str| text.lines().filter(|line| line.contains(what)).count();
    assert_eq!(count("execution started"), 10, "{text}");
    let released: Vec<_> =
        text.lines().filter(|line| line.contains("decision=\"released\"")).collect();
    let (rests, lines): (Vec<&str>, Vec<&str>) =
        released.into_iter().partition(|line| line.contains("of=\"attempt\""));
    // One of those that had not begun, and all of those that had.
    assert_eq!(lines.len(), 1 + 10, "{text}");
    assert_eq!(rests.iter().map(|line| left_out(line)).sum::<usize>(), 49, "{text}");
}

/// A service that does not say when its work begins is taken at its outcome: only what surely did nothing is quiet.
#[tokio::test(start_paused = true)]
async fn an_execution_without_a_start_signal_has_its_lines_at_the_end() {
    let logs = Logs::of_this_thread();
    let layer =
        SemelLayer::new(Engine::new(MemoryStore::new()), Routes::new(policy().build().unwrap()));
    let forgetful = Handler::counting();
    let service = layer.service_logs_start().layer(forgetful);
    for number in 0..5 {
        service.clone().oneshot(new_key(number)).await.unwrap();
    }
    let text = logs.text();
    for line in ["execution started", "decision=\"executed\""] {
        assert_eq!(text.lines().filter(|it| it.contains(line)).count(), 5, "{text}");
    }
}
