//! Whatever a handler responds, both layers answer alike: the first attempt, its retry, and another
//! request under its key.

use bytes::Bytes;
use http::Response;
use semel_core::{InFlight, OnUnknown};
use semel_http::{OutcomeKind, Profile, RoutePolicyBuilder};

use crate::support::{self, Handler, Reply, TestBody, With, charge, policy};

/// All that may come of an execution. Each has a date, which is not to be compared.
const RESPONSES: [fn() -> Response<Bytes>; 9] = [
    || response(201, "created").with("location", "/charges/1").with("link", "a").with("link", "b"),
    || response(200, "").with("set-cookie", "a=1").with("connection", "x-a").with("x-a", "1"),
    || response(204, "").with("x-idempotency-expires", "never"),
    || response(303, "elsewhere").with("content-length", "9"),
    || response(402, "no money"),
    || response(429, "too many").with("retry-after", "9").with("set-cookie", "a=1"),
    || response(500, "broken"),
    || kind(response(200, "who knows"), OutcomeKind::Unknown),
    || kind(response(503, "for good, and far too long to be kept"), OutcomeKind::Failed),
];

fn response(status: u16, body: &'static str) -> Response<Bytes> {
    let response = Response::builder().status(status).body(body.into()).unwrap();
    response.with("date", "Thu, 01 Jan 2026 00:00:00 GMT")
}

fn kind(mut response: Response<Bytes>, kind: OutcomeKind) -> Response<Bytes> {
    response.extensions_mut().insert(kind);
    response
}

/// Everything that a client sees.
fn view(reply: Reply) -> impl PartialEq + std::fmt::Debug {
    (reply.status, reply.headers, reply.body, reply.trailers)
}

async fn assert_alike(policy: impl Fn() -> RoutePolicyBuilder) {
    for make in RESPONSES {
        let handler = Handler::replying(move |_| make().map(TestBody::from));
        let layer = support::Api::new(policy(), handler);
        let attempt = super::Api::new(policy(), move |_| make());
        for body in ["100", "100", "200", "100"] {
            let (one, other) =
                (layer.send(charge("k", body)).await, attempt.send(charge("k", body)).await);
            assert_eq!(view(one), view(other), "{:?}", make());
        }
    }
}

#[tokio::test]
async fn both_layers_answer_alike_under_every_profile() {
    for profile in [Profile::Classic, Profile::Ietf, Profile::Stripe] {
        assert_alike(|| policy().profile(profile)).await;
    }
}

#[tokio::test]
async fn both_layers_respond_alike_for_every_policy() {
    assert_alike(|| policy().max_reply_body(20)).await;
    assert_alike(|| policy().replay_cookies(true).in_flight(InFlight::Accepted)).await;
    assert_alike(|| policy().on_unknown(OnUnknown::Hold)).await;
}
