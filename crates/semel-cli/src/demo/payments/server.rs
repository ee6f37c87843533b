//! Connections to the API.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::Payments;

/// Connections at once; more have to wait for their turn.
const CONNECTIONS_MAX: usize = 512;

/// A handler whose client hangs up is dropped, as in most frameworks: what it had not done by then
/// does not happen.
pub(super) async fn serve(payments: Payments, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Most often too many open files: others may close some soon.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let payments = payments.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let payments = payments.clone();
                async move { Ok::<_, Infallible>(payments.answer(request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            // A connection that broke is its client's affair.
            let _ = connection.await;
            drop(place);
        });
    }
}
