//! What the gateway knows of a request beside its message.

use std::sync::Arc;

use super::upgrade::Upgrade;
use crate::client::{Activity, InWork};

/// The context of one request. The server hands it to the proxy that it calls through the layer: an extension of the
/// request would be an allocation of a map for each.
pub(crate) struct RequestContext {
    /// The activity of the client while it sends the request's body.
    pub(crate) activity: Arc<Activity>,
    /// Counts the request until its reply has been read. `None` for a request that may become a tunnel: that is no
    /// execution that its connection leaves behind.
    pub(crate) in_work: Option<Arc<InWork>>,
    /// Set if the client asks for a tunnel and may have one.
    pub(crate) upgrade: Option<Upgrade>,
}
