//! Tokens that identify a client: with an invalid one nothing is claimed and nothing executes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use semel_http::{
    IdempotentLayer, JwtUnverified, Mode, OnMissingScope, Preset, RoutePolicyBuilder, Routes,
    TokenRefused, VerifiedToken, VerifyToken,
};
use tower::ServiceExt as _;
use tower_layer::Layer as _;

use crate::support::{Api, Counts, Handler, Reply, TestBody, With, charge, keyless, policy, until};

/// A token is its issuer and its claims, with a semicolon between, or the reason why it is refused.
#[derive(Debug, Default)]
struct Open {
    looks: AtomicUsize,
}

impl VerifyToken for Open {
    fn verify(&self, token: &str) -> Result<VerifiedToken, TokenRefused> {
        let refused = match token {
            "expired" => TokenRefused::Expired,
            "forged" => TokenRefused::Signature,
            "retired" => TokenRefused::UnknownKey,
            "new" if self.looks.load(Ordering::Relaxed) == 0 => TokenRefused::UnknownKey,
            "early" => TokenRefused::NoKeys,
            "new" => return Ok(VerifiedToken::new("i", *br#"{"sub":"new"}"#)),
            token => {
                let (issuer, claims) = token.split_once(';').ok_or(TokenRefused::Malformed)?;
                return Ok(VerifiedToken::new(issuer, claims.as_bytes()));
            }
        };
        Err(refused)
    }

    fn renew(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            tokio::task::yield_now().await;
            self.looks.fetch_add(1, Ordering::Relaxed);
        })
    }
}

fn scoped() -> RoutePolicyBuilder {
    policy().scope(vec!["jwt:sub".parse().unwrap()])
}

fn api(policy: RoutePolicyBuilder) -> Api {
    Api::new(policy, Handler::counting()).verified_by(Arc::new(Open::default()))
}

fn by(token: &str) -> Request<TestBody> {
    charge("k", "100").with("authorization", &format!("Bearer {token}"))
}

const BAD: [(&str, &str); 7] = [
    ("expired", "the token has expired"),
    ("forged", "the signature of the token is wrong"),
    ("retired", "a key that is not known"),
    ("nonsense", "not a JSON Web Token"),
    (r#"i;{"name":"ann"}"#, "no claim sub"),
    (r#"i;{"sub":["ann"]}"#, "no claim sub"),
    (r#"i;{"sub":""}"#, "no claim sub"),
];

/// Whatever `on_missing_scope` says: a bad token is not the same as none.
#[tokio::test]
async fn a_bad_token_is_refused_and_nothing_is_claimed() {
    for on_missing in [OnMissingScope::Anonymous, OnMissingScope::Reject] {
        let api = api(scoped().on_missing_scope(on_missing));
        for (token, why) in BAD {
            let reply = api.send(by(token)).await;
            reply.assert_problem(401, "idempotency_scope_missing", false);
            assert!(reply.text().contains(why), "{}", reply.text());
            assert!(!reply.text().contains(&format!("\"{token}\"")), "{}", reply.text());
            assert!(!reply.text().contains("ann"), "{}", reply.text());
            let challenge = reply.header("www-authenticate");
            assert_eq!(challenge, Some(r#"Bearer error="invalid_token""#));
        }
        assert_eq!((api.handler.runs(), api.store.last_claimed()), (0, None));
    }
}

#[tokio::test]
async fn other_credentials_are_not_taken_for_a_token() {
    let api = api(scoped());
    let twice = by(r#"i;{"sub":"ann"}"#).with("authorization", r#"Bearer i;{"sub":"bob"}"#);
    let basic = charge("k", "100").with("authorization", "Basic YTpi");
    let bare = charge("k", "100").with("authorization", "token");
    for request in [twice, basic, bare] {
        let reply = api.send(request).await;
        reply.assert_problem(401, "idempotency_scope_missing", false);
        assert!(reply.text().contains("Authorization header"), "{}", reply.text());
    }
    assert_eq!((api.handler.runs(), api.store.last_claimed()), (0, None));
}

/// Without a token a client is anonymous, or refused.
#[tokio::test]
async fn none_is_as_the_route_says() {
    let open = api(scoped());
    assert_eq!(open.send(charge("k", "100")).await.status, 201);
    assert!(open.send(charge("k", "100").with("authorization", "")).await.is_replayed());
    let strict = api(scoped().on_missing_scope(OnMissingScope::Reject));
    let reply = strict.send(charge("k", "100")).await;
    reply.assert_problem(401, "idempotency_scope_missing", false);
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
}

#[tokio::test]
async fn a_client_is_its_claim_together_with_its_issuer() {
    let api = api(scoped());
    let tokens = [
        r#"i;{"sub":"ann"}"#,
        r#"i;{"sub":"bob"}"#,
        r#"other;{"sub":"ann"}"#,
        r#"i;{"sub":7}"#,
        r#"i;{"sub":"7"}"#,
    ];
    for token in tokens {
        assert!(!api.send(by(token)).await.is_replayed(), "{token}");
    }
    assert_eq!(api.handler.runs(), tokens.len());
    // A new token of the same client is the same client.
    assert!(api.send(by(r#"i;{"exp":2,"sub":"ann"}"#)).await.is_replayed());
    // A verified name and an unverified one are two clients.
    let unverified = api.beside(scoped(), Handler::counting());
    let token = "Bearer e30.eyJzdWIiOiJhbm4ifQ.c2ln";
    let reply = unverified.send(charge("k", "100").with("authorization", token)).await;
    assert!(!reply.is_replayed() && reply.status == 201);
}

#[tokio::test]
async fn a_key_that_came_since_is_looked_for() {
    let api = api(scoped());
    assert_eq!(api.send(by("new")).await.status, 201);
    assert!(api.send(by("new")).await.is_replayed());
}

/// It is not the client's fault, which must not throw its token away.
#[tokio::test]
async fn without_keys_a_token_is_not_refused_for_good() {
    let api = api(scoped());
    let reply = api.send(by("early")).await;
    reply.assert_problem(503, "token_keys_unavailable", true);
    reply.assert_retry_after(true);
    assert_eq!(reply.header("www-authenticate"), None);
    assert_eq!((api.handler.runs(), api.store.last_claimed()), (0, None));
}

#[tokio::test]
async fn a_token_counts_too_where_the_key_is_in_the_body() {
    let api = api(scoped().key_from(vec!["json:/key".parse().unwrap()]));
    let request = |token: &str| {
        let token = format!("Bearer {token}");
        keyless("POST", "/charges", r#"{"key":"k"}"#).with("authorization", &token)
    };
    let reply = api.send(request("expired")).await;
    reply.assert_problem(401, "idempotency_scope_missing", false);
    assert_eq!((api.handler.runs(), api.store.last_claimed()), (0, None));
    assert_eq!(api.send(request(r#"i;{"sub":"ann"}"#)).await.status, 201);
}

/// What passes anyway is not looked at: the service checks tokens by itself.
#[tokio::test]
async fn unprotected_requests_pass_with_any_token() {
    let api = api(scoped());
    let request = keyless("GET", "/charges", "").with("authorization", "Bearer expired");
    assert_eq!(api.send(request).await.status, 201);
}

/// A client could write another's name into its token.
#[tokio::test]
async fn payments_do_not_take_claims_that_nothing_verifies() {
    let token = "Bearer e30.eyJzdWIiOiJhbm4ifQ.c2ln";
    let request = || charge("k", "100").with("authorization", token);
    let payments = || scoped().preset(Preset::Payments);
    let api = Api::new(payments(), Handler::counting());
    let reply = api.send(request()).await;
    reply.assert_problem(401, "idempotency_scope_missing", false);
    assert!(reply.text().contains("[jwt]"), "{}", reply.text());
    assert_eq!((api.handler.runs(), api.store.last_claimed()), (0, None));
    let behind = payments().jwt_unverified(JwtUnverified::BehindAVerifier);
    assert_eq!(Api::new(behind, Handler::counting()).send(request()).await.status, 201);
}

/// Shadow mode passes all, and counts what would have been refused.
#[tokio::test]
async fn shadow_mode_counts_bad_tokens() {
    let counts = Counts::default();
    let api = Api::with_routes(counts.routes(scoped().mode(Mode::Shadow)), Handler::counting());
    let api = api.verified_by(Arc::new(Open::default()));
    for (run, token) in (1..).zip(["expired", "retired", "i;{}"]) {
        assert_eq!(api.send(by(token)).await.text(), format!("run {run}"));
    }
    until("all is counted", || counts.of("scope_missing") + counts.of("unchecked") == 3).await;
    assert_eq!((counts.of("unchecked"), counts.all().len()), (1, 2));
    assert_eq!(api.send(by(r#"i;{"sub":"ann"}"#)).await.status, 201);
    until("it is the first", || counts.of("first") == 1).await;
}

/// The same holds where the handler claims by itself.
#[tokio::test]
async fn an_idempotent_layer_verifies_too() {
    let routes = Routes::new(scoped().build().unwrap());
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let inner = tower::service_fn(move |_request| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(TestBody::from("ok"))))
    });
    let service = IdempotentLayer::new(routes).verifier(Arc::new(Open::default())).layer(inner);
    let send =
        async |token: &str| Reply::of(service.clone().oneshot(by(token)).await.unwrap()).await;
    send("expired").await.assert_problem(401, "idempotency_scope_missing", false);
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    assert_eq!(send(r#"i;{"sub":"ann"}"#).await.status, 200);
}
