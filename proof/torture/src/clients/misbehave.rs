//! What clients do that they should not.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::answered::Answered;
use super::client::{Asked, Client, exchange, note_invoke};
use super::target::{Body, Target};
use super::wire::Connection;
use crate::history::{Event, Purpose};

/// How long a client waits that leaves anyway.
const LITTLE: Duration = Duration::from_millis(300);

/// Leaves before the request is whole.
pub(super) async fn hang_up_in_request(client: &mut Client, target: &Target) {
    let gateway = client.world.gateway(&mut client.rng);
    let op = note_invoke(&client.world, target, Purpose::HangUpInRequest, gateway);
    let request = target.request(Body::Right);
    let part = client.rng.below(request.len());
    let pause = Duration::from_millis(client.rng.between(0, 10));
    let _ = timeout(LITTLE, async {
        let mut connection = Connection::open(client.world.gateways[gateway]).await?;
        connection.send(&request[..part]).await?;
        sleep(pause).await;
        std::io::Result::Ok(())
    })
    .await;
    client.world.history.note(Event::Info { op, why: "hung-up".to_owned() });
}

/// Leaves before the reply is whole, or before it begins.
pub(super) async fn hang_up_in_reply(client: &mut Client, target: &Target) {
    let gateway = client.world.gateway(&mut client.rng);
    let op = note_invoke(&client.world, target, Purpose::HangUpInReply, gateway);
    let request = target.request(Body::Right);
    let (waits, pause) = (client.rng.percent(50), client.rng.between(0, 8));
    let _ = timeout(LITTLE, async {
        let mut connection = Connection::open(client.world.gateways[gateway]).await?;
        connection.send(&request).await?;
        if waits {
            connection.first_bytes().await?;
        } else {
            sleep(Duration::from_millis(pause)).await;
        }
        std::io::Result::Ok(())
    })
    .await;
    client.world.history.note(Event::Info { op, why: "hung-up".to_owned() });
}

/// Sends the same request to two gateways at once, or twice to the one there is.
pub(super) async fn ask_twice_at_once(client: &mut Client, target: &Target) {
    let (world, count) = (&client.world, client.world.gateways.len());
    let one = world.gateway(&mut client.rng);
    let other = (one + 1) % count;
    let asked = |gateway, body| {
        let limit = Duration::from_millis(400);
        Asked { target, purpose: Purpose::Call, body, gateway, limit }
    };
    let (one, other) = (asked(one, Body::Right), asked(other, Body::Respelled));
    tokio::join!(exchange(world, &one, None), exchange(world, &other, None));
}

/// Is refused early, for its key, with a body that looks like a request; and then goes on to use the
/// connection. If the body were not drained, it would be executed.
pub(super) async fn probe(client: &mut Client, target: &Target) {
    let gateway = client.world.gateway(&mut client.rng);
    let world = client.world.clone();
    let op = note_invoke(&world, target, Purpose::Probe, gateway);
    let smuggled = smuggled(target, op);
    let mut head = target.head(smuggled.len());
    if client.rng.percent(50) {
        // Without a key, or with two.
        head.push_str("idempotency-key: a\r\nidempotency-key: b\r\n");
    }
    head.push_str("\r\n");
    let sent = if client.rng.percent(50) { client.rng.below(smuggled.len()) } else { 0 };
    let mut connection = None;
    let asked = timeout(LITTLE * 2, async {
        let mut opened = Connection::open(world.gateways[gateway]).await?;
        opened.send(head.as_bytes()).await?;
        opened.send(&smuggled[..sent]).await?;
        // An answer may come now, or only when the body is whole.
        let _ = timeout(LITTLE / 10, opened.first_bytes()).await;
        opened.send(&smuggled[sent..]).await?;
        let answer = opened.answer().await?;
        connection = answer.keeps_open().then_some(opened);
        std::io::Result::Ok(answer)
    });
    let event = match asked.await {
        Ok(Ok(answer)) => Answered::of(&answer, op, world.seed).1,
        Ok(Err(error)) => Event::Info { op, why: error.kind().to_string() },
        Err(_) => Event::Info { op, why: "hung-up".to_owned() },
    };
    world.history.note(event);
    if let Some(connection) = connection {
        let limit = Duration::from_millis(400);
        let purpose = Purpose::AfterProbe;
        let asked = Asked { target, purpose, body: Body::Right, gateway, limit };
        exchange(&world, &asked, Some(connection)).await;
    }
}

/// A whole request as a body.
fn smuggled(target: &Target, op: u64) -> Vec<u8> {
    let body = r#"{"variant":0}"#;
    let head = target.head(body.len());
    format!("{head}idempotency-key: smuggled-{op}\r\n\r\n{body}").into_bytes()
}
