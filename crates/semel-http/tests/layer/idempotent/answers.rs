//! Responses for each answer to a claim.

use bytes::Bytes;
use http::{HeaderValue, Response};
use semel_core::{InFlight, OnUnknown, ResultId};
use semel_http::{OutcomeKind, PartSource, Profile, RoutePolicyBuilder};

use super::{Api, run};
use crate::support::{Reply, With, charge, policy};

/// The first answer and its replay.
async fn first_and_replay(
    policy: RoutePolicyBuilder,
    script: impl Fn(usize) -> Response<Bytes> + Send + Sync + 'static,
) -> (Reply, Reply) {
    let api = Api::new(policy, script);
    let first = api.send(charge("k", "100")).await;
    let replay = api.send(charge("k", "100")).await;
    replay.assert_replays(&first);
    (first, replay)
}

#[tokio::test]
async fn the_first_attempt_executes_and_has_its_expiry() {
    let api = Api::counting(policy());
    let first = api.send(charge("k", "100")).await;
    assert_eq!((first.status, first.text()), (201, "run 1"));
    assert_eq!(first.header("x-idempotency-expires"), Some("Fri, 02 Jan 2026 00:00:00 GMT"));
    assert!(first.header("date").is_some() && !first.is_replayed());
    assert_eq!(api.last(|seen| (seen.body.clone(), seen.was_read)), ("100".into(), true));
}

#[tokio::test]
async fn a_replay_is_the_first_answer_byte_for_byte() {
    let binary: Bytes = (0..=255_u8).cycle().take(100_000).collect();
    for body in [binary, Bytes::from_static(b"\xff\xfe\0\r\n"), Bytes::new()] {
        let sent = body.clone();
        let script = move |_| {
            let response = Response::new(sent.clone());
            let mut response = response
                .with("link", "</a>; rel=next")
                .with("x-first", "1")
                .with("link", "</b>; rel=last")
                .with("link", "");
            let opaque = HeaderValue::from_bytes(b"caf\xe9").unwrap();
            response.headers_mut().append("x-opaque", opaque);
            response
        };
        let (first, replay) = first_and_replay(policy(), script).await;
        assert_eq!(first.body, body);
        assert_eq!(replay.values("link"), [&b"</a>; rel=next"[..], b"</b>; rel=last", b""]);
        let mut marked = first.headers;
        marked.insert("x-idempotency-replayed", HeaderValue::from_static("true"));
        assert_eq!(replay.headers, marked);
    }
}

#[tokio::test]
async fn cookies_are_given_once_unless_the_route_replays_them() {
    for replay_cookies in [false, true] {
        let script = |run_| run(run_).with("set-cookie", "a=1").with("set-cookie", "b=2");
        let policy = policy().replay_cookies(replay_cookies);
        let (first, replay) = first_and_replay(policy, script).await;
        let cookies = [&b"a=1"[..], b"b=2"];
        assert_eq!(first.values("set-cookie"), cookies);
        assert_eq!(replay.values("set-cookie"), if replay_cookies { &cookies[..] } else { &[] });
    }
}

#[tokio::test]
async fn a_reply_that_is_too_large_is_given_once_and_leaves_a_tombstone() {
    let script = |_| {
        let response = Response::builder().status(201).body(vec![b'x'; 1_001].into()).unwrap();
        response.with("content-length", "1001").with("location", "/charges/1")
    };
    let api = Api::new(policy().max_reply_body(1_000), script);
    let first = api.send(charge("k", "100")).await;
    assert_eq!((first.status, first.body.len()), (201, 1_001));
    assert_eq!(first.header("content-length"), Some("1001"));
    assert_eq!(first.header("x-idempotency-body"), None);
    for _ in 0..2 {
        let replay = api.send(charge("k", "100")).await;
        assert_eq!((replay.status, replay.body.len()), (201, 0));
        assert!(replay.is_replayed());
        assert_eq!(replay.header("x-idempotency-body"), Some("omitted"));
        assert_eq!(replay.header("content-length"), None);
        assert_eq!(replay.header("location"), Some("/charges/1"));
    }
    let (_, replay) = first_and_replay(policy().max_reply_body(1_001), script).await;
    assert_eq!(replay.body.len(), 1_001);
}

#[tokio::test]
async fn a_mismatch_has_the_status_of_its_profile_in_every_state() {
    for (profile, status) in [(Profile::Classic, 409), (Profile::Ietf, 422), (Profile::Stripe, 400)]
    {
        for first_status in [201, 429] {
            let script = move |_| Response::builder().status(first_status).body("".into()).unwrap();
            let api = Api::new(policy().profile(profile), script);
            assert_eq!(api.send(charge("k", "100")).await.status, first_status);
            let reply = api.send(charge("k", "200")).await;
            reply.assert_problem(status, "idempotency_payload_mismatch", false);
            reply.assert_retry_after(false);
            assert!(!reply.is_replayed() && reply.header("x-idempotency-expires").is_none());
        }
    }
}

#[tokio::test]
async fn a_duplicate_in_flight_gets_retry_after() {
    let wait = InFlight::Wait(std::time::Duration::from_mins(5));
    for (in_flight, status) in [(InFlight::Conflict, 409), (InFlight::Accepted, 202), (wait, 409)] {
        let api = Api::counting(policy().in_flight(in_flight));
        let first = api.send_and_hold(charge("k", "100")).await;
        let duplicate = api.send(charge("k", "100")).await;
        duplicate.assert_problem(status, "request_in_progress", true);
        duplicate.assert_retry_after(true);
        api.let_commit();
        let first = first.await.unwrap();
        assert_eq!((first.status, first.text()), (201, "run 1"));
        api.send(charge("k", "100")).await.assert_replays(&first);
    }
}

#[tokio::test]
async fn a_reply_that_releases_is_given_as_it_was_and_not_kept() {
    for kind in [None, Some(OutcomeKind::FailedForNow), Some(OutcomeKind::Unknown)] {
        let script = move |run| {
            let mut response =
                Response::builder().status(503).extension(1).body(text(run)).unwrap();
            if let Some(kind) = kind {
                *response.status_mut() = http::StatusCode::OK;
                response.extensions_mut().insert(kind);
            }
            response.with("set-cookie", "a=1").with("retry-after", "7").with("x-twice", "1")
        };
        let api = Api::new(policy().max_reply_body(3), script);
        for run in 1..=2 {
            let reply = api.send(charge("k", "100")).await;
            assert_eq!(reply.status, if kind.is_none() { 503 } else { 200 });
            assert_eq!(reply.text(), format!("run {run}"));
            assert_eq!((reply.header("set-cookie"), reply.headers.len()), (Some("a=1"), 3));
        }
    }
}

fn text(run: usize) -> Bytes {
    format!("run {run}").into()
}

#[tokio::test]
async fn a_held_unknown_outcome_is_returned_to_its_own_client_only() {
    let script = |run| Response::builder().extension(OutcomeKind::Unknown).body(text(run)).unwrap();
    let api = Api::new(policy().on_unknown(OnUnknown::Hold), script);
    let own = api.send(charge("k", "100")).await;
    assert_eq!((own.status, own.text()), (200, "run 1"));
    assert_eq!(own.header("x-idempotency-expires"), None);
    api.send(charge("k", "100")).await.assert_problem(409, "outcome_unknown", true);
}

/// What a transaction did not commit did not happen, so no status leaves anything open.
#[tokio::test]
async fn no_status_is_unknown_in_a_transaction() {
    let unknown: Vec<_> = ["500", "404"].map(|status| status.parse().unwrap()).to_vec();
    let policy = policy().on_unknown(OnUnknown::Hold).unknown_statuses(unknown);
    for (status, is_kept) in [(500, false), (404, true)] {
        let script = move |run| Response::builder().status(status).body(text(run)).unwrap();
        let api = Api::new(policy.clone(), script);
        assert_eq!(api.send(charge("k", "100")).await.status, status);
        let second = api.send(charge("k", "100")).await;
        assert_eq!((second.status, second.is_replayed()), (status, is_kept));
    }
}

#[tokio::test]
async fn a_handler_that_fails_for_good_is_replayed_too() {
    let script = |run| {
        let response = Response::builder().status(500).extension(OutcomeKind::Failed);
        response.body(text(run)).unwrap()
    };
    let (first, _) = first_and_replay(policy(), script).await;
    assert_eq!((first.status, first.text()), (500, "run 1"));
}

#[tokio::test]
async fn headers_of_one_connection_and_of_our_own_are_not_given_on() {
    let script = |run_| {
        let response = run(run_).with("connection", "x-private").with("x-private", "1");
        response.with("x-idempotency-replayed", "true").with("x-idempotency-stored", "false")
    };
    let api = Api::new(policy(), script);
    let first = api.send(charge("k", "100")).await;
    for name in ["connection", "x-private", "x-idempotency-replayed", "x-idempotency-stored"] {
        assert_eq!(first.header(name), None, "{name}");
    }
}

/// The same bytes are what a store keeps, and the id of what was made is what operators look for.
#[tokio::test]
async fn an_outcome_has_the_id_of_the_created_resource() {
    let made = |policy: RoutePolicyBuilder| async move {
        let api = Api::counting(policy);
        api.send(charge("k", "100")).await;
        let attempt = api.last(|seen| seen.attempt.clone()).unwrap();
        let response = Response::new(r#"{"id":"ch_1"}"#);
        let response = response.with("content-type", "application/json").with("location", "/ch/1");
        let semel_core::Outcome::Completed(reply) = attempt.outcome(response) else {
            panic!("not completed")
        };
        reply.result().map(ResultId::as_str).map(str::to_owned)
    };
    assert_eq!(made(policy()).await.as_deref(), Some("/ch/1"));
    let json: PartSource = "json:/id".parse().unwrap();
    assert_eq!(made(policy().result_from(Some(json))).await.as_deref(), Some("ch_1"));
}
