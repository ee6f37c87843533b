//! Threads that share few connections.

use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use http::header::HeaderValue;
use tokio::task::{JoinSet, yield_now};
use tokio::time::Instant;

use super::*;
use crate::proxy::latency::RequestClass;
use crate::proxy::permits::UpstreamPermits;

/// The longest wait of a request; with fair queueing it is a few hundredths of it.
const LIMIT: Duration = Duration::from_secs(5);
/// A pool without idle connections: no worker closes them here.
const POOL: Pool = Pool { id: 0, max_idle: 0, idle_timeout: LIMIT };

fn upstream(port: u16, connections: usize) -> Arc<Upstream> {
    Arc::new(Upstream {
        host: "127.0.0.1".into(),
        port,
        authority: HeaderValue::from_static("upstream"),
        base: "".into(),
        tls: None,
        connect_timeout: LIMIT,
        permits: Arc::new(UpstreamPermits::new(connections)),
    })
}

/// The port of a server that accepts connections, and keeps them open until the other side closes them.
fn accepting() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || io::copy(&mut &stream, &mut io::sink()));
        }
    });
    port
}

/// A request in work, without its exchange.
async fn work(upstream: &Arc<Upstream>) -> Result<(), Failure> {
    let (class, deadline) = (RequestClass::default(), Instant::now() + LIMIT * 2);
    let timeouts = ExchangeTimeouts { class, limit: LIMIT, deadline, client: None };
    let (connection, _) = obtain(upstream, POOL, &timeouts).await?;
    yield_now().await;
    put_unused(connection, POOL);
    Ok(())
}

/// Runs `tasks` tasks with requests on this thread until `is_over`.
fn load(upstream: &Arc<Upstream>, tasks: usize, is_over: &Arc<AtomicBool>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut all = JoinSet::new();
        for _ in 0..tasks {
            let (upstream, is_over) = (upstream.clone(), is_over.clone());
            all.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    // Only the results of the other thread matter.
                    let _ = work(&upstream).await;
                }
            });
        }
        all.join_all().await;
    });
}

/// A regression: a thread on which requests always wait kept all connections, and requests of the other thread waited
/// until they were refused.
#[test]
fn a_thread_under_constant_load_leaves_connections_to_the_other() {
    for connections in [1, 2] {
        let upstream = upstream(accepting(), connections);
        let (loaded, is_over) = (upstream.clone(), Arc::new(AtomicBool::new(false)));
        let end = is_over.clone();
        let loaded = thread::spawn(move || load(&loaded, 8, &end));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let failed = runtime.block_on(async {
            // The loaded thread has all connections, and waits for more.
            while upstream.permits.waiting() == 0 {
                yield_now().await;
            }
            for round in 0..20 {
                if let Err(failure) = work(&upstream).await {
                    return Some((round, failure));
                }
            }
            None
        });
        is_over.store(true, Ordering::Relaxed);
        loaded.join().unwrap();
        assert!(failed.is_none(), "{connections} connections: {failed:?}");
    }
}
