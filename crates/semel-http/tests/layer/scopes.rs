//! I7, trap 10: two scopes never see each other's records, whatever the keys.

use std::collections::HashSet;
use std::net::IpAddr;

use http::{Request, Response};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use semel_http::{ClientIp, Routes, SemelLayer};
use tower::ServiceExt as _;
use tower_layer::Layer as _;

use crate::support::{Api, Handler, Reply, Seen, TestBody, With, charge, keyless, policy};

/// A client and its operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    method: String,
    path: String,
    identity: Vec<String>,
}

impl Client {
    fn random(random: &mut StdRng) -> Self {
        let mut text = |max| -> String {
            let len = random.random_range(1..=max);
            (0..len).map(|_| *b"aAbB:-09".choose(random).unwrap() as char).collect()
        };
        let (path, first, second) = (format!("/{}/{}", text(3), text(3)), text(4), text(4));
        let identity = [vec![first.clone()], vec![first, second]].choose(random).unwrap().clone();
        let methods = ["POST", "PATCH", "PUT", "DELETE"];
        Self { method: (*methods.choose(random).unwrap()).to_owned(), path, identity }
    }

    /// A client that is easily confused with this one.
    fn neighbour(&self, random: &mut StdRng) -> Self {
        let mut other = self.clone();
        let joined = |glue: &str| vec![self.identity.join(glue)];
        match random.random_range(0..8) {
            0 => other.identity = joined(""),
            1 => other.identity = joined(", "),
            2 => other.identity.reverse(),
            3 => other.identity[0] = other.identity[0].to_lowercase(),
            4 => other.identity.clear(),
            5 => other.path = format!("{}{}", self.path, self.identity[0]),
            6 => other.path.push_str("/a"),
            _ => other.method = (if self.method == "POST" { "PUT" } else { "POST" }).into(),
        }
        other
    }

    fn request(&self) -> Request<TestBody> {
        let request = keyless(&self.method, &self.path, "100").with("idempotency-key", "k");
        self.identity.iter().fold(request, |request, who| request.with("authorization", who))
    }

    /// What only this one may see.
    fn canary(method: &str, path: &str, identity: &[String]) -> String {
        format!("{method} {path} {identity:?}")
    }
}

fn canary(seen: &Seen) -> Response<TestBody> {
    let identity = seen.headers.get_all("authorization").iter();
    let identity: Vec<_> = identity.map(|who| who.to_str().unwrap().to_owned()).collect();
    Response::new(Client::canary(seen.method.as_str(), seen.uri.path(), &identity).into())
}

#[tokio::test]
async fn a_thousand_pairs_of_scopes_share_a_key_and_no_answer() {
    let mut random = StdRng::seed_from_u64(7);
    let api = Api::new(policy(), Handler::replying(canary));
    let mut scopes = HashSet::new();
    for _ in 0..1_000 {
        let one = Client::random(&mut random);
        let other = one.neighbour(&mut random);
        for who in [&one, &other, &one, &other] {
            let known = !scopes.insert(who.clone());
            let reply = api.send(who.request()).await;
            assert_eq!(reply.text(), Client::canary(&who.method, &who.path, &who.identity));
            assert_eq!((reply.status, reply.is_replayed()), (200, known));
        }
    }
    assert!(scopes.len() > 1_000, "{} scopes are too alike", scopes.len());
    assert_eq!((api.handler.runs(), api.store.memory().len()), (scopes.len(), scopes.len()));
}

#[tokio::test]
async fn anonymous_clients_share_one_separate_scope() {
    let api = Api::new(policy(), Handler::counting());
    let nobody = api.send(charge("k", "100")).await;
    api.send(charge("k", "100")).await.assert_replays(&nobody);
    // An empty one is none.
    api.send(charge("k", "100").with("authorization", "")).await.assert_replays(&nobody);
    for name in ["no header:authorization", "anonymous", "-"] {
        let reply = api.send(charge("k", "100").with("authorization", name)).await;
        assert!(!reply.is_replayed(), "{name}");
    }
}

#[tokio::test]
async fn all_sources_of_an_identity_count() {
    let sources = ["header:x-tenant", "client-ip"].map(|source| source.parse().unwrap());
    let api = Api::new(policy().scope(sources.to_vec()), Handler::counting());
    let from = |tenant: &str, ip: &str| {
        let mut request = charge("k", "100").with("x-tenant", tenant);
        request.extensions_mut().insert(ClientIp(ip.parse::<IpAddr>().unwrap()));
        // Not among the sources, so it does not count.
        let random: u64 = rand::random();
        request.with("authorization", &random.to_string())
    };
    let first = api.send(from("a", "10.0.0.1")).await;
    api.send(from("a", "10.0.0.1")).await.assert_replays(&first);
    api.send(from("a", "::ffff:10.0.0.1")).await.assert_replays(&first);
    assert_eq!(api.send(from("b", "10.0.0.1")).await.text(), "run 2");
    assert_eq!(api.send(from("a", "10.0.0.2")).await.text(), "run 3");
}

#[tokio::test]
async fn a_global_scope_is_shared_by_everyone() {
    let global = vec!["global".parse().unwrap()];
    let api = Api::new(policy().scope(global), Handler::counting());
    let first = api.send(charge("k", "100").with("authorization", "ann")).await;
    api.send(charge("k", "100").with("authorization", "bob")).await.assert_replays(&first);
}

#[tokio::test]
async fn applications_that_share_a_store_do_not_share_records() {
    let api = Api::new(policy(), Handler::counting());
    assert_eq!(api.send(charge("k", "100")).await.text(), "run 1");
    let other = SemelLayer::new(api.engine.clone(), Routes::default()).namespace("other");
    let response = other.layer(api.handler.clone()).oneshot(charge("k", "100")).await.unwrap();
    assert_eq!(Reply::of(response).await.text(), "run 2");
}
