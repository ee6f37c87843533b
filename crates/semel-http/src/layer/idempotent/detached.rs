//! The handler's task, which runs to its end if the client disconnects.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use semel_engine::{EngineError, QuotaPermit};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tower_service::Service;
use tracing::Instrument as _;

use super::layer::Shared;
use super::{IdempotentRequest, Inner};
use crate::layer::admit::{Admitted, Ready};
use crate::layer::execute::call;
use crate::layer::routing::RoutedRequest;
use crate::layer::{BoxError, RequestBody, ResponseBody};
use crate::observe::Decided;

/// The permits of a request in its handler.
type Permits = (OwnedSemaphorePermit, Option<QuotaPermit>);

// === impl Shared ===

impl Shared {
    /// Admits the request and has its handler execute it.
    pub(super) async fn execute<I, B, R>(
        self: Arc<Self>,
        inner: I,
        routed: RoutedRequest<B>,
    ) -> Result<Response<ResponseBody<R>>, I::Error>
    where
        I: Service<Request<RequestBody<B>>, Response = Response<R>> + Send + 'static,
        I::Error: Send + 'static,
        I::Future: Send + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
        R: Send + 'static,
    {
        let RoutedRequest { route, need, key, request } = routed;
        let version = request.version();
        let ready = match self.admission.admit(&route, need, key, request).await {
            Ok(Admitted::Ready(ready)) => ready,
            Ok(Admitted::Pass(request)) => {
                return Ok(call(inner, request).await?.map(ResponseBody::passed));
            }
            Err(refused) => return Ok(refused.answer(&route, version)),
        };
        let Ready { mut request, id, fingerprint, quota } = ready;
        let (budget, own) = (self.admission.budget.clone(), Mutex::default());
        // The time in which the client sent its body is not counted.
        let began = Instant::now();
        let attempt = IdempotentRequest(Arc::new(Inner {
            route,
            id,
            fingerprint,
            began,
            version,
            budget,
            own,
        }));
        let Ok(slot) = self.executions.clone().try_acquire_owned() else {
            let max = self.executions_max;
            return Ok(attempt.refused(&EngineError::TooManyExecutions { max }));
        };
        let permit = match quota.map(|quota| self.quotas.take(quota)).transpose() {
            Ok(permit) => permit,
            Err(over) => return Ok(attempt.refused(&EngineError::TooManyKeys(over))),
        };
        request.extensions_mut().insert(attempt.clone());
        attempt.detached(inner, request, (slot, permit)).await
    }
}

// === impl IdempotentRequest ===

impl IdempotentRequest {
    /// Calls the handler in a task of its own, which a client that hangs up does not end.
    async fn detached<I, B, R>(
        &self,
        inner: I,
        request: Request<RequestBody<B>>,
        permits: Permits,
    ) -> Result<Response<ResponseBody<R>>, I::Error>
    where
        I: Service<Request<RequestBody<B>>, Response = Response<R>> + Send + 'static,
        I::Error: Send + 'static,
        I::Future: Send + 'static,
        B: Send + 'static,
        R: Send + 'static,
    {
        let execution = async move {
            let _permits = permits;
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
