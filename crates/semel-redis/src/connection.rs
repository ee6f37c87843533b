//! One connection to one server.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, Pipeline, ProtocolVersion, RedisConnectionInfo,
    RedisError, ServerErrorKind, Value,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::error::{Failure, OpenError};
use crate::script::{Call, SCRIPTS};
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
    pub(crate) limit: Duration,
}

/// How many replicas must have a write, and how long they are waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) replicas: u32,
    pub(crate) limit: Duration,
}

/// Where the bytes go.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Wire for T {}

/// How many verbs may wait to be sent on one connection before the next has to wait (I10).
const QUEUE: usize = 1_024;

// === impl Dial ===

impl Dial {
    /// Connects, and logs in.
    pub(crate) async fn connect(&self, to: &Endpoint) -> Result<Connection, OpenError> {
        let connecting = async {
            match to {
                Endpoint::Tcp { host, port } => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await;
                    let stream = stream.map_err(|error| OpenError::io(to, &error))?;
                    // Many small questions, each waited for.
                    stream.set_nodelay(true).map_err(|error| OpenError::io(to, &error))?;
                    self.greet(to, stream).await
                }
                Endpoint::Unix(path) => {
                    let stream = UnixStream::connect(path).await;
                    self.greet(to, stream.map_err(|error| OpenError::io(to, &error))?).await
                }
            }
        };
        match timeout(self.limit, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(OpenError::silent(to, self.limit)),
        }
    }

    async fn greet(&self, to: &Endpoint, wire: impl Wire) -> Result<Connection, OpenError> {
        let config = AsyncConnectionConfig::new()
            // Whoever asks has a limit of its own.
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let made = MultiplexedConnection::new_with_config(&self.info(), wire, config).await;
        let (wire, driver) = made.map_err(|error| OpenError::said(to, &error))?;
        Ok(Connection { wire, driver: tokio::spawn(driver).abort_handle() })
    }

    fn info(&self) -> RedisConnectionInfo {
        let mut info = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP2)
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

// === impl Connection ===

impl Connection {
    pub(crate) fn is_open(&self) -> bool {
        !self.driver.is_finished()
    }

    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.wire.clone().send_packed_command(command).await
    }

    /// Asks several questions at once. The first that is refused is the answer to all.
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
            Err(error) if is_unknown_script(&error) => self.send(call.by_text(), asking).await,
            answer => answer,
        }
        .map_err(Failure::of)
    }

    /// The same, and then waits until so many replicas have all that was written before on this
    /// connection. Nobody else may use it meanwhile: they would wait as well.
    pub(crate) async fn call_and_wait(
        &self,
        call: &Call<'_>,
        asking: bool,
        wait: Wait,
    ) -> Result<(Value, u32), Failure> {
        match self.send_and_wait(call.by_hash(), asking, wait).await {
            Err(error) if is_unknown_script(&error) => {
                self.send_and_wait(call.by_text(), asking, wait).await
            }
            answer => answer,
        }
        .map_err(Failure::of)
    }

    async fn send(&self, call: Cmd, asking: bool) -> Result<Value, RedisError> {
        if !asking {
            return self.ask(&call).await?.extract_error();
        }
        let mut commands = redis::pipe();
        commands.cmd("ASKING").add_command(call);
        let [_, answer] = self.ask_some(&commands).await?;
        answer.extract_error()
    }

    async fn send_and_wait(
        &self,
        call: Cmd,
        asking: bool,
        wait: Wait,
    ) -> Result<(Value, u32), RedisError> {
        let millis = u64::try_from(wait.limit.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut commands = redis::pipe();
        // Of no use to a server that has the key, and of no harm.
        commands.cmd(if asking { "ASKING" } else { "PING" });
        commands.add_command(call).cmd("WAIT").arg(wait.replicas).arg(millis);
        let [_, answer, have] = self.ask_some(&commands).await?;
        let answer = answer.extract_error()?;
        Ok((answer, redis::from_redis_value(have.extract_error()?)?))
    }

    /// Asks so many questions at once.
    async fn ask_some<const N: usize>(
        &self,
        commands: &Pipeline,
    ) -> Result<[Value; N], RedisError> {
        let answers = self.ask_all(commands).await?;
        let answers = <[Value; N]>::try_from(answers);
        answers.map_err(|_| RedisError::from((ErrorKind::Parse, "not an answer to each question")))
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
