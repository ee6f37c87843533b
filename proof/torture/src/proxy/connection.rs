//! One connection through the proxy.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::{Direction, Network, Toxic};
use crate::rng::Rng;

const PIECE_BYTES: usize = 16 << 10;
/// How much of what is late is kept for a connection.
const KEPT_MAX: usize = 1 << 20;
/// How often a slow connection moves.
const SLOW_STEP: Duration = Duration::from_millis(50);
const SLOW_STEPS_PER_SECOND: u64 = 20;

/// Why a connection ends before its ends want it to.
enum Ending {
    /// It broke by itself.
    Broken,
    Cut,
    Reset,
    HalfOpen,
}

/// One way of a connection.
struct Way<'a> {
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    direction: Direction,
    network: Network,
    rng: Rng,
    /// How many bytes may still pass, while a fault counts them.
    left: Option<u64>,
    /// In which wave the connection came; 0 if it was before all.
    since: u32,
}

/// Passes on what comes, both ways, as well as the network allows.
pub(super) async fn serve(
    mut client: TcpStream,
    target: SocketAddr,
    network: Network,
    mut rng: Rng,
) {
    let since = network.toxics.borrow().wave();
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ending = {
        let (client_reads, client_writes) = client.split();
        let (server_reads, server_writes) = server.split();
        let up = Way {
            from: client_reads,
            to: server_writes,
            direction: Direction::Up,
            network: network.clone(),
            rng: Rng::new(rng.next_u64()),
            left: None,
            since,
        };
        let down = Way {
            from: server_reads,
            to: client_writes,
            direction: Direction::Down,
            network: network.clone(),
            rng: Rng::new(rng.next_u64()),
            left: None,
            since,
        };
        tokio::try_join!(up.pump(), down.pump()).err()
    };
    match ending {
        Some(Ending::Reset) => {
            let _ = (client.set_zero_linger(), server.set_zero_linger());
        }
        Some(Ending::HalfOpen) => {
            drop(server);
            stay_open(client, network).await;
        }
        None | Some(Ending::Broken | Ending::Cut) => (),
    }
}

/// Takes what the client says, and says nothing, until the fault is over.
async fn stay_open(mut client: TcpStream, mut network: Network) {
    let mut sink = tokio::io::sink();
    tokio::select! {
        _ = tokio::io::copy(&mut client, &mut sink) => (),
        _ = network.toxics.wait_for(|toxic| *toxic != Toxic::HalfOpen) => (),
    }
}

// === impl Way ===

impl Way<'_> {
    /// Until the end of what comes, which is passed on too.
    async fn pump(mut self) -> Result<(), Ending> {
        let mut buffer = vec![0; PIECE_BYTES];
        self.network.toxics.mark_changed();
        loop {
            tokio::select! {
                biased;
                changed = self.network.toxics.changed() => {
                    changed.map_err(|_| Ending::Broken)?;
                    self.take_in()?;
                }
                read = self.from.read(&mut buffer) => {
                    let read = read?;
                    let is_over = if self.stands_still() {
                        self.pass_on_late(&mut buffer, read).await?
                    } else if read == 0 {
                        self.pass_holes().await?;
                        true
                    } else {
                        self.pass_on(&buffer[..read]).await?;
                        false
                    };
                    if is_over {
                        self.to.shutdown().await?;
                        return Ok(());
                    }
                }
            }
        }
    }

    /// True if nothing gets through until the fault is over, on this connection but not on new ones.
    fn stands_still(&self) -> bool {
        self.since < self.network.toxics.borrow().wave() && self.direction == Direction::Up
    }

    /// Keeps what was read, and further bytes, until the fault is over, and forwards them then. Returns true at the
    /// end of the stream. If the sender resets the connection meanwhile, nothing is forwarded, unless it is delayed.
    async fn pass_on_late(&mut self, buffer: &mut [u8], mut read: usize) -> Result<bool, Ending> {
        let is_queued = self.network.toxics.borrow().is_queued();
        let mut kept = Vec::new();
        while read > 0 {
            self.network.strike();
            kept.extend_from_slice(&buffer[..read]);
            read = tokio::select! {
                biased;
                over = self.network.toxics.wait_for(|toxic| toxic.wave() == 0) => {
                    over.map_err(|_| Ending::Broken)?;
                    break;
                }
                read = self.from.read(buffer), if kept.len() < KEPT_MAX => match read {
                    Err(_) if is_queued => 0,
                    read => read?,
                },
            };
        }
        let over = self.network.toxics.wait_for(|toxic| toxic.wave() == 0).await;
        over.map(drop).map_err(|_| Ending::Broken)?;
        self.to.write_all(&kept).await?;
        Ok(read == 0)
    }

    /// A fault has begun or is over.
    fn take_in(&mut self) -> Result<(), Ending> {
        let toxic = *self.network.toxics.borrow_and_update();
        self.left = toxic.bytes_max(self.direction).map(|most| self.rng.between(0, most + 1));
        if toxic == Toxic::HalfOpen {
            self.network.strike();
            return Err(Ending::HalfOpen);
        }
        Ok(())
    }

    async fn pass_on(&mut self, piece: &[u8]) -> Result<(), Ending> {
        self.pass_holes().await?;
        let toxic = *self.network.toxics.borrow();
        if let Toxic::Latency { delay, jitter } = toxic {
            self.network.strike();
            let more = self.rng.between(0, micros(jitter) + 1);
            tokio::time::sleep(delay + Duration::from_micros(more)).await;
        }
        let (now, ending) = self.before_the_end(toxic, piece);
        if ending.is_some() {
            self.network.strike();
        }
        self.write_slowly(now).await?;
        ending.map_or(Ok(()), Err)
    }

    /// As slowly as the network is, for as long as it is slow.
    async fn write_slowly(&mut self, mut rest: &[u8]) -> Result<(), Ending> {
        while !rest.is_empty() {
            let toxic = *self.network.toxics.borrow();
            let step = match toxic {
                Toxic::Slow { bytes_per_second } => {
                    self.network.strike();
                    tokio::time::sleep(SLOW_STEP).await;
                    usize::try_from(bytes_per_second / SLOW_STEPS_PER_SECOND).unwrap_or(PIECE_BYTES)
                }
                _ => rest.len(),
            };
            let (part, later) = rest.split_at(step.clamp(1, rest.len()));
            self.to.write_all(part).await?;
            rest = later;
        }
        Ok(())
    }

    /// Waits while nothing gets through this way.
    async fn pass_holes(&mut self) -> Result<(), Ending> {
        let direction = self.direction;
        if self.network.toxics.borrow().swallows(direction) {
            self.network.strike();
        }
        let open = self.network.toxics.wait_for(|toxic| !toxic.swallows(direction)).await;
        open.map(drop).map_err(|_| Ending::Broken)
    }

    /// What still gets through, and how it ends then.
    fn before_the_end<'a>(&mut self, toxic: Toxic, piece: &'a [u8]) -> (&'a [u8], Option<Ending>) {
        let Some(left) = self.left else { return (piece, None) };
        let through = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.left = Some(left - through as u64);
        let ending = match toxic {
            Toxic::Cut { .. } => Ending::Cut,
            Toxic::Reset { .. } => Ending::Reset,
            // It was over before its bytes were.
            _ => return (piece, None),
        };
        (&piece[..through], (through < piece.len() || left == 0).then_some(ending))
    }
}

impl From<io::Error> for Ending {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
