//! A connection on which channels are listened to.

use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisError, Value,
};
use semel_socket::Ending;
use tokio::task::AbortHandle;

use super::{Dial, in_time};
use crate::error::OpenError;
use crate::url::Endpoint;

/// News come by themselves, between answers. Only the later protocol tells them apart.
#[derive(Debug)]
pub(crate) struct Hearing {
    wire: MultiplexedConnection,
    driver: AbortHandle,
}

// === impl Hearing ===

impl Hearing {
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.wire.clone().send_packed_command(command).await
    }

    /// Asks several questions at once. Each answer may be an error.
    pub(crate) async fn ask_all(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let count = commands.len();
        self.wire.clone().send_packed_commands(commands, 0, count).await
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        // A server that is silent would keep it open.
        self.driver.abort();
    }
}

// === impl Dial ===

impl Dial {
    /// Connects, and logs in, to hear what is told on channels.
    pub(crate) async fn connect_hearing(
        &self,
        to: &Endpoint,
        pushes: impl AsyncPushSender,
    ) -> Result<Hearing, OpenError> {
        let connecting = async {
            // Nothing is claimed here.
            let stream = self.reach(to, &Ending::default()).await?;
            let config = AsyncConnectionConfig::new()
                // Whoever asks has a limit of its own.
                .set_response_timeout(None)
                .set_connection_timeout(None)
                .set_push_sender(pushes);
            let made = MultiplexedConnection::new_with_config(&self.info(), stream, config).await;
            let (wire, driver) = made.map_err(|error| OpenError::said(to, &error))?;
            Ok(Hearing { wire, driver: tokio::spawn(driver).abort_handle() })
        };
        in_time(to, self.limit, connecting).await
    }

    fn info(&self) -> RedisConnectionInfo {
        let mut info = RedisConnectionInfo::default()
            .set_db(self.database)
            .set_lib_name("semel", env!("CARGO_PKG_VERSION"))
            .set_protocol(ProtocolVersion::RESP3);
        if let Some(user) = &self.login.user {
            info = info.set_username(user);
        }
        if let Some(password) = &self.login.password {
            info = info.set_password(password);
        }
        info
    }
}
