//! The response for a recorded reply.

use std::sync::Arc;

use http::{Response, header};
use semel_core::Reply;

use super::ResponseBody;
use super::body::Read;
use super::body_budget::BodyBudget;
use crate::headers;
use crate::stored_reply::{PackedReply, StoredBody, StoredReply, StoredReplyError};

/// Why a stored reply is not returned.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReplayError {
    #[error(transparent)]
    Unreadable(#[from] StoredReplyError),
    /// It exceeds the memory budget of bodies.
    #[error(
        "the recorded reply exceeds the memory limit of bodies while so many are being sent; \
         nothing was executed"
    )]
    OverBudget,
}

/// The recorded reply of another execution, if it fits the budget.
pub(crate) fn replay<R>(
    reply: &Reply,
    budget: &Arc<BodyBudget>,
) -> Result<Response<ResponseBody<R>>, ReplayError> {
    let packed = PackedReply::decode(reply.bytes())?;
    let mut read = Read::within(budget);
    // Before it is unpacked: a small record can make a large body.
    if !read.reserve(packed.body.len()) {
        return Err(ReplayError::OverBudget);
    }
    Ok(response(packed.unpack()?, read))
}

/// The recorded reply of this attempt's own execution. It is never refused over the budget: the
/// problem would say that nothing was executed.
pub(crate) fn own<R>(
    reply: &Reply,
    budget: &Arc<BodyBudget>,
) -> Result<Response<ResponseBody<R>>, ReplayError> {
    let packed = PackedReply::decode(reply.bytes())?;
    let mut read = Read::within(budget);
    read.reserve(packed.body.len());
    Ok(response(packed.unpack()?, read))
}

fn response<R>(reply: StoredReply, mut read: Read) -> Response<ResponseBody<R>> {
    let StoredReply { status, mut headers, body, mut trailers } = reply;
    match body {
        StoredBody::Kept(body) => read.push(body),
        StoredBody::Omitted => {
            // The length is that of the omitted body.
            headers.remove(header::CONTENT_LENGTH);
            headers.insert(headers::BODY, headers::OMITTED);
        }
    }
    if !trailers.is_empty() {
        // Records of earlier versions have all trailers.
        headers::clean_trailers(&mut trailers);
        read.end(trailers);
    }
    let mut response = Response::new(ResponseBody::read(read));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    /// The response that is made of a stored reply.
    fn replayed(
        bytes: Bytes,
        budget: &Arc<BodyBudget>,
    ) -> Result<Response<ResponseBody<Full<Bytes>>>, ReplayError> {
        replay(&Reply::new(bytes), budget)
    }

    fn encoded(body: Vec<u8>) -> Bytes {
        let (headers, body) = (HeaderMap::new(), StoredBody::Kept(body.into()));
        StoredReply::new(StatusCode::OK, headers, body, HeaderMap::new(), false).encode()
    }

    #[tokio::test]
    async fn a_replay_counts_until_its_body_is_sent() {
        let noise: Vec<u8> =
            (0..2_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
        for body in [vec![b'a'; 8_000], noise] {
            let budget = BodyBudget::new(8_000);
            let bytes = encoded(body.clone());
            let mut response = replayed(bytes.clone(), &budget).unwrap();
            assert_eq!(budget.used(), 8_000);
            assert_eq!(replayed(bytes.clone(), &budget).unwrap_err(), ReplayError::OverBudget);
            let sent = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
            drop(response);
            assert_eq!((&sent[..], budget.used()), (&body[..], 8_000));
            drop(sent);
            assert!(budget.used() == 0 && replayed(bytes, &budget).is_ok());
        }
    }

    #[test]
    fn an_own_reply_is_returned_over_budget_too() {
        let (budget, bytes) = (BodyBudget::new(8_000), encoded(vec![b'a'; 8_000]));
        let given = || own::<Full<Bytes>>(&Reply::new(bytes.clone()), &budget).unwrap();
        let both = [given(), given()];
        assert_eq!(budget.used(), 8_000);
        drop(both);
        assert_eq!(budget.used(), 0);
    }

    /// A block that cannot be unpacked shows whether that was tried.
    #[test]
    fn a_replay_is_not_unpacked_before_it_fits_the_budget() {
        let mut bytes = encoded(vec![b'a'; 100_000]).to_vec();
        bytes.pop();
        let bytes = Bytes::from(bytes);
        assert_eq!(
            replayed(bytes.clone(), &BodyBudget::new(99_999)).unwrap_err(),
            ReplayError::OverBudget
        );
        let error = replayed(bytes, &BodyBudget::new(100_000)).unwrap_err();
        assert!(matches!(error, ReplayError::Unreadable(_)), "{error:?}");
    }
}
