//! Makes retries safe: a request or message that arrives many times takes effect once, and every
//! retry gets the first answer back.
//!
//! This crate is the way in for Rust services: it gathers the protocol ([`core`]), the stores
//! ([`store`]) and the [`Engine`] that drives them. Six features add to it:
//!
//! | feature | module | what |
//! |---|---|---|
//! | `embedded` | `embedded` | the durable store in a directory |
//! | `http` | `http` | the HTTP contract, and a tower layer for axum, hyper and tonic |
//! | `jwt` | `http::jwt` | JSON Web Tokens that identify a client, verified |
//! | `messaging` | `messaging` | the inbox: a message that is delivered many times takes effect once |
//! | `postgres` | `postgres` | the durable store on PostgreSQL, which several processes share |
//! | `redis` | `redis` | the fast store on Redis or Redis Cluster, which several processes share |
//!
//! # Around a piece of work
//!
//! ```
//! use semel::core::{Fingerprint, Key, Outcome, Policy, RecordId, Reply, Scope};
//! use semel::{Answer, Engine};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("semel-data");
//! let store = semel::embedded::Options::new(path).open()?;
//! let engine = Engine::new(store);
//!
//! let scope = Scope::new([("who", "customer-7"), ("what", "POST /v1/charges")]);
//! let id = RecordId::new("shop", &scope, &Key::parse("order-12345")?);
//! let fingerprint = Fingerprint::new([("body", r#"{"amount":100}"#)]);
//!
//! for try_number in 1..=3 {
//!     let attempt = engine.attempt(id, fingerprint);
//!     let answer = engine
//!         .once(attempt, &Policy::default(), |_execution| async {
//!             Outcome::Completed(Reply::new("charge ch_1")) // charge the card here
//!         })
//!         .await?;
//!     assert_eq!(answer.reply(), Some(&Reply::new("charge ch_1")));
//!     assert_eq!(matches!(answer, Answer::Executed { .. }), try_number == 1);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # On a database that several processes share
//!
//! ```no_run
//! use semel::Engine;
//! use semel::postgres::{Options, migrate};
//! use semel::store::{Guard, Guarded};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let options = Options::from_url("postgres://shop@db.internal/shop?sslmode=verify-full")?;
//! migrate(&options).await?; // or `semel migrate`, once per version
//! // A database can be away: with the guard's breaker an outage costs microseconds.
//! let guard = Guard { deadline: std::time::Duration::from_millis(2_500), ..Guard::default() };
//! let store = options.verb_timeout(std::time::Duration::from_secs(2)).open().await?;
//! let engine = Engine::new(Guarded::new(store, guard));
//! # drop(engine);
//! # Ok(())
//! # }
//! ```
//!
//! # Around an HTTP service
//!
//! A whole service is in `examples/axum-charges`.
//!
//! ```
//! use semel::Engine;
//! use semel::http::{Preset, RoutePolicy, Routes, SemelLayer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("semel-data");
//! let engine = Engine::new(semel::embedded::Options::new(path).open()?);
//!
//! let mut routes = Routes::new(RoutePolicy::default());
//! let payments = RoutePolicy::builder().preset(Preset::Payments).build()?;
//! routes.add("POST /v1/charges", payments)?;
//!
//! let layer = SemelLayer::new(engine, routes); // app.layer(layer)
//! # drop(layer);
//! # Ok(())
//! # }
//! ```

pub use semel_core as core;
#[cfg(feature = "embedded")]
pub use semel_embedded as embedded;
pub use semel_engine::{
    Answer, Engine, EngineError, Execution, Limits, Quota, Rate, ScopeLimits, ShutdownReport,
    Stored, TooManyKeys,
};
#[cfg(feature = "http")]
pub use semel_http as http;
#[cfg(feature = "messaging")]
pub use semel_messaging as messaging;
#[cfg(feature = "postgres")]
pub use semel_postgres as postgres;
#[cfg(feature = "redis")]
pub use semel_redis as redis;
pub use semel_store as store;
