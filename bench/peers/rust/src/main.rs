//! One axum app that answers at once: bare, with Semel's layer, or with a peer's around it. They
//! keep their records on Redis, but for `axum-idempotent`, which keeps them in memory.
//!
//! ```sh
//! semel-bench-peers bare|semel|idempotent|axum-idempotent redis://127.0.0.1:6379
//! ```

mod layers;
mod routes;

use std::error::Error;
use std::io::Read as _;

use tokio::net::TcpListener;

const USAGE: &str = "usage: semel-bench-peers LAYER redis://HOST:PORT";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The process that started this one holds the other end.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let mut arguments = std::env::args().skip(1);
    let (layer, redis) = (arguments.next().unwrap_or_default(), arguments.next().ok_or(USAGE)?);
    let app = match layer.as_str() {
        "bare" => routes::orders(),
        "semel" => layers::semel(&redis).await?,
        "idempotent" => layers::idempotent(&redis).await?,
        "axum-idempotent" => layers::axum_idempotent(),
        other => return Err(format!("no such layer: {other:?}").into()),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("app listening on {}", listener.local_addr()?);
    Ok(axum::serve(listener, app.merge(routes::count())).await?)
}
