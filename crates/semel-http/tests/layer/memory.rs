//! I10, trap 25: what is held of bodies has a limit, over all requests and replies together.

use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, GzBuilder};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use semel_core::State;
use semel_http::{Mode, ResponseBody, RoutePolicyBuilder};
use tower::ServiceExt as _;

use crate::support::{
    Api, Counts, Handler, Reply, Step, TestBody, Verb, With, charge, policy, until,
};

fn api(max_buffered: u64, policy: RoutePolicyBuilder, handler: Handler) -> Api {
    Api::new(policy, handler).max_buffered(max_buffered)
}

/// Sends without reading the answer.
async fn call(api: &Api, request: Request<TestBody>) -> Response<ResponseBody<TestBody>> {
    api.service.clone().oneshot(request).await.unwrap()
}

/// Takes the first chunk of a response and drops its body, as a server does that waits for its
/// client to take the chunk.
async fn first_piece(response: Response<ResponseBody<TestBody>>) -> Bytes {
    response.into_body().frame().await.unwrap().unwrap().into_data().unwrap()
}

/// Answers so many bytes, whatever is asked.
fn answering(len: usize) -> Handler {
    Handler::replying(move |_| Response::new(vec![b'a'; len].into()))
}

fn assert_no_room(reply: &Reply) {
    reply.assert_problem(503, "too_busy", true);
    reply.assert_retry_after(true);
    assert!(!reply.is_replayed() && reply.header("x-idempotency-expires").is_none());
}

#[tokio::test]
async fn bodies_that_are_received_at_once_have_a_limit_together() {
    let api = api(100, policy(), Handler::counting());
    let slow = TestBody::of([Step::Data("x".repeat(80).into()), Step::Stall]);
    let watch = slow.watch();
    let receiving = api.spawn(charge("slow", slow));
    until("the slow one is being received", || watch.bytes() == 80).await;
    assert_no_room(&api.send(charge("k", "x".repeat(40))).await);
    receiving.abort();
    assert!(receiving.await.is_err());
    assert_eq!(api.send(charge("k", "x".repeat(40))).await.status, 201);
}

fn gzip(len: usize) -> Vec<u8> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; len]).unwrap();
    encoder.finish().unwrap()
}

/// The decoded body is in memory while it is compared. Over the budget, it is not compared
/// otherwise: a retry with the same bytes would be a mismatch. A body over the whole budget never fits, so a
/// retry is of no use.
#[tokio::test]
async fn a_gzip_body_counts_its_decoded_length() {
    let counts = Counts::default();
    let api = Api::with_routes(counts.routes(policy()), Handler::counting()).max_buffered(100_000);
    let call = |len| charge("k", Bytes::from(gzip(len))).with("content-encoding", "gzip");
    let too_large = api.send(call(200_000)).await;
    assert_eq!((too_large.status, too_large.header("retry-after")), (413, None));
    let slow = TestBody::of([Step::Data("x".repeat(50_000).into()), Step::Stall]);
    let watch = slow.watch();
    let receiving = api.spawn(charge("slow", slow));
    until("the slow one is being received", || watch.bytes() == 50_000).await;
    let refused = api.send(call(90_000)).await;
    assert_no_room(&refused);
    assert_eq!((refused.header("connection"), api.handler.runs()), (None, 0));
    receiving.abort();
    assert!(receiving.await.is_err());
    let first = api.send(call(90_000)).await;
    assert_eq!(first.status, 201);
    api.send(call(90_000)).await.assert_replays(&first);

    let counts = Counts::default();
    let shadow = counts.routes(policy().mode(Mode::Shadow));
    let api = Api::with_routes(shadow, Handler::counting()).max_buffered(100_000);
    assert_eq!(api.send(call(200_000)).await.status, 201);
    until("it was counted", || counts.of("unchecked") == 1).await;
}

/// A replay is small in the store and large in memory.
#[tokio::test]
async fn a_replay_that_finds_no_room_is_refused_and_stays_in_the_record() {
    let counts = Counts::default();
    let small = Api::with_routes(counts.routes(policy()), answering(100_000)).max_buffered(99_999);
    let large = small.beside(policy(), small.handler.clone());
    let first = large.send(charge("k", "100")).await;
    assert_eq!(first.body.len(), 100_000);
    for _ in 0..2 {
        let reply = small.send(charge("k", "100")).await;
        assert_no_room(&reply);
        // The request was read, so its connection can go on.
        assert_eq!(reply.header("connection"), None);
        assert!(matches!(large.state().await, Some(State::Settled(_))));
    }
    assert_eq!(counts.of("refused"), 2);
    large.send(charge("k", "100")).await.assert_replays(&first);
    assert_eq!(large.handler.runs(), 1);
}

#[tokio::test]
async fn replays_that_are_being_sent_have_a_limit_together() {
    let api = api(250_000, policy(), answering(100_000));
    let first = api.send(charge("k", "100")).await;
    let replays = [call(&api, charge("k", "100")).await, call(&api, charge("k", "100")).await];
    assert_no_room(&api.send(charge("k", "100")).await);
    // They are with the server now, and its clients are slow.
    let [one, other] = replays;
    let pieces = (first_piece(one).await, first_piece(other).await);
    assert_no_room(&api.send(charge("k", "100")).await);
    drop(pieces);
    api.send(charge("k", "100")).await.assert_replays(&first);
    assert_eq!(api.handler.runs(), 1);
}

/// A server drops a body once it has the last chunk, and a slow client takes that much later.
#[tokio::test]
async fn a_reply_counts_until_its_client_has_it() {
    let api = api(150_000, policy(), answering(100_000));
    let sent = first_piece(call(&api, charge("k", "100")).await).await;
    assert_eq!(sent.len(), 100_000);
    assert_no_room(&api.send(charge("k", "100")).await);
    let part = sent.slice(99_999..);
    drop(sent);
    assert_no_room(&api.send(charge("k", "100")).await);
    drop(part);
    assert!(api.send(charge("k", "100")).await.is_replayed());
}

/// The start of a reply that is too large to keep is held too, until it is sent.
#[tokio::test]
async fn the_start_of_an_oversized_reply_counts_until_its_client_has_it() {
    for max_reply_body in [50_000, 1 << 20] {
        // One reply is over the limit of its route, the other exceeds the budget.
        let handler = Handler::replying(|_| Response::new(TestBody::pieces(8, 20_000)));
        let api = api(90_000, policy().max_reply_body(max_reply_body), handler);
        let response = call(&api, charge("k", "100")).await;
        let refused = charge("other", "x".repeat(60_000));
        assert_no_room(&api.send(refused).await);
        let mut body = response.into_body();
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            pieces.push(frame.unwrap().into_data().unwrap());
        }
        drop(body);
        assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), 160_000);
        assert_no_room(&api.send(charge("other", "x".repeat(60_000))).await);
        drop(pieces);
        assert_eq!(api.send(charge("other", "x".repeat(60_000))).await.status, 200);
    }
}

/// What a handler keeps of a request is still held.
#[tokio::test]
async fn a_request_counts_while_its_handler_keeps_it() {
    let (handler, gate) = Handler::counting().gated();
    let api = api(15_000, policy(), handler);
    let first = api.spawn(charge("k", "x".repeat(10_000)));
    // Its body object is gone; its bytes are what the handler noted.
    api.handler.started(1).await;
    assert_no_room(&api.send(charge("other", "x".repeat(10_000))).await);
    gate.open();
    assert_eq!(first.await.unwrap().status, 201);
    assert_no_room(&api.send(charge("other", "x".repeat(10_000))).await);
    api.handler.forget();
    assert_eq!(api.send(charge("other", "x".repeat(10_000))).await.status, 201);
}

/// Each of the chunks is a byte of a large buffer, which they would keep alive.
#[tokio::test]
async fn tiny_pieces_do_not_hold_the_buffers_they_came_in() {
    let buffer = Bytes::from(vec![b'x'; 10_000]);
    let steps: Vec<_> = (0..10_000).map(|at| Step::Data(buffer.slice(at..=at))).collect();
    let body = TestBody::of(steps.into_iter().chain([Step::Stall]));
    let watch = body.watch();
    let api = api(1 << 20, policy(), Handler::counting());
    let receiving = api.spawn(charge("k", body));
    until("all of it was received", || watch.bytes() == 10_000).await;
    assert!(buffer.is_unique(), "the buffer is still held");
    receiving.abort();
}

#[tokio::test]
async fn a_body_in_tiny_pieces_reaches_the_handler_as_it_was() {
    let text: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let steps = text.chunks(7).map(|chunk| Step::Data(Bytes::copy_from_slice(chunk)));
    let api = api(1 << 20, policy(), Handler::counting());
    let first = api.send(charge("k", TestBody::of(steps))).await;
    assert_eq!(api.handler.last().body, text);
    api.send(charge("k", text)).await.assert_replays(&first);
}

/// Shadow mode disturbs nothing, so bodies over the budget are not checked.
#[tokio::test]
async fn a_request_that_finds_no_room_in_shadow_mode_passes_unchecked() {
    let counts = Counts::default();
    let routes = counts.routes(policy().mode(Mode::Shadow));
    let api = Api::with_routes(routes, Handler::counting()).max_buffered(100);
    let slow = TestBody::of([Step::Data("x".repeat(80).into()), Step::Stall]);
    let watch = slow.watch();
    let passing = api.spawn(charge("slow", slow));
    until("the slow one is passing", || watch.bytes() == 80).await;

    assert_eq!(api.send(charge("k", "x".repeat(40))).await.status, 201);
    assert_eq!(api.handler.last().body.len(), 40);
    until("it was counted", || counts.of("unchecked") == 1).await;
    assert_eq!(api.store.calls(Verb::Claim), 0);

    passing.abort();
    assert!(passing.await.is_err());
    until("the slow one was counted", || counts.of("unchecked") == 2).await;
    assert_eq!(api.send(charge("k", "x".repeat(40))).await.status, 201);
    until("it was checked", || counts.of("first") == 1).await;
}
