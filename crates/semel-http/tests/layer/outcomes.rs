//! Outcomes by the status of a reply, by its extension, and the id of the created resource.

use http::Response;
use semel_core::{OnUnknown, Settlement, State};
use semel_http::{OutcomeKind, PartSource, Preset, Profile, StatusPattern};

use crate::support::{Api, Counts, Handler, Logs, TestBody, With, charge, policy, until};

/// True if a second attempt executes again after this status.
async fn executes_again(profile: Profile, status: u16) -> bool {
    let api = Api::new(policy().profile(profile), Handler::answering(status));
    let first = api.send(charge("k", "100")).await;
    let second = api.send(charge("k", "100")).await;
    assert_eq!((first.status, second.status), (status, status));
    let released = api.handler.runs() == 2;
    assert_eq!(first.header("x-idempotency-expires").is_none(), released, "{status}");
    assert_eq!(api.state().await == Some(State::Released), released, "{status}");
    released
}

#[tokio::test]
async fn statuses_that_promise_nothing_release_the_key() {
    for profile in [Profile::Classic, Profile::Ietf, Profile::Stripe] {
        for status in [408, 425, 429] {
            assert!(executes_again(profile, status).await, "{profile} {status}");
        }
        for status in [200, 302, 400, 404, 410, 422] {
            assert!(!executes_again(profile, status).await, "{profile} {status}");
        }
        for status in [500, 502, 503, 599] {
            let kept = profile == Profile::Stripe;
            assert_eq!(executes_again(profile, status).await, !kept, "{profile} {status}");
        }
    }
}

#[tokio::test]
async fn a_route_can_name_the_statuses_that_release() {
    let statuses = vec!["404".parse().unwrap()];
    let handler = Handler::replying(|seen| {
        let status = if seen.run == 1 { 404 } else { 500 };
        Response::builder().status(status).body(TestBody::from("x")).unwrap()
    });
    let api = Api::new(policy().release_statuses(statuses), handler);
    assert_eq!(api.send(charge("k", "100")).await.status, 404);
    let second = api.send(charge("k", "100")).await;
    assert_eq!(second.status, 500);
    api.send(charge("k", "100")).await.assert_replays(&second);
}

fn statuses(texts: &[&str]) -> Vec<StatusPattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// A proxy behind the gateway may have lost the answer of work that was done.
#[tokio::test]
async fn payments_hold_unknown_outcomes_of_500_502_and_504() {
    for status in [500, 502, 504] {
        let payments = policy().preset(Preset::Payments);
        let api = Api::new(payments, Handler::answering(status));
        let charge = || charge("k", "100").with("authorization", "Bearer a");
        let first = api.send(charge()).await;
        assert_eq!((first.status, first.header("x-idempotency-expires")), (status, None));
        api.send(charge()).await.assert_problem(409, "outcome_unknown", true);
        assert_eq!((api.state().await, api.handler.runs()), (Some(State::Held), 1), "{status}");
    }
}

#[tokio::test]
async fn payments_release_statuses_without_effect() {
    for status in [408, 425, 429, 503] {
        let api = Api::new(policy().preset(Preset::Payments), Handler::answering(status));
        for run in 1..=2 {
            let reply = api.send(charge("k", "100").with("authorization", "Bearer a")).await;
            assert_eq!((reply.status, api.handler.runs()), (status, run), "{status}");
        }
    }
}

/// The client of that execution gets all of the service's own answer.
#[tokio::test]
async fn an_unknown_status_is_answered_as_it_came() {
    let handler = Handler::replying(|_| {
        let body = TestBody::from("the card network did not answer");
        Response::builder().status(404).body(body).unwrap().with("x-trace", "t-1")
    });
    let policy = policy().unknown_statuses(statuses(&["404"])).on_unknown(OnUnknown::Hold);
    let api = Api::new(policy, handler);
    let first = api.send(charge("k", "100")).await;
    assert_eq!((first.status, first.text()), (404, "the card network did not answer"));
    assert_eq!(first.header("x-trace"), Some("t-1"));
    api.send(charge("k", "100")).await.assert_problem(409, "outcome_unknown", true);
}

#[tokio::test]
async fn an_unknown_outcome_that_is_released_is_counted_and_logged() {
    let (logs, counts) = (Logs::of_this_thread(), Counts::default());
    let policy = policy().unknown_statuses(statuses(&["5xx"])).release_statuses(statuses(&["503"]));
    let handler = Handler::replying(|seen| {
        let status = if seen.run == 1 { 503 } else { 500 };
        Response::builder().status(status).body(TestBody::from("x")).unwrap()
    });
    let api = Api::with_routes(counts.routes(policy), handler);
    assert_eq!(api.send(charge("k", "100")).await.status, 503);
    assert_eq!(counts.unknown_released(), 0, "{}", logs.text());
    assert_eq!(api.send(charge("k", "100")).await.status, 500);
    assert_eq!((counts.unknown_released(), counts.of("released")), (1, 2));
    let said = logs.text();
    let line = said.lines().find(|line| line.contains("the outcome is unknown")).unwrap();
    assert!(line.contains("fence=2") && line.contains("record=\""), "{line}");
}

/// I9: the client has left by then, as it often has when an upstream is slow.
#[tokio::test]
async fn an_unknown_outcome_is_counted_also_if_its_client_has_left() {
    let counts = Counts::default();
    let policy = policy().unknown_statuses(statuses(&["502"]));
    let (handler, gate) = Handler::answering(502).gated();
    let api = Api::with_routes(counts.routes(policy), handler);
    let client = api.spawn(charge("k", "100"));
    api.handler.started(1).await;
    client.abort();
    gate.open();
    until("it was counted", || counts.unknown_released() == 1).await;
}

#[tokio::test]
async fn a_held_outcome_is_not_counted_as_released() {
    let counts = Counts::default();
    let policy = policy().unknown_statuses(statuses(&["502"])).on_unknown(OnUnknown::Hold);
    let api = Api::with_routes(counts.routes(policy), Handler::answering(502));
    assert_eq!(api.send(charge("k", "100")).await.status, 502);
    assert_eq!((counts.unknown_released(), counts.of("unknown")), (0, 1));
}

fn replying(status: u16, kind: OutcomeKind) -> Handler {
    Handler::replying(move |seen| {
        let body = TestBody::from(format!("run {}", seen.run));
        Response::builder().status(status).extension(kind).body(body).unwrap()
    })
}

#[tokio::test]
async fn a_handler_overrules_its_status() {
    for (status, kind) in [(503, OutcomeKind::Completed), (503, OutcomeKind::Failed)] {
        let api = Api::new(policy(), replying(status, kind));
        let first = api.send(charge("k", "100")).await;
        assert_eq!((first.status, first.text()), (status, "run 1"));
        api.send(charge("k", "100")).await.assert_replays(&first);
        let Some(State::Settled(settlement)) = api.state().await else { panic!("not settled") };
        let completed = matches!(settlement, Settlement::Completed(_));
        assert_eq!(completed, kind == OutcomeKind::Completed);
    }
    for kind in [OutcomeKind::FailedForNow, OutcomeKind::Unknown] {
        let api = Api::new(policy(), replying(200, kind));
        for run in 1..=2 {
            let reply = api.send(charge("k", "100")).await;
            assert_eq!((reply.status, reply.text()), (200, &*format!("run {run}")), "{kind:?}");
            assert_eq!(api.state().await, Some(State::Released), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn an_outcome_that_the_handler_calls_unknown_is_held_where_the_route_says_so() {
    let policy = policy().on_unknown(OnUnknown::Hold);
    let api = Api::new(policy, replying(200, OutcomeKind::Unknown));
    let first = api.send(charge("k", "100")).await;
    assert_eq!((first.status, first.text()), (200, "run 1"));
    assert_eq!(first.header("x-idempotency-expires"), None);
    api.send(charge("k", "100")).await.assert_problem(409, "outcome_unknown", true);
    assert_eq!((api.state().await, api.handler.runs()), (Some(State::Held), 1));
}

#[tokio::test]
async fn errors_are_recorded_as_failed_and_others_as_completed() {
    for (status, completed) in [(200, true), (303, true), (404, false), (422, false)] {
        let api = Api::new(policy(), Handler::answering(status));
        api.send(charge("k", "100")).await;
        let state = api.state().await;
        let expected = matches!(state, Some(State::Settled(Settlement::Completed(_))));
        assert_eq!(expected, completed, "{status}: {state:?}");
    }
}

/// The result that the record keeps, of a reply with all kinds of ids.
async fn result(result_from: Option<&str>) -> Option<String> {
    let result_from: Option<PartSource> = result_from.map(|source| source.parse().unwrap());
    let handler = Handler::replying(|_| {
        Response::new(TestBody::from(r#"{"id":"ch_json","number":12345678901234567890,"o":{}}"#))
            .with("content-type", "application/json")
            .with("location", "/charges/ch_location")
            .with("x-charge", "ch_header")
    });
    let api = Api::new(policy().result_from(result_from), handler);
    api.send(charge("k", "100")).await;
    let Some(State::Settled(settlement)) = api.state().await else { panic!("not settled") };
    settlement.reply().unwrap().result().map(|id| id.as_str().to_owned())
}

#[tokio::test]
async fn the_record_stores_the_id_of_the_created_resource() {
    assert_eq!(result(None).await.as_deref(), Some("/charges/ch_location"));
    assert_eq!(result(Some("header:x-charge")).await.as_deref(), Some("ch_header"));
    assert_eq!(result(Some("json:/id")).await.as_deref(), Some("ch_json"));
    assert_eq!(result(Some("json:/number")).await.as_deref(), Some("12345678901234567890"));
    for none in ["json:/o", "json:/none", "header:x-none"] {
        assert_eq!(result(Some(none)).await, None, "{none}");
    }
}

#[tokio::test]
async fn a_reply_that_made_nothing_has_no_id() {
    let api = Api::new(policy(), Handler::counting());
    api.send(charge("k", "100")).await;
    let Some(State::Settled(settlement)) = api.state().await else { panic!("not settled") };
    assert_eq!(settlement.reply().unwrap().result(), None);
}
