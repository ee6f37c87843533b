//! One of two writers wins; and the response to a retry of the winner.

use std::sync::Arc;

use crate::database::Database;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use patterns::version::router;
use semel::Engine;
use semel::http::{Routes, SemelLayer};
use semel::store::MemoryStore;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Status, `ETag` and content.
type Answer = (u16, String, Value);

async fn app() -> Router {
    apps().await.0
}

/// Two that share a database.
async fn apps() -> (Router, Router) {
    let database = Database::make().await;
    let (one, other) = (database.session().await, database.session().await);
    let insert = r#"INSERT INTO documents (id, content) VALUES ('plan', '{"by": "nobody"}')"#;
    one.batch_execute(insert).await.expect("a document");
    (router(Arc::new(one)), router(Arc::new(other)))
}

async fn send(app: &Router, request: Request<Body>) -> Answer {
    let response = app.clone().oneshot(request).await.expect("an answer");
    let status = response.status().as_u16();
    let tag = response.headers().get("etag").map_or("", |tag| tag.to_str().expect("text"));
    let tag = tag.to_owned();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, tag, serde_json::from_slice(&body).unwrap_or_default())
}

fn put(fields: &[(&str, &str)], by: &str) -> Request<Body> {
    let mut request = Request::put("/documents/plan").header("content-type", "application/json");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(Body::from(json!({ "by": by }).to_string())).expect("a request")
}

async fn get(app: &Router) -> Answer {
    send(app, Request::get("/documents/plan").body(Body::empty()).expect("a request")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_read_the_same_version_one_wins() {
    let (app, other) = apps().await;
    let (_, tag, _) = get(&app).await;
    assert_eq!(tag, "\"1\"");
    let (alice, bob) = tokio::join!(
        send(&app, put(&[("if-match", &tag)], "alice")),
        send(&other, put(&[("if-match", &tag)], "bob")),
    );
    let (winner, loser) = if alice.0 == 200 { (alice, bob) } else { (bob, alice) };
    assert_eq!((winner.0, &*winner.1), (200, "\"2\""), "{winner:?}");
    // The loser gets the current content instead.
    assert_eq!((loser.0, &loser.1, &loser.2), (412, &winner.1, &winner.2), "{loser:?}");
    assert_eq!(get(&app).await, winner);
}

#[tokio::test]
async fn a_put_without_if_match_replaces_nothing() {
    let app = app().await;
    assert_eq!(send(&app, put(&[], "alice")).await.0, 428);
    for tag in ["2", "\"2\"", "W/\"1\"", "*", "\"one\""] {
        assert_eq!(send(&app, put(&[("if-match", tag)], "alice")).await.0, 412, "{tag}");
    }
    let missing = put(&[("if-match", "\"1\"")], "alice");
    let (mut parts, body) = missing.into_parts();
    parts.uri = "/documents/none".parse().expect("a path");
    assert_eq!(send(&app, Request::from_parts(parts, body)).await.0, 404);
    assert_eq!(get(&app).await.2, json!({ "by": "nobody" }));
}

/// A permanent "not now" would be wrong.
#[tokio::test]
async fn unstorable_content_is_refused_for_good() {
    let app = app().await;
    for content in [json!("\0"), json!([{ "by": "a\0" }]), json!({ "by": { "\0": 1 } })] {
        let request = Request::put("/documents/plan")
            .header("content-type", "application/json")
            .header("if-match", "\"1\"")
            .body(Body::from(content.to_string()))
            .expect("a request");
        assert_eq!(send(&app, request).await.0, 422, "{content}");
    }
    assert_eq!(get(&app).await.1, "\"1\"");
    let request = Request::get("/documents/plan%00").body(Body::empty()).expect("a request");
    assert_eq!(send(&app, request).await.0, 404);
}

/// The first answer is lost. The retry is refused, because it succeeded.
#[tokio::test]
async fn a_retry_of_the_winner_is_refused_though_it_won() {
    let app = app().await;
    let lost = send(&app, put(&[("if-match", "\"1\"")], "alice")).await;
    assert_eq!(lost.0, 200);
    let retry = send(&app, put(&[("if-match", "\"1\"")], "alice")).await;
    // It took effect once, and the client can see that what is there is what it wrote...
    assert_eq!((retry.0, &retry.1, &retry.2), (412, &lost.1, &json!({ "by": "alice" })));
    // ...unless there was a later write. Then the client cannot know whether it ever won.
    send(&app, put(&[("if-match", "\"2\"")], "bob")).await;
    let late = send(&app, put(&[("if-match", "\"1\"")], "alice")).await;
    assert_eq!((late.0, &late.2), (412, &json!({ "by": "bob" })));
}

/// The version is a part of the request: with another one it is another request.
fn protected() -> SemelLayer {
    SemelLayer::new(Engine::new(MemoryStore::new()), Routes::default())
}

/// With a key, the retry gets the first answer, whatever happened since.
#[tokio::test]
async fn with_a_key_a_retry_of_the_winner_is_told_that_it_won() {
    let app = app().await.layer(protected());
    let fields = [("if-match", "\"1\""), ("idempotency-key", "edit-1")];
    let lost = send(&app, put(&fields, "alice")).await;
    send(&app, put(&[("if-match", "\"2\"")], "bob")).await;
    let retry = send(&app, put(&fields, "alice")).await;
    assert_eq!(retry, lost);
    assert_eq!((retry.0, &*retry.1), (200, "\"2\""));
    assert_eq!(get(&app).await.2, json!({ "by": "bob" }));
    // The loser's answer is kept, too: to try again with what is there now is another operation.
    let loser = [("if-match", "\"1\""), ("idempotency-key", "edit-2")];
    assert_eq!(send(&app, put(&loser, "carol")).await.0, 412);
    assert_eq!(send(&app, put(&loser, "carol")).await.0, 412);
    let newer = [("if-match", "\"3\""), ("idempotency-key", "edit-2")];
    assert_eq!(send(&app, put(&newer, "carol")).await.0, 409);
    let another = [("if-match", "\"3\""), ("idempotency-key", "edit-3")];
    assert_eq!(send(&app, put(&another, "carol")).await.0, 200);
}
