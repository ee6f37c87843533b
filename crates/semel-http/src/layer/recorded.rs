//! A recorded reply, as a response.

use std::sync::Arc;

use http::{Response, header};
use semel_core::Reply;

use super::ResponseBody;
use super::body::Read;
use super::room::Room;
use crate::headers;
use crate::stored_reply::{PackedReply, StoredBody, StoredReply, StoredReplyError};

/// Why a stored reply is not given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoReplay {
    Unreadable(StoredReplyError),
    /// Too much is held for others.
    NoRoom,
}

/// The recorded reply of another execution, if there is room for it.
pub(crate) fn replay<R>(
    reply: &Reply,
    room: &Arc<Room>,
) -> Result<Response<ResponseBody<R>>, NoReplay> {
    let packed = PackedReply::decode(reply.bytes())?;
    let mut read = Read::within(room);
    // Before it is unpacked: a small record can make a large body.
    if !read.take_room(packed.body.len()) {
        return Err(NoReplay::NoRoom);
    }
    Ok(response(packed.unpack()?, read))
}

/// The recorded reply of this attempt's own execution. It is never refused for want of room: its
/// client would be told that nothing was executed.
pub(crate) fn own<R>(
    reply: &Reply,
    room: &Arc<Room>,
) -> Result<Response<ResponseBody<R>>, NoReplay> {
    let packed = PackedReply::decode(reply.bytes())?;
    let mut read = Read::within(room);
    read.take_room(packed.body.len());
    Ok(response(packed.unpack()?, read))
}

fn response<R>(reply: StoredReply, mut read: Read) -> Response<ResponseBody<R>> {
    let StoredReply { status, mut headers, body, trailers } = reply;
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
    response
}

// === impl NoReplay ===

impl From<StoredReplyError> for NoReplay {
    fn from(error: StoredReplyError) -> Self {
        Self::Unreadable(error)
    }
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
        room: &Arc<Room>,
    ) -> Result<Response<ResponseBody<Full<Bytes>>>, NoReplay> {
        replay(&Reply::new(bytes), room)
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
            let mut response = replayed(bytes.clone(), &room).unwrap();
            assert_eq!(room.taken(), 8_000);
            assert_eq!(replayed(bytes.clone(), &room).unwrap_err(), NoReplay::NoRoom);
            let sent = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
            drop(response);
            assert_eq!((&sent[..], room.taken()), (&body[..], 8_000));
            drop(sent);
            assert!(room.taken() == 0 && replayed(bytes, &room).is_ok());
        }
    }

    #[test]
    fn a_reply_of_ones_own_is_given_without_room_too() {
        let (room, bytes) = (Room::new(8_000), encoded(vec![b'a'; 8_000]));
        let given = || own::<Full<Bytes>>(&Reply::new(bytes.clone()), &room).unwrap();
        let both = [given(), given()];
        assert_eq!(room.taken(), 8_000);
        drop(both);
        assert_eq!(room.taken(), 0);
    }

    /// A block that cannot be unpacked shows whether that was tried.
    #[test]
    fn a_replay_is_not_unpacked_before_there_is_room() {
        let mut bytes = encoded(vec![b'a'; 100_000]).to_vec();
        bytes.pop();
        let bytes = Bytes::from(bytes);
        assert_eq!(replayed(bytes.clone(), &Room::new(99_999)).unwrap_err(), NoReplay::NoRoom);
        let error = replayed(bytes, &Room::new(100_000)).unwrap_err();
        assert!(matches!(error, NoReplay::Unreadable(_)), "{error:?}");
    }
}
