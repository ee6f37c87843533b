//! One connection to one server.

mod hearing;

use std::time::Duration;

use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};
use rustix::net::sockopt;
use semel_socket::{Ending, Socket};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::error::{Failure, OpenError};
use crate::script::{Call, SCRIPTS};
use crate::server::Terms;
use crate::tls::Secure;
use crate::url::{Endpoint, Login};
use crate::wire::{Unanswered, Wire};

pub(crate) use hearing::Hearing;

/// A connection that many share: what they send goes out together, and answers come back in order.
///
/// It is closed when the last who uses it lets go of it.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: Wire,
}

/// How a connection is made.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) login: Login,
    pub(crate) database: i64,
    pub(crate) secure: Option<Secure>,
    pub(crate) limit: Duration,
}

/// Where the bytes go.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

const KEEPALIVE: Duration = Duration::from_secs(15);

// === impl Dial ===

impl Dial {
    /// Connects, and logs in.
    pub(crate) async fn connect(&self, to: &Endpoint) -> Result<Connection, OpenError> {
        let connecting = async {
            let ending = Ending::default();
            let stream = self.reach(to, &ending).await?;
            let connection = Connection { wire: Wire::new(stream, ending) };
            self.log_in(to, &connection).await?;
            Ok(connection)
        };
        in_time(to, self.limit, connecting).await
    }

    /// A stream to the server, which ends as `ending` says. A local one has nothing on its way.
    async fn reach(&self, to: &Endpoint, ending: &Ending) -> Result<Box<dyn Stream>, OpenError> {
        match to {
            Endpoint::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await;
                let stream = stream.map_err(|error| OpenError::io(to, &error))?;
                prepare(&stream).map_err(|error| OpenError::io(to, &error))?;
                let stream = Socket::new(stream, ending.clone());
                Ok(match &self.secure {
                    None => Box::new(stream),
                    Some(secure) => Box::new(secure.wrap(host, stream).await?),
                })
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await;
                Ok(Box::new(stream.map_err(|error| OpenError::io(to, &error))?))
            }
        }
    }

    async fn log_in(&self, to: &Endpoint, connection: &Connection) -> Result<(), OpenError> {
        // By itself: a server that has too many clients answers what is asked first, and is gone.
        let first = match &self.login.password {
            Some(password) => {
                let mut auth = redis::cmd("AUTH");
                auth.arg(&self.login.user).arg(password);
                auth
            }
            None => named("LIB-NAME", "semel"),
        };
        let answered = connection.ask(&first).await.and_then(Value::extract_error);
        match answered.map_err(|error| OpenError::said(to, &error)) {
            Err(OpenError::Server { server, what }) if self.login.password.is_some() => {
                return Err(OpenError::Refused { server, what });
            }
            // Not every server knows our names for ourselves, or cares.
            Err(OpenError::Server { .. } | OpenError::Forbidden { .. }) | Ok(_) => {}
            Err(error) => return Err(error),
        }
        let mut rest = redis::pipe();
        if self.database != 0 {
            rest.cmd("SELECT").arg(self.database);
        }
        rest.add_command(named("LIB-NAME", "semel"));
        rest.add_command(named("LIB-VER", env!("CARGO_PKG_VERSION")));
        let answers = connection.ask_all(&rest).await;
        let answers = answers.map_err(|error| OpenError::said(to, &error))?;
        if let (Some(selected), true) = (answers.into_iter().next(), self.database != 0) {
            selected.extract_error().map_err(|error| OpenError::said(to, &error))?;
        }
        Ok(())
    }
}

async fn in_time<T>(
    to: &Endpoint,
    limit: Duration,
    connecting: impl Future<Output = Result<T, OpenError>>,
) -> Result<T, OpenError> {
    match timeout(limit, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(OpenError::silent(to, limit)),
    }
}

/// Says who we are, for whoever looks at the server's clients.
fn named(what: &str, name: &str) -> Cmd {
    let mut command = redis::cmd("CLIENT");
    command.arg("SETINFO").arg(what).arg(name);
    command
}

/// Many small questions, each waited for; and long silences, in which somebody between us and the server
/// may forget the connection.
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

    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.wire.ask(|outbox| command.write_packed_command(outbox)).await
    }

    /// Asks several questions at once. Each answer may be an error.
    pub(crate) async fn ask_all(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let write = |outbox: &mut Vec<u8>| outbox.extend(commands.get_packed_pipeline());
        self.wire.ask_all(commands.len(), write).await
    }

    /// Loads the scripts.
    pub(crate) async fn load(&self) -> Result<(), RedisError> {
        for answer in self.ask_all(&SCRIPTS.load()).await? {
            answer.extract_error()?;
        }
        Ok(())
    }

    /// Calls a script. A server that has forgotten it is told it again.
    pub(crate) async fn call(&self, call: &Call<'_>, terms: Terms) -> Result<Value, Failure> {
        if terms.asking {
            return Box::pin(self.call_asking(call, terms)).await;
        }
        let (deadline, bytes) = (terms.deadline, call.bytes());
        let asked = self.wire.ask_until(deadline, bytes, |outbox| call.write_by_hash(outbox));
        match answer_of(asked.await) {
            Err(Failure::Refused(error)) if is_unknown_script(&error) => {
                let write = |outbox: &mut Vec<u8>| call.write_with_text(outbox);
                answer_of(Box::pin(self.wire.ask_until(deadline, bytes, write)).await)
            }
            answer => answer,
        }
    }

    /// The same for a key that is on its way here. One message: nobody gets in between.
    async fn call_asking(&self, call: &Call<'_>, terms: Terms) -> Result<Value, Failure> {
        let write = |outbox: &mut Vec<u8>| {
            redis::cmd("ASKING").write_packed_command(outbox);
            call.write_with_text(outbox);
        };
        let asked = self.wire.ask_together(Some(terms.deadline), 2, write).await;
        answer_of(asked.map(|mut answers| answers.pop().unwrap_or(Value::Nil)))
    }

    /// How many replicas have all that was written before on this connection, or at least so many. Nobody
    /// else may use it meanwhile: they would wait as well.
    pub(crate) async fn wait(&self, replicas: u32, limit: Duration) -> Result<u32, RedisError> {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(millis);
        Ok(redis::from_redis_value(self.ask(&wait).await?.extract_error()?)?)
    }
}

fn answer_of(asked: Result<Value, Unanswered>) -> Result<Value, Failure> {
    match asked {
        Ok(answer) => answer.extract_error().map_err(Failure::of),
        Err(Unanswered::Broken(error)) => Err(Failure::Broken(error)),
        Err(Unanswered::Crowded) => Err(Failure::Crowded),
        Err(Unanswered::Late) => Err(Failure::Silent),
    }
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
