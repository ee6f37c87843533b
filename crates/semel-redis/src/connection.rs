//! One connection to one server.

mod pub_sub;

use std::time::Duration;

use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};
use rustix::net::sockopt;
use semel_socket::{Ending, Socket};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};

use crate::Options;
use crate::error::{Failure, OpenError};
use crate::script::{Call, SCRIPTS};
use crate::tls::TlsClient;
use crate::url::{Endpoint, Login};
use crate::wire::{CallError, Wire};

pub(crate) use pub_sub::PubSubConnection;

/// A pipelined connection: concurrent commands are sent together, and replies come back in order.
///
/// It is closed when its last user drops it.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: Wire,
}

/// The settings of new connections.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    pub(crate) login: Login,
    pub(crate) database: i64,
    pub(crate) tls: Option<TlsClient>,
    pub(crate) limit: Duration,
}

/// The settings of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallOptions {
    pub(crate) deadline: Instant,
    /// The number of replicas that must acknowledge its writes.
    pub(crate) replicas: u32,
    /// The key is migrating to this server, which must get `ASKING` first.
    pub(crate) asking: bool,
}

/// A byte stream: TCP, TLS or a socket.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

const KEEPALIVE: Duration = Duration::from_secs(15);

// === impl Options ===

impl Options {
    /// The settings of connections to servers.
    pub(crate) fn connector(&self) -> Connector {
        Connector {
            login: self.address.login.clone(),
            database: self.address.database,
            tls: self.tls.clone(),
            limit: self.connect_timeout,
        }
    }

    /// The settings of connections to sentinels.
    pub(crate) fn sentinel_connector(&self) -> Connector {
        Connector { login: self.address.sentinel_login.clone(), database: 0, ..self.connector() }
    }
}

// === impl Connector ===

impl Connector {
    /// Connects and authenticates.
    pub(crate) async fn connect(&self, to: &Endpoint) -> Result<Connection, OpenError> {
        let connecting = async {
            let ending = Ending::default();
            let stream = self.stream(to, &ending).await?;
            let connection = Connection { wire: Wire::new(stream, ending) };
            self.log_in(to, &connection).await?;
            Ok(connection)
        };
        within_limit(to, self.limit, connecting).await
    }

    /// A stream to the server, which ends as `ending` says. On a Unix socket nothing is in transit.
    async fn stream(&self, to: &Endpoint, ending: &Ending) -> Result<Box<dyn Stream>, OpenError> {
        match to {
            Endpoint::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                let stream = stream.map_err(|error| OpenError::io(to, &error))?;
                prepare(&stream).map_err(|error| OpenError::io(to, &error))?;
                let stream = Socket::new(stream, ending.clone());
                Ok(match &self.tls {
                    None => Box::new(stream),
                    Some(tls) => {
                        let stream = tls.wrap(host, stream).await;
                        Box::new(stream.map_err(|what| OpenError::Tls { what })?)
                    }
                })
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                Ok(Box::new(stream.map_err(|error| OpenError::io(to, &error))?))
            }
        }
    }

    async fn log_in(&self, to: &Endpoint, connection: &Connection) -> Result<(), OpenError> {
        // Alone: a server with too many clients replies to the first command and closes.
        let first = match &self.login.password {
            Some(password) => {
                let mut auth = redis::cmd("AUTH");
                auth.arg(&self.login.user).arg(password);
                auth
            }
            None => named("LIB-NAME", "semel"),
        };
        let replied = connection.send(&first).await.and_then(Value::extract_error);
        match replied.map_err(|error| OpenError::reported(to, &error)) {
            Err(OpenError::Server { server, what }) if self.login.password.is_some() => {
                return Err(OpenError::Refused { server, what });
            }
            // Some servers do not know CLIENT SETINFO.
            Err(OpenError::Server { .. } | OpenError::Forbidden { .. }) | Ok(_) => {}
            Err(error) => return Err(error),
        }
        let mut rest = redis::pipe();
        if self.database != 0 {
            rest.cmd("SELECT").arg(self.database);
        }
        rest.add_command(named("LIB-NAME", "semel"));
        rest.add_command(named("LIB-VER", env!("CARGO_PKG_VERSION")));
        let answers = connection.send_all(&rest).await;
        let answers = answers.map_err(|error| OpenError::reported(to, &error))?;
        if let (Some(selected), true) = (answers.into_iter().next(), self.database != 0) {
            selected.extract_error().map_err(|error| OpenError::reported(to, &error))?;
        }
        Ok(())
    }
}

async fn within_limit<T>(
    to: &Endpoint,
    limit: Duration,
    connecting: impl Future<Output = Result<T, OpenError>>,
) -> Result<T, OpenError> {
    match timeout(limit, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(OpenError::timed_out(to, limit)),
    }
}

/// Sets our library name in the server's client list.
fn named(what: &str, name: &str) -> Cmd {
    let mut command = redis::cmd("CLIENT");
    command.arg("SETINFO").arg(what).arg(name);
    command
}

/// For many small requests with one reply each, and for long idle times, in which a middlebox may drop
/// the connection.
fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE)?;
    Ok(())
}

// === impl Connection ===

impl Connection {
    pub(crate) fn is_open(&self) -> bool {
        self.wire.is_open()
    }

    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.wire.send(|out| command.write_packed_command(out)).await
    }

    /// Sends several commands at once. Each reply may be an error.
    pub(crate) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let write = |out: &mut Vec<u8>| out.extend(commands.get_packed_pipeline());
        self.wire.send_all(commands.len(), write).await
    }

    /// Loads the scripts.
    pub(crate) async fn load(&self) -> Result<(), RedisError> {
        for answer in self.send_all(&SCRIPTS.load()).await? {
            answer.extract_error()?;
        }
        Ok(())
    }

    /// Calls a script by its hash, and by its text if the server does not know it.
    pub(crate) async fn call(
        &self,
        call: &Call<'_>,
        options: CallOptions,
    ) -> Result<Value, Failure> {
        if options.asking {
            return Box::pin(self.call_asking(call, options)).await;
        }
        let (deadline, bytes) = (options.deadline, call.bytes());
        let sent = self.wire.send_before(deadline, bytes, |out| call.write_by_hash(out));
        match reply_of(sent.await) {
            Err(Failure::Refused(error)) if is_unknown_script(&error) => {
                let write = |out: &mut Vec<u8>| call.write_with_text(out);
                reply_of(Box::pin(self.wire.send_before(deadline, bytes, write)).await)
            }
            answer => answer,
        }
    }

    /// The same for a key that is migrating to this server. In one batch, so that no other command comes
    /// between.
    async fn call_asking(&self, call: &Call<'_>, options: CallOptions) -> Result<Value, Failure> {
        let write = |out: &mut Vec<u8>| {
            redis::cmd("ASKING").write_packed_command(out);
            call.write_with_text(out);
        };
        let sent = self.wire.send_batch(Some(options.deadline), 2, write).await;
        reply_of(sent.map(|mut answers| answers.pop().unwrap_or(Value::Nil)))
    }

    /// Waits until the replicas have all earlier writes of this connection; returns how many have. Needs
    /// an exclusive connection: other commands would wait as well.
    pub(crate) async fn wait(&self, replicas: u32, limit: Duration) -> Result<u32, RedisError> {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(millis);
        Ok(redis::from_redis_value(self.send(&wait).await?.extract_error()?)?)
    }
}

fn reply_of(sent: Result<Value, CallError>) -> Result<Value, Failure> {
    match sent {
        Ok(answer) => answer.extract_error().map_err(Failure::of),
        Err(CallError::Broken(error)) => Err(Failure::Broken(error)),
        Err(CallError::QueueFull) => Err(Failure::QueueFull),
        Err(CallError::Timeout) => Err(Failure::Timeout),
    }
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
