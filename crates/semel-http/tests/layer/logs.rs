//! Trap 24: what the layer says about a request names its record by a prefix, never its key, its
//! body or a credential.

use http::Response;
use semel_core::OnStoreDown;
use semel_http::{Mode, PartSource};

use crate::support::{
    Api, BodyError, Fault, Handler, LEASE, Logs, Step, TestBody, With, charge, keyless, policy,
    until,
};

const CREDENTIAL: &str = "Bearer credential-5ecret";

fn secret(key: &str, body: impl Into<TestBody>) -> http::Request<TestBody> {
    let cookie = "session=cookie-5ecret";
    charge(key, body).with("authorization", CREDENTIAL).with("cookie", cookie)
}

#[tokio::test(start_paused = true)]
async fn no_key_body_or_credential_is_logged() {
    let logs = Logs::of_this_thread();
    let (handler, gate) = Handler::replying(|seen| {
        let body = match seen.run {
            3 => TestBody::of([Step::data("reply-5ecret"), Step::Fail(BodyError::Gone)]),
            _ => TestBody::from("reply-5ecret"),
        };
        let response = Response::builder().status(201).body(body).unwrap();
        response.with("location", "/charges/location-5ecret").with("set-cookie", "a=5ecret")
    })
    .gated();
    let api = Api::new(policy(), handler);

    // In flight, mismatch, fenced off, executed, replayed.
    let first = api.spawn(secret("key-5ecret", "body-5ecret"));
    api.handler.started(1).await;
    for (body, status) in [("body-5ecret", 409), ("other-5ecret", 409)] {
        assert_eq!(api.send(secret("key-5ecret", body)).await.status, status);
    }
    api.clock.advance(LEASE);
    let other = api.beside(policy(), api.handler.clone());
    assert_eq!(other.send(secret("key-5ecret", "body-5ecret")).await.status, 201);
    gate.open();
    assert!(first.await.unwrap().is_replayed());
    // A reply that breaks off, bad keys, a body that breaks off.
    assert_eq!(api.send(secret("key-5ecret-2", "body-5ecret")).await.status, 502);
    assert_eq!(api.send(secret("key-5ecret with spaces", "body-5ecret")).await.status, 400);
    let twice = secret("key-5ecret", "").with("idempotency-key", "key-5ecret");
    assert_eq!(api.send(twice).await.status, 400);
    let broken = TestBody::of([Step::data("body-5ecret"), Step::Fail(BodyError::Gone)]);
    assert_eq!(api.send(secret("key-5ecret-3", broken)).await.status, 400);
    let path = keyless("POST", "/path-5ecret?query=5ecret", "100").with("idempotency-key", "k");
    assert_eq!(api.send(path).await.status, 201);
    // In the body, in shadow mode, without a store.
    let key_from: Vec<PartSource> = vec!["json:/key".parse().unwrap()];
    let in_body = api.beside(policy().key_from(key_from), Handler::counting());
    let body = r#"{"key":"key-5ecret-4"}"#;
    assert_eq!(in_body.send(keyless("POST", "/charges", body)).await.status, 201);
    let shadow = api.beside(policy().mode(Mode::Shadow), Handler::counting());
    assert_eq!(shadow.send(secret("key-5ecret", "body-5ecret")).await.status, 201);
    until("the shadow was counted", || logs.text().contains("decision=\"first\"")).await;
    let open = api.beside(policy().on_store_down(OnStoreDown::Open), Handler::counting());
    api.store.fail_all(Fault::Unavailable);
    assert_eq!(open.send(secret("key-5ecret-5", "body-5ecret")).await.status, 201);
    assert_eq!(api.send(secret("key-5ecret-5", "body-5ecret")).await.status, 503);

    let said = logs.text();
    for decision in [
        "in_flight",
        "mismatch",
        "executed",
        "replayed",
        "released",
        "key_invalid",
        "body_broken",
        "first",
        "bypassed",
        "store_unavailable",
    ] {
        let word = format!("decision=\"{decision}\"");
        assert!(said.contains(&word), "{word} is not in\n{said}");
    }
    assert!(!said.contains("5ecret"), "{said}");
}

#[tokio::test]
async fn a_line_names_the_route_and_the_record_by_a_prefix() {
    let logs = Logs::of_this_thread();
    let mut routes = semel_http::Routes::default();
    routes.add("POST /accounts/{id}", policy().build().unwrap()).unwrap();
    let api = Api::with_routes(routes, Handler::counting());
    api.send(keyless("POST", "/accounts/5ecret", "100").with("idempotency-key", "k")).await;
    let said = logs.text();
    let line = said.lines().find(|line| line.contains("message=attempt")).unwrap();
    assert!(line.contains("route=\"POST /accounts/{id}\""), "{line}");
    assert!(line.contains("status=201") && line.contains("decision=\"executed\""), "{line}");
    let (_, record) = line.split_once("record=\"").unwrap();
    let (record, _) = record.split_once('"').unwrap();
    assert!(record.len() == 12 && record.bytes().all(|byte| byte.is_ascii_hexdigit()), "{line}");
    assert!(!said.contains("5ecret"), "{said}");
}

/// What a process that is killed leaves behind: the start of an execution is logged before the service is asked,
/// and its end, if no answer tells of it.
#[tokio::test]
async fn an_execution_is_logged_before_it_starts_and_when_its_client_has_left() {
    let logs = Logs::of_this_thread();
    let (handler, gate) = Handler::counting().gated();
    let api = Api::new(policy(), handler);
    let client = api.spawn(secret("key-5ecret", "body-5ecret"));
    api.handler.started(1).await;
    let said = logs.text();
    let started = said.lines().find(|line| line.contains("execution started")).expect("a line");
    assert!(started.contains("record=\"") && started.contains("fence=1"), "{started}");
    client.abort();
    gate.open();
    until("its end is logged", || logs.text().contains("execution ended")).await;
    let said = logs.text();
    let ended = said.lines().find(|line| line.contains("execution ended")).expect("a line");
    assert!(ended.contains("outcome=\"completed\""), "{ended}");
    assert!(!said.contains("5ecret"), "{said}");
}

/// Its answer tells.
#[tokio::test]
async fn an_attached_execution_has_no_separate_end_line() {
    let logs = Logs::of_this_thread();
    let api = Api::new(policy(), Handler::counting());
    api.send(charge("k", "100")).await;
    let said = logs.text();
    assert!(said.contains("execution started") && said.contains("message=attempt"), "{said}");
    assert!(!said.contains("execution ended"), "{said}");
}
