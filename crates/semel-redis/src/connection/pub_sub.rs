//! A connection that subscribes to channels.

use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisError, Value,
};
use semel_socket::Ending;
use tokio::task::AbortHandle;

use super::{Connector, within_limit};
use crate::error::OpenError;
use crate::url::Endpoint;

/// Pushed messages come between replies. Only RESP3 can distinguish them.
#[derive(Debug)]
pub(crate) struct PubSubConnection {
    wire: MultiplexedConnection,
    driver: AbortHandle,
}

// === impl PubSubConnection ===

impl PubSubConnection {
    pub(crate) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        self.wire.clone().send_packed_command(command).await
    }

    /// Sends several commands at once. Each reply may be an error.
    pub(crate) async fn send_all(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let count = commands.len();
        self.wire.clone().send_packed_commands(commands, 0, count).await
    }
}

impl Drop for PubSubConnection {
    fn drop(&mut self) {
        // An unresponsive server would keep the connection open.
        self.driver.abort();
    }
}

// === impl Connector ===

impl Connector {
    /// Connects and authenticates, for subscriptions.
    pub(crate) async fn connect_pub_sub(
        &self,
        to: &Endpoint,
        pushes: impl AsyncPushSender,
    ) -> Result<PubSubConnection, OpenError> {
        let connecting = async {
            // This connection makes no claims.
            let stream = self.stream(to, &Ending::default()).await?;
            let config = AsyncConnectionConfig::new()
                // Each caller has a timeout of its own.
                .set_response_timeout(None)
                .set_connection_timeout(None)
                .set_push_sender(pushes);
            let made = MultiplexedConnection::new_with_config(&self.info(), stream, config).await;
            let (wire, driver) = made.map_err(|error| OpenError::reported(to, &error))?;
            Ok(PubSubConnection { wire, driver: tokio::spawn(driver).abort_handle() })
        };
        within_limit(to, self.limit, connecting).await
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
