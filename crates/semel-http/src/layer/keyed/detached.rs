//! A request on its way to a handler that claims by itself.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use semel_engine::EngineError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tower_service::Service;
use tracing::Instrument as _;

use super::layer::Shared;
use super::{Inner, Keyed};
use crate::layer::admit::{Admitted, Ready};
use crate::layer::arrival::Arrival;
use crate::layer::execute::call;
use crate::layer::{BoxError, RequestBody, ResponseBody};
use crate::observe::Decided;

// === impl Shared ===

impl Shared {
    /// Admits the request and has its handler execute it.
    pub(super) async fn execute<I, B, R>(
        self: Arc<Self>,
        inner: I,
        arrival: Arrival<B>,
    ) -> Result<Response<ResponseBody<R>>, I::Error>
    where
        I: Service<Request<RequestBody<B>>, Response = Response<R>> + Send + 'static,
        I::Error: Send + 'static,
        I::Future: Send + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
        R: Send + 'static,
    {
        let Arrival { route, need, key, request } = arrival;
        let version = request.version();
        let ready = match self.admission.admit(&route, need, key, request).await {
            Ok(Admitted::Ready(ready)) => ready,
            Ok(Admitted::Pass(request)) => {
                return Ok(call(inner, request).await?.map(ResponseBody::passed));
            }
            Err(refused) => return Ok(refused.answer(&route, version)),
        };
        let Ready { mut request, id, fingerprint } = ready;
        let (room, own) = (self.admission.room.clone(), Mutex::default());
        // What the client took to send its body is not ours.
        let began = Instant::now();
        let keyed = Keyed(Arc::new(Inner { route, id, fingerprint, began, version, room, own }));
        let Ok(slot) = self.executions.clone().try_acquire_owned() else {
            let max = self.executions_max;
            return Ok(keyed.refused(&EngineError::TooManyExecutions { max }));
        };
        request.extensions_mut().insert(keyed.clone());
        keyed.detached(inner, request, slot).await
    }
}

// === impl Keyed ===

impl Keyed {
    /// Calls the handler in a task of its own, which a client that hangs up does not end.
    async fn detached<I, B, R>(
        &self,
        inner: I,
        request: Request<RequestBody<B>>,
        slot: OwnedSemaphorePermit,
    ) -> Result<Response<ResponseBody<R>>, I::Error>
    where
        I: Service<Request<RequestBody<B>>, Response = Response<R>> + Send + 'static,
        I::Error: Send + 'static,
        I::Future: Send + 'static,
        B: Send + 'static,
        R: Send + 'static,
    {
        let execution = async move {
            let _slot = slot;
            call(inner, request).await
        };
        match tokio::spawn(Box::pin(execution).in_current_span()).await {
            Ok(Ok(response)) => Ok(response.map(ResponseBody::passed)),
            Ok(Err(error)) => {
                self.0.route.decided(Decided::Failed, Some(self.0.id), 0);
                Err(error)
            }
            // It panicked, or the runtime goes down: it may have been committed before.
            Err(_) => Ok(self.refused(&EngineError::Interrupted)),
        }
    }
}
