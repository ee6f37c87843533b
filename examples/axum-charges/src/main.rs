//! A payments API with axum. Semel's layer sees to it that a charge that is sent again, for
//! whatever reason, is made once.
//!
//! ```sh
//! cargo run -p axum-charges                            # ./semel-data, 127.0.0.1:3000
//! cargo run -p axum-charges -- /var/lib/charges 127.0.0.1:0
//! ```

mod charges;

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use semel::Engine;
use semel::core::InFlight;
use semel::embedded::Options;
use semel::http::{Preset, RoutePolicy, RoutePolicyError, Routes, SemelLayer};
use tokio::net::TcpListener;

use charges::Ledger;

/// How long work that runs is waited for when the process should end.
const TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| "./semel-data".to_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:3000".to_owned());

    let engine = Engine::new(Options::new(directory).open()?);
    let listener = TcpListener::bind(address).await?;
    println!("charges listening on http://{}", listener.local_addr()?);

    axum::serve(listener, app(&engine)?).with_graceful_shutdown(stop_signal()).await?;
    let report = engine.shutdown(TIMEOUT).await;
    println!("stopped; {} left", report.left);
    Ok(())
}

fn app(engine: &Engine) -> Result<Router, Box<dyn Error>> {
    let mut routes = Routes::new(RoutePolicy::default());
    routes.add("POST /v1/charges", payments()?)?;
    let app = Router::new()
        .route("/v1/charges", get(charges::list).post(charges::create))
        .with_state(Ledger::default())
        // Last, so that it is around everything above.
        .layer(SemelLayer::new(engine.clone(), routes));
    Ok(app)
}

/// At most one execution; duplicates wait for its response.
fn payments() -> Result<RoutePolicy, RoutePolicyError> {
    RoutePolicy::builder()
        .preset(Preset::Payments)
        .in_flight(InFlight::Wait(Duration::from_secs(10)))
        .build()
}

async fn stop_signal() {
    // Without the signal there is nothing to wait for: the process is then ended by other means.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
