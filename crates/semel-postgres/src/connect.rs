//! How connections to the servers are made.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::net::sockopt;
use semel_socket::{Ending, Socket};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, SimpleQueryMessage};

use crate::Options;
use crate::error::OpenError;
use crate::tls::Connector;

/// What moves a connection's bytes; it must be polled for the client to work.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Connects to the first server that will have us, beginning with the one that was right last.
pub(crate) async fn connect(
    options: &Options,
    connector: &Connector,
) -> Result<(Client, Driver), OpenError> {
    connect_first(options, connector, None).await
}

/// The same by a socket of our own, so that it ends as `ending` says. Its client cannot cancel what it
/// asked: the driver would have to know the address.
pub(crate) async fn connect_ending(
    options: &Options,
    connector: &Connector,
    ending: &Ending,
) -> Result<(Client, Driver), OpenError> {
    connect_first(options, connector, Some(ending)).await
}

async fn connect_first(
    options: &Options,
    connector: &Connector,
    ending: Option<&Ending>,
) -> Result<(Client, Driver), OpenError> {
    let (first, count) = (options.server.load(Ordering::Relaxed), options.servers.len());
    let mut failed: Option<OpenError> = None;
    for number in (first..first + count).map(|number| number % count) {
        match connect_to(&options.servers[number], options, connector, ending).await {
            Ok(connected) => {
                options.server.store(number, Ordering::Relaxed);
                return Ok(connected);
            }
            // Who can be reached and refuses us says more than who cannot.
            Err(error) if matches!(failed, None | Some(OpenError::Unreachable { .. })) => {
                failed = Some(error);
            }
            Err(_) => {}
        }
    }
    let what = "the address names no server".to_owned();
    Err(failed.unwrap_or(OpenError::Unreachable { server: options.to_string(), what }))
}

/// Connects within the limit of the options.
async fn connect_to(
    server: &Config,
    options: &Options,
    connector: &Connector,
    ending: Option<&Ending>,
) -> Result<(Client, Driver), OpenError> {
    let limit = server.get_connect_timeout().copied().unwrap_or(Duration::MAX);
    // The driver's own limit is for the first bytes only; a server may also stop in mid-greeting.
    let connected = match (ending, name_and_port(server)) {
        (Some(ending), Some((host, port))) => {
            let by_own = by_own_socket(server, options, connector, ending, (host, port));
            timeout(limit, by_own).await
        }
        // On a local socket nothing is on its way. An address without a name has none for TLS.
        _ => timeout(limit, by_drivers_socket(server, options, connector)).await,
    };
    connected.unwrap_or_else(|_| Err(OpenError::silent(options, limit)))
}

async fn by_drivers_socket(
    server: &Config,
    options: &Options,
    connector: &Connector,
) -> Result<(Client, Driver), OpenError> {
    let connected = server.connect(connector.clone()).await;
    let (client, connection) = connected.map_err(|error| OpenError::connection(options, &error))?;
    Ok((client, driver(connection)))
}

async fn by_own_socket(
    server: &Config,
    options: &Options,
    connector: &Connector,
    ending: &Ending,
    (host, port): (&str, u16),
) -> Result<(Client, Driver), OpenError> {
    let stream = reach(server, host, port).await;
    let stream = stream.map_err(|error| unreachable(options, &error))?;
    let socket = Socket::new(stream, ending.clone());
    let mut tls = connector.clone();
    let tls = MakeTlsConnect::<Socket>::make_tls_connect(&mut tls, host);
    let tls = tls.map_err(|error| OpenError::Tls { what: format!("{options}: {error}") })?;
    let connected = server.connect_raw(socket, tls).await;
    let (client, connection) = connected.map_err(|error| OpenError::connection(options, &error))?;
    let mut driver = driver(connection);
    check_session(server, options, &client, &mut driver).await?;
    Ok((client, driver))
}

fn driver<S, T>(connection: Connection<S, T>) -> Driver
where
    Connection<S, T>: Future<Output = Result<(), tokio_postgres::Error>> + Send + 'static,
{
    Box::pin(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to PostgreSQL ended");
        }
    })
}

/// The one host of a server that is reached by TCP and has a name.
fn name_and_port(server: &Config) -> Option<(&str, u16)> {
    let port = server.get_ports().first().copied().unwrap_or(5432);
    match server.get_hosts() {
        [Host::Tcp(name)] => Some((name, port)),
        _ => None,
    }
}

/// The first of its addresses that can be connected to.
async fn reach(server: &Config, host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = match server.get_hostaddrs().first() {
        Some(address) => vec![(*address, port).into()],
        None => lookup_host((host, port)).await?.collect(),
    };
    let stream = TcpStream::connect(&*addresses).await?;
    prepare(server, &stream)?;
    Ok(stream)
}

/// As the driver prepares the sockets that it makes.
fn prepare(server: &Config, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if let Some(limit) = server.get_tcp_user_timeout() {
        let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(stream, millis)?;
    }
    if server.get_keepalives() {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, server.get_keepalives_idle())?;
        if let Some(interval) = server.get_keepalives_interval() {
            sockopt::set_tcp_keepintvl(stream, interval)?;
        }
        if let Some(retries) = server.get_keepalives_retries() {
            sockopt::set_tcp_keepcnt(stream, retries)?;
        }
    }
    Ok(())
}

/// Is the server of the kind that the address asks for?
async fn check_session(
    server: &Config,
    options: &Options,
    client: &Client,
    driver: &mut Driver,
) -> Result<(), OpenError> {
    let wanted = server.get_target_session_attrs();
    if wanted == TargetSessionAttrs::Any {
        return Ok(());
    }
    let closed = io::Error::other("the connection was closed");
    let answer = tokio::select! {
        answer = client.simple_query("SHOW transaction_read_only") => answer,
        () = driver => return Err(unreachable(options, &closed)),
    };
    let answer = answer.map_err(|error| OpenError::connection(options, &error))?;
    let is_read_only = answer
        .iter()
        .any(|message| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("on")));
    let refused = match wanted {
        TargetSessionAttrs::ReadWrite if is_read_only => "database does not allow writes",
        TargetSessionAttrs::ReadOnly if !is_read_only => "database is not read only",
        _ => return Ok(()),
    };
    Err(unreachable(options, &io::Error::other(refused)))
}

fn unreachable(options: &Options, error: &io::Error) -> OpenError {
    let what = format!("error connecting to server: {error}");
    OpenError::Unreachable { server: options.to_string(), what }
}
