//! Connections to the servers.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::seq::SliceRandom as _;
use rustix::net::sockopt;
use semel_socket::{Ending, Socket};
use semel_store::is_exhausted;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, SimpleQueryMessage};

use crate::Options;
use crate::error::OpenError;
use crate::tls::{self, Connector};

/// Drives a connection; it must be polled for the client to work.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

// === impl Options ===

impl Options {
    /// Opens a single connection with the settings of a store or pool, for queries of your own. It ends
    /// when the client is dropped.
    pub async fn connect(&self) -> Result<Client, OpenError> {
        let (client, driver) = connect(self, &tls::connector(&self.tls)?).await?;
        tokio::spawn(driver);
        Ok(client)
    }
}

/// Connects to the first server that accepts us, beginning with the latest one.
pub(crate) async fn connect(
    options: &Options,
    connector: &Connector,
) -> Result<(Client, Driver), OpenError> {
    connect_first(options, connector, None).await
}

/// The same on a socket of our own, so that it ends as `ending` says. Its client cannot cancel queries:
/// the driver would have to know the address.
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
    let mut failed = None;
    for number in order(options) {
        match connect_to(&options.servers[number], options, connector, ending).await {
            Ok(connected) => {
                options.server.store(number, Ordering::Relaxed);
                return Ok(connected);
            }
            Err(error) => failed = Some(more_specific(failed, error)),
        }
    }
    let what = "the address names no server".to_owned();
    Err(failed.unwrap_or(OpenError::Unreachable { server: options.to_string(), what }))
}

/// The order in which the servers are tried.
fn order(options: &Options) -> Vec<usize> {
    let (first, count) = (options.server.load(Ordering::Relaxed), options.servers.len());
    let mut order: Vec<usize> = (first..first + count).map(|number| number % count).collect();
    if is_random(&options.config) {
        order.shuffle(&mut rand::rng());
    }
    order
}

fn is_random(config: &Config) -> bool {
    config.get_load_balance_hosts() == LoadBalanceHosts::Random
}

/// The more useful of two failures: a server that refuses us tells more than an unreachable one.
/// Exhaustion of this process, which is no statement about any server, wins.
fn more_specific(before: Option<OpenError>, now: OpenError) -> OpenError {
    match before {
        Some(before) if matches!(before, OpenError::Exhausted { .. }) => before,
        _ if matches!(now, OpenError::Exhausted { .. }) => now,
        Some(before) if !matches!(before, OpenError::Unreachable { .. }) => before,
        _ => now,
    }
}

/// Connects to the first address of a server that accepts us.
async fn connect_to(
    server: &Config,
    options: &Options,
    connector: &Connector,
    ending: Option<&Ending>,
) -> Result<(Client, Driver), OpenError> {
    let Some((host, port)) = name_and_port(server) else {
        // On a Unix socket nothing is in transit. An address without a name has none for TLS.
        return within_limit(server, options, by_drivers_socket(server, options, connector)).await;
    };
    let found = within_limit(server, options, async {
        addresses(server, host, port).await.map_err(|error| unreachable(options, &error))
    });
    connect_to_any(server, &found.await?, options, connector, ending).await
}

/// A name may stand for several servers, or for one that accepts us at one of its addresses only. So all
/// steps of connecting are tried at each address, including the login and the check of the session. Each
/// address has the whole timeout.
async fn connect_to_any(
    server: &Config,
    addresses: &[SocketAddr],
    options: &Options,
    connector: &Connector,
    ending: Option<&Ending>,
) -> Result<(Client, Driver), OpenError> {
    let mut failed = None;
    for address in addresses {
        let connected = if let Some(ending) = ending {
            let by_own = by_own_socket(server, options, connector, ending, *address);
            within_limit(server, options, by_own).await
        } else {
            let one = at(server, address);
            within_limit(server, options, by_drivers_socket(&one, options, connector)).await
        };
        match connected {
            Ok(connected) => return Ok(connected),
            Err(error) => failed = Some(more_specific(failed, error)),
        }
    }
    let none = io::Error::other("its name has no address");
    Err(failed.unwrap_or_else(|| unreachable(options, &none)))
}

/// The driver's own timeout covers the first bytes only; a server may also stop in the middle of its
/// greeting.
async fn within_limit<T>(
    server: &Config,
    options: &Options,
    connecting: impl Future<Output = Result<T, OpenError>>,
) -> Result<T, OpenError> {
    let limit = server.get_connect_timeout().copied().unwrap_or(Duration::MAX);
    let connected = timeout(limit, connecting).await;
    connected.unwrap_or_else(|_| Err(OpenError::timed_out(options, limit)))
}

/// The server with one of its addresses, for the driver. It has its port already.
fn at(server: &Config, address: &SocketAddr) -> Config {
    let mut one = server.clone();
    if one.get_hostaddrs().is_empty() {
        one.hostaddr(address.ip());
    }
    one
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
    address: SocketAddr,
) -> Result<(Client, Driver), OpenError> {
    let host = name_and_port(server).map_or("", |(host, _)| host);
    let stream = TcpStream::connect(address).await;
    let stream = stream.and_then(|stream| prepare(server, &stream).map(|()| stream));
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

/// The addresses of a server, in the order in which they are tried.
async fn addresses(server: &Config, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Some(address) = server.get_hostaddrs().first() {
        return Ok(vec![(*address, port).into()]);
    }
    let mut addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if is_random(server) {
        addresses.shuffle(&mut rand::rng());
    }
    Ok(addresses)
}

/// Sets the options that the driver sets on its own sockets.
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

/// Checks that the server is of the kind that the address demands (`target_session_attrs`).
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
    let (server, what) = (options.to_string(), format!("error connecting to server: {error}"));
    if is_exhausted(error) {
        return OpenError::Exhausted { server, what };
    }
    OpenError::Unreachable { server, what }
}

#[cfg(test)]
mod tests {
    use semel_testserver::Postgres;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// The failure of a server after it accepts a connection.
    #[derive(Clone, Copy, Debug)]
    enum Failure {
        /// It closes the connection.
        Closes,
        /// It is starting up.
        Starts,
        /// It sends nothing.
        Unresponsive,
    }

    /// A server at another address of this machine, at the same port.
    async fn other(port: u16, failure: Failure) -> SocketAddr {
        let address = SocketAddr::from(([127, 0, 0, 11 + failure as u8], port));
        let listener = TcpListener::bind(address).await.unwrap();
        tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                match failure {
                    Failure::Closes => {}
                    Failure::Starts => {
                        let mut greeting = [0; 512];
                        let _ = stream.read(&mut greeting).await;
                        let _ =
                            stream.write_all(b"E\0\0\0\x1eSFATAL\0C57P03\0Mstarts up\0\0").await;
                    }
                    Failure::Unresponsive => held.push(stream),
                }
            }
        });
        address
    }

    /// Regression: a name whose first address accepted the connection and then refused it was tried no
    /// further.
    #[tokio::test]
    async fn every_address_of_a_name_is_tried_to_the_end() {
        let server = Postgres::shared();
        let url = format!("{}?sslmode=disable&connect_timeout=2", server.url());
        let options = Options::from_url(&url).unwrap();
        let connector = tls::connector(&options.tls).unwrap();
        let right: SocketAddr = ([127, 0, 0, 1], server.port()).into();
        for failure in [Failure::Closes, Failure::Starts, Failure::Unresponsive] {
            let addresses = [other(server.port(), failure).await, right];
            for ending in [None, Some(&Ending::default())] {
                let one = &options.servers[0];
                let connected = connect_to_any(one, &addresses, &options, &connector, ending).await;
                let (client, driver) = connected.expect("the second address");
                tokio::spawn(driver);
                client.simple_query("SELECT 1").await.expect("an answer");
            }
        }
    }

    /// A specific failure is kept if another address cannot even be reached.
    #[tokio::test]
    async fn the_more_specific_failure_is_kept() {
        let server = Postgres::shared();
        let url = server.url().replace(server.password(), "hunter2");
        let options = Options::from_url(&url).unwrap();
        let connector = tls::connector(&options.tls).unwrap();
        let right: SocketAddr = ([127, 0, 0, 1], server.port()).into();
        let unused: SocketAddr = ([127, 0, 0, 3], server.port()).into();
        let one = &options.servers[0];
        let connected = connect_to_any(one, &[right, unused], &options, &connector, None).await;
        assert!(matches!(connected.map(drop), Err(OpenError::Refused { .. })));
    }
}
