//! The engine's answer, as a response.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode, Version};
use semel_core::{InFlight, RecordId, Reply, Settlement, Timestamp};
use semel_engine::{Answer, EngineError, Stored};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ResponseBody;
use super::body::Read;
use super::execute::Live;
use super::protect::{close, refused_by_engine};
use super::room::Room;
use crate::headers;
use crate::observe::Decided;
use crate::policy::RoutePolicy;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::stored_reply::{PackedReply, StoredBody, StoredReply, StoredReplyError};

/// When to come again: executions rarely take longer, and their end cannot be foretold.
const RETRY_AFTER_S: u32 = 1;

/// Where an answer goes to.
pub(crate) struct Answered<'a> {
    pub(crate) route: Arc<Route>,
    pub(crate) id: RecordId,
    pub(crate) began: Instant,
    pub(crate) version: Version,
    pub(crate) room: &'a Arc<Room>,
}

/// Why a stored reply is not given.
#[derive(Debug, PartialEq, Eq)]
enum NoReplay {
    Unreadable(StoredReplyError),
    /// Too much is held for others.
    NoRoom,
}

// === impl Answered ===

impl Answered<'_> {
    /// The response for the client. `live` has what this attempt's own execution gave, if it
    /// executed.
    pub(crate) fn response<R, E>(
        self,
        answer: Result<Answer, EngineError>,
        mut live: oneshot::Receiver<Live<R, E>>,
    ) -> Result<Response<ResponseBody<R>>, E> {
        let live = live.try_recv().ok();
        self.route.timed(live.as_ref().map(|live| live.took), self.began.elapsed());
        let live = match live.map(|live| live.response).transpose() {
            Ok(live) => live,
            // The service itself failed: its caller gets that, unless another outcome counts (I4).
            Err(error) if own(&answer) => {
                self.route.decided(Decided::Failed, Some(self.id), 0);
                return Err(error);
            }
            Err(_) => None,
        };
        let (decided, response) = match answer {
            Ok(answer) => self.answered(answer, live),
            Err(error) => self.refused(&error),
        };
        self.route.decided(decided, Some(self.id), response.status().as_u16());
        Ok(response)
    }

    fn answered<R>(
        &self,
        answer: Answer,
        live: Option<Response<ResponseBody<R>>>,
    ) -> (Decided, Response<ResponseBody<R>>) {
        let policy = self.route.policy();
        match answer {
            Answer::Executed { expires, stored, .. } => {
                let mut response = live.unwrap_or_else(interrupted);
                let headers = response.headers_mut();
                if stored != Stored::Gone {
                    expire(headers, expires);
                }
                if stored == Stored::Durable {
                    return (Decided::Executed, response);
                }
                headers.insert(headers::STORED, headers::FALSE);
                (Decided::NotStored, response)
            }
            Answer::Released { .. } => (Decided::Released, live.unwrap_or_else(interrupted)),
            Answer::Replayed { settlement, expires } => {
                // The reply of a holder who was fenced off is not needed, nor is its room.
                drop(live);
                self.replay(&settlement, expires)
            }
            Answer::InFlight { .. } => (Decided::InFlight, in_flight(policy)),
            Answer::Mismatch => (Decided::Mismatch, mismatch(policy)),
            // Without a reply it is another's outcome that is unknown: a holder who was fenced off
            // does not answer with its own (I4).
            Answer::Unknown { reply } => {
                let own = live.filter(|_| reply.is_some());
                (Decided::Unknown, own.unwrap_or_else(unknown))
            }
            Answer::Bypassed { .. } => {
                let mut response = live.unwrap_or_else(interrupted);
                response.headers_mut().insert(headers::BYPASSED, headers::TRUE);
                (Decided::Bypassed, response)
            }
        }
    }

    fn refused<R>(&self, error: &EngineError) -> (Decided, Response<ResponseBody<R>>) {
        let (decided, problem) = refused_by_engine(error);
        let mut response = problem.into_response();
        if matches!(error, EngineError::ShuttingDown) {
            close(response.headers_mut(), self.version);
        }
        (decided, response)
    }

    /// The recorded outcome, once more.
    fn replay<R>(
        &self,
        settlement: &Settlement,
        expires: Timestamp,
    ) -> (Decided, Response<ResponseBody<R>>) {
        let stored = settlement.reply().map(|reply| stored(reply, self.room)).transpose();
        let mut response = match stored {
            Ok(stored) => stored.unwrap_or_else(abandoned),
            Err(why) => return self.not_replayed(&why),
        };
        let headers = response.headers_mut();
        for (name, value) in &self.route.policy().replay_headers {
            headers.insert(name, value.clone());
        }
        expire(headers, expires);
        (Decided::Replayed, response)
    }

    /// The work was done: it is not executed again, whatever keeps its reply from being given.
    fn not_replayed<R>(&self, why: &NoReplay) -> (Decided, Response<ResponseBody<R>>) {
        match why {
            NoReplay::Unreadable(error) => {
                let record = self.id.prefix();
                tracing::error!(%record, %error, "the stored reply cannot be read");
                let problem = Problem::new(Code::StoredReplyUnreadable, error.to_string());
                (Decided::Unknown, problem.into_response())
            }
            NoReplay::NoRoom => (Decided::Refused, no_room()),
        }
    }
}

// === impl NoReplay ===

impl From<StoredReplyError> for NoReplay {
    fn from(error: StoredReplyError) -> Self {
        Self::Unreadable(error)
    }
}

/// Is it the outcome of this attempt's own execution?
fn own(answer: &Result<Answer, EngineError>) -> bool {
    matches!(
        answer,
        Ok(Answer::Executed { .. }
            | Answer::Released { .. }
            | Answer::Bypassed { .. }
            | Answer::Unknown { reply: Some(_) })
    )
}

/// A stored reply, as a response.
fn stored<R>(reply: &Reply, room: &Arc<Room>) -> Result<Response<ResponseBody<R>>, NoReplay> {
    let packed = PackedReply::decode(reply.bytes())?;
    let mut read = Read::within(room);
    // Before it is unpacked: a small record can make a large body.
    if !read.take_room(packed.body.len()) {
        return Err(NoReplay::NoRoom);
    }
    let StoredReply { status, mut headers, body, trailers } = packed.unpack()?;
    match body {
        StoredBody::Kept(body) => read.push(body),
        StoredBody::Omitted => {
            // The length was that of the body which is not there.
            headers.remove(header::CONTENT_LENGTH);
            headers.insert(headers::BODY, headers::OMITTED);
        }
    }
    if !trailers.is_empty() {
        read.end(trailers);
    }
    let mut response = Response::new(ResponseBody::read(read));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Says until when a retry is replayed.
fn expire(headers: &mut HeaderMap, expires: Timestamp) {
    let moment = SystemTime::UNIX_EPOCH + Duration::from_millis(expires.as_millis());
    // Only a year above 9999 cannot be written.
    let is_writable = expires.as_millis() / 1_000 < 253_402_300_800;
    if is_writable && let Ok(value) = HeaderValue::try_from(httpdate::fmt_http_date(moment)) {
        headers.insert(headers::EXPIRES, value);
    }
}

fn in_flight<R>(policy: &RoutePolicy) -> Response<ResponseBody<R>> {
    let detail = "the first request with this key is still running; retry with the same key to get \
                  its answer";
    let status = match policy.core.in_flight() {
        InFlight::Accepted => StatusCode::ACCEPTED,
        InFlight::Conflict | InFlight::Wait(_) => StatusCode::CONFLICT,
    };
    Problem::new(Code::RequestInProgress, detail)
        .with_status(status)
        .with_retry_after(RETRY_AFTER_S)
        .into_response()
}

fn mismatch<R>(policy: &RoutePolicy) -> Response<ResponseBody<R>> {
    let detail = "this key was used for another request; use a new key for each operation";
    Problem::new(Code::PayloadMismatch, detail).with_status(policy.mismatch_status).into_response()
}

fn no_room<R>() -> Response<ResponseBody<R>> {
    let detail = "there is no room for the recorded reply while so many bodies are being sent; \
                  nothing was executed";
    Problem::new(Code::TooBusy, detail).with_retry_after(RETRY_AFTER_S).into_response()
}

fn unknown<R>() -> Response<ResponseBody<R>> {
    let detail = "an earlier request with this key may or may not have taken effect; it will not be \
                  executed again until somebody resolves it";
    Problem::new(Code::OutcomeUnknown, detail).into_response()
}

fn abandoned<R>() -> Response<ResponseBody<R>> {
    let detail = "an earlier request with this key was abandoned and counts as failed; check \
                  whether it took effect before you try again with a new key";
    Problem::new(Code::ExecutionAbandoned, detail).into_response()
}

/// The execution ended without a reply: it panicked.
fn interrupted<R>() -> Response<ResponseBody<R>> {
    let detail = "the execution ended without a reply; it may or may not have taken effect";
    Problem::new(Code::ExecutionInterrupted, detail).into_response()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    /// The response that is made of a stored reply.
    fn replay(
        bytes: Bytes,
        room: &Arc<Room>,
    ) -> Result<Response<ResponseBody<Full<Bytes>>>, NoReplay> {
        stored(&Reply::new(bytes), room)
    }

    fn encoded(body: Vec<u8>) -> Bytes {
        let (headers, body) = (HeaderMap::new(), StoredBody::Kept(body.into()));
        StoredReply::new(StatusCode::OK, headers, body, HeaderMap::new(), false).encode()
    }

    #[tokio::test]
    async fn a_replay_takes_the_room_of_its_body_until_that_is_sent() {
        let noise: Vec<u8> =
            (0..2_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
        for body in [vec![b'a'; 8_000], noise] {
            let room = Room::new(8_000);
            let bytes = encoded(body.clone());
            let mut response = replay(bytes.clone(), &room).unwrap();
            assert_eq!(room.taken(), 8_000);
            assert_eq!(replay(bytes.clone(), &room).unwrap_err(), NoReplay::NoRoom);
            let sent = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
            drop(response);
            assert_eq!((&sent[..], room.taken()), (&body[..], 8_000));
            drop(sent);
            assert!(room.taken() == 0 && replay(bytes, &room).is_ok());
        }
    }

    /// A block that cannot be unpacked shows whether that was tried.
    #[test]
    fn a_replay_is_not_unpacked_before_there_is_room() {
        let mut bytes = encoded(vec![b'a'; 100_000]).to_vec();
        bytes.pop();
        let bytes = Bytes::from(bytes);
        assert_eq!(replay(bytes.clone(), &Room::new(99_999)).unwrap_err(), NoReplay::NoRoom);
        let error = replay(bytes, &Room::new(100_000)).unwrap_err();
        assert!(matches!(error, NoReplay::Unreadable(_)), "{error:?}");
    }
}
