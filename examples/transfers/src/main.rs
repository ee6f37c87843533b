//! A bank with axum and `PostgreSQL`. A transfer that is sent again, for whatever reason, moves the
//! money once: its key, its rows and its event are committed in the same transaction.
//!
//! ```sh
//! cargo run -p transfers                      # with a PostgreSQL of its own, in ./transfers-data
//! cargo run -p transfers -- --database postgres://bank@localhost/bank --listen 127.0.0.1:3000
//! ```

mod api;
mod bank;
mod reader;
mod refusal;

use std::net::SocketAddr;

use anyhow::Context as _;
use axum::Router;
use clap::Parser;
use semel_http::Profile;
use semel_postgres::transaction::{Retry, TransactionPool};
use semel_postgres::{Options, migrate};
use semel_testserver::Postgres;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use api::Bank;
use reader::Reader;

/// A bank that moves money once per key.
#[derive(Debug, Parser)]
struct Arguments {
    /// The database, as postgres://USER:PASSWORD@HOST:PORT/DATABASE. Without it a server is started
    /// that keeps its data in ./transfers-data.
    #[arg(long)]
    database: Option<String>,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// How keys are answered for: classic, ietf or stripe.
    #[arg(long, default_value = "classic")]
    profile: Profile,
    /// How often a transaction is tried that fails by a conflict or a lost connection.
    #[arg(long, default_value_t = Retry::default().tries)]
    tries: u32,
}

/// Under this lock one process makes the tables at a time: "transfer", as a number.
const MAKING_TABLES: i64 = 0x7472_616e_7366_6572;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::WARN)
        .init();
    let (url, server) = if let Some(url) = &arguments.database {
        (url.clone(), None)
    } else {
        let server = tokio::task::spawn_blocking(start_server).await??;
        eprintln!("a database of its own: psql {}", server.url());
        (server.url(), Some(server))
    };
    let app = open(&url, &arguments).await?;
    let listener = TcpListener::bind(arguments.listen).await.context("cannot listen there")?;
    let address = listener.local_addr()?;
    println!("transfers listening on http://{address}\n\n{}", tour(address));

    // Requests that run are answered first.
    axum::serve(listener, app).with_graceful_shutdown(stop_signal()).await?;
    println!("stopped");
    drop(server);
    Ok(())
}

fn start_server() -> Result<Postgres, semel_testserver::Error> {
    Postgres::options().directory("./transfers-data").start()
}

/// Makes what is missing in the database, and everything that is needed to serve.
async fn open(url: &str, arguments: &Arguments) -> anyhow::Result<Router> {
    let options = Options::from_url(url)?;
    migrate(&options).await?;
    make_tables(&options).await?;
    let retry = Retry { tries: arguments.tries, ..Retry::default() };
    let pool = TransactionPool::open(options.clone()).await?.retry(retry);
    api::app(Bank { pool, reader: Reader::new(options) }, arguments.profile)
}

/// What is there already is left as it is.
async fn make_tables(options: &Options) -> anyhow::Result<()> {
    let mut client = options.connect().await?;
    let transaction = client.transaction().await?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MAKING_TABLES]).await?;
    transaction.batch_execute("SET LOCAL client_min_messages = warning").await?;
    transaction.batch_execute(include_str!("schema.sql")).await?;
    Ok(transaction.commit().await?)
}

/// The lines to try, as the README has them.
fn tour(address: SocketAddr) -> String {
    let readme = include_str!("../README.md").replace("127.0.0.1:3000", &address.to_string());
    let blocks = readme.split("```sh\n").filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.starts_with("curl")).collect::<Vec<_>>().join("\n")
}

/// Completes on SIGTERM and Ctrl-C.
async fn stop_signal() {
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            // Without the signal there is nothing to wait for.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = terminated => {}
        Ok(()) = tokio::signal::ctrl_c() => {}
        else => std::future::pending().await,
    }
}
