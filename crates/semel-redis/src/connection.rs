//! One connection to one server.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, ProtocolVersion, PushInfo,
    RedisConnectionInfo, RedisError, ServerErrorKind, Value,
};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::error::{Failure, OpenError};
use crate::script::{Call, SCRIPTS};
use crate::tls::Secure;
use crate::url::{Endpoint, Login};

/// A connection that many share: what they send goes out together, and answers come back in order.
///
/// It is closed when the last who uses it lets go of it.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: MultiplexedConnection,
    driver: AbortHandle,
}

/// How a connection is made.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) login: Login,
    pub(crate) database: i64,
    pub(crate) secure: Option<Secure>,
    pub(crate) limit: Duration,
}

/// Where news go, if there are any to be heard.
type Pushes = Option<UnboundedSender<PushInfo>>;

/// Where the bytes go.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Wire for T {}

/// How many verbs may wait to be sent on one connection before the next has to wait (I10).
const QUEUE: usize = 1_024;
const KEEPALIVE: Duration = Duration::from_secs(15);

// === impl Dial ===

impl Dial {
    /// Connects, and logs in.
    pub(crate) async fn connect(&self, to: &Endpoint) -> Result<Connection, OpenError> {
        self.open(to, None).await
    }

    /// The same for a connection on which channels are listened to.
    pub(crate) async fn connect_hearing(
        &self,
        to: &Endpoint,
        pushes: UnboundedSender<PushInfo>,
    ) -> Result<Connection, OpenError> {
        self.open(to, Some(pushes)).await
    }

    async fn open(&self, to: &Endpoint, pushes: Pushes) -> Result<Connection, OpenError> {
        let connecting = async {
            match to {
                Endpoint::Tcp { host, port } => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await;
                    let stream = stream.map_err(|error| OpenError::io(to, &error))?;
                    prepare(&stream).map_err(|error| OpenError::io(to, &error))?;
                    match &self.secure {
                        None => self.greet(to, stream, pushes).await,
                        Some(secure) => {
                            self.greet(to, secure.wrap(host, stream).await?, pushes).await
                        }
                    }
                }
                Endpoint::Unix(path) => {
                    let stream = UnixStream::connect(path).await;
                    let stream = stream.map_err(|error| OpenError::io(to, &error))?;
                    self.greet(to, stream, pushes).await
                }
            }
        };
        match timeout(self.limit, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(OpenError::silent(to, self.limit)),
        }
    }

    async fn greet(
        &self,
        to: &Endpoint,
        wire: impl Wire,
        pushes: Pushes,
    ) -> Result<Connection, OpenError> {
        // News are not answers, and only the later protocol tells them apart. With the other we log in
        // ourselves: the driver would call every refusal one of the password.
        let hears = pushes.is_some();
        let info = if hears {
            self.info().set_protocol(ProtocolVersion::RESP3)
        } else {
            let nobody = RedisConnectionInfo::default().set_skip_set_lib_name();
            nobody.set_protocol(ProtocolVersion::RESP2)
        };
        let mut config = AsyncConnectionConfig::new()
            // Whoever asks has a limit of its own.
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        if let Some(pushes) = pushes {
            config = config.set_push_sender(pushes);
        }
        let made = MultiplexedConnection::new_with_config(&info, wire, config).await;
        let (wire, driver) = made.map_err(|error| OpenError::said(to, &error))?;
        let connection = Connection { wire, driver: tokio::spawn(driver).abort_handle() };
        if !hears {
            self.log_in(to, &connection).await?;
        }
        Ok(connection)
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

    fn info(&self) -> RedisConnectionInfo {
        let mut info = RedisConnectionInfo::default()
            .set_db(self.database)
            .set_lib_name("semel", env!("CARGO_PKG_VERSION"));
        if let Some(user) = &self.login.user {
            info = info.set_username(user);
        }
        if let Some(password) = &self.login.password {
            info = info.set_password(password);
        }
        info
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
        !self.driver.is_finished()
    }

    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.wire.clone().send_packed_command(command).await
    }

    /// Asks several questions at once. Each answer may be an error.
    pub(crate) async fn ask_all(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let count = commands.len();
        self.wire.clone().send_packed_commands(commands, 0, count).await
    }

    /// Loads the scripts.
    pub(crate) async fn load(&self) -> Result<(), RedisError> {
        for answer in self.ask_all(&SCRIPTS.load()).await? {
            answer.extract_error()?;
        }
        Ok(())
    }

    /// Calls a script. A server that has forgotten it is told it again.
    pub(crate) async fn call(&self, call: &Call<'_>, asking: bool) -> Result<Value, Failure> {
        match self.send(call.by_hash(), asking).await {
            Err(error) if is_unknown_script(&error) => {
                Box::pin(self.send(call.by_text(), asking)).await
            }
            answer => answer,
        }
        .map_err(Failure::of)
    }

    /// How many replicas have all that was written before on this connection, or at least so many. Nobody
    /// else may use it meanwhile: they would wait as well.
    pub(crate) async fn wait(&self, replicas: u32, limit: Duration) -> Result<u32, RedisError> {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(millis);
        Ok(redis::from_redis_value(self.ask(&wait).await?.extract_error()?)?)
    }

    async fn send(&self, call: Cmd, asking: bool) -> Result<Value, RedisError> {
        if asking {
            return Box::pin(self.send_asking(call)).await;
        }
        self.ask(&call).await?.extract_error()
    }

    async fn send_asking(&self, call: Cmd) -> Result<Value, RedisError> {
        let mut commands = redis::pipe();
        commands.cmd("ASKING").add_command(call);
        // One message: nobody gets in between.
        let last = self.ask_all(&commands).await?.pop();
        last.unwrap_or(Value::Nil).extract_error()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Nobody waits for an answer any more. A server that is silent would keep it open.
        self.driver.abort();
    }
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}
