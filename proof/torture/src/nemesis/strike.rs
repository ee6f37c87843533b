//! Doing what the schedule says.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

use super::{Group, Kind, Planned, Schedule};
use crate::fleet::Fleet;
use crate::history::{Event, History};
use crate::proxy::{Direction, Proxy, Toxic};
use crate::rng::Rng;
use crate::stop;
use crate::stores::Stores;

/// How long a connection may take to note that a fault struck it.
const NOTED: Duration = Duration::from_millis(20);

/// After how long connections stand still that have taken the place of those that did. By then verbs were given up,
/// and sent again.
const WAVE: Duration = Duration::from_millis(2_700);

/// Breaks a fleet, its store and the networks between them.
pub(crate) struct Nemesis<'a> {
    fleet: &'a Fleet,
    stores: &'a Stores,
    history: &'a History,
    next: AtomicU64,
    /// One lock per gateway, held by the current fault: a rolling restart needs all of them.
    busy: Vec<Mutex<()>>,
}

/// The target of a fault.
struct Hits {
    /// None named means all.
    gateways: Vec<usize>,
    /// True if only the replay cache is hit, not the primary store.
    near: bool,
}

// === impl Nemesis ===

impl<'a> Nemesis<'a> {
    pub(crate) fn new(fleet: &'a Fleet, stores: &'a Stores, history: &'a History) -> Self {
        // Unplanned faults have numbers below.
        let next = AtomicU64::new(1_000_000);
        let busy = (0..fleet.len()).map(|_| Mutex::default()).collect();
        Self { fleet, stores, history, next, busy }
    }

    /// Goes through the whole schedule, for at least so long. When it returns, everything is mended.
    pub(crate) fn strike_all(&self, schedule: &Schedule, length: Duration) -> anyhow::Result<()> {
        let began = self.history.clock().elapsed();
        let struck = self.follow_all(schedule, began);
        stop::sleep((began + length).saturating_sub(self.history.clock().elapsed()));
        struck
    }

    fn follow_all(&self, schedule: &Schedule, began: Duration) -> anyhow::Result<()> {
        let spared_from = schedule.spares_gateways_from.map(|from| began + from);
        thread::scope(|scope| {
            let tracks: Vec<_> = schedule
                .tracks
                .iter()
                .map(|track| scope.spawn(move || self.follow(track, began, spared_from)))
                .collect();
            let ended = tracks.into_iter().map(|track| {
                track.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the nemesis panicked")))
            });
            ended.collect::<Vec<_>>().into_iter().collect()
        })
    }

    fn follow(
        &self,
        track: &[Planned],
        began: Duration,
        spared_from: Option<Duration>,
    ) -> anyhow::Result<()> {
        for planned in track {
            let elapsed = self.history.clock().elapsed();
            stop::sleep((began + planned.at).saturating_sub(elapsed));
            stop::check()?;
            self.strike(planned, spared_from).with_context(|| format!("{planned:?}"))?;
        }
        Ok(())
    }

    fn strike(&self, planned: &Planned, spared_from: Option<Duration>) -> anyhow::Result<()> {
        let Planned { kind, on, lasts, seed, .. } = *planned;
        let mut rng = Rng::new(seed);
        match kind.group() {
            Group::Gateway if kind == Kind::GatewayTerm => {
                // One after the other, as in a rolling update.
                let count = self.fleet.len();
                for number in 0..count {
                    self.strike_gateway(planned, (on + number) % count, spared_from)?;
                }
            }
            Group::Gateway => self.strike_gateway(planned, on, spared_from)?,
            Group::Front => {
                let toxic = toxic(kind, &mut rng);
                let note = format!("clients to gateway {on}: {toxic:?}");
                let id = self.note(kind, Hits::gateway(on), note);
                let struck = poison(self.fleet.front(on), toxic, lasts);
                self.healed(id, Some(struck));
            }
            Group::Back => {
                let link = self.stores.link(on);
                let toxic = toxic(kind, &mut rng);
                let hits = Hits { gateways: link.gateways.clone(), near: link.is_near };
                let id = self.note(kind, hits, format!("{}: {toxic:?}", link.name));
                let struck = poison(&link.proxy, toxic, lasts);
                self.healed(id, Some(struck));
            }
            Group::Store => {
                let near = matches!(kind, Kind::NearKill | Kind::NearPause);
                let hits = Hits { gateways: Vec::new(), near };
                let id = self.note(kind, hits, format!("for {lasts:?}"));
                self.stores.strike(kind, lasts, &mut rng)?;
                self.healed(id, None);
            }
        }
        Ok(())
    }

    fn strike_gateway(
        &self,
        planned: &Planned,
        on: usize,
        spared_from: Option<Duration>,
    ) -> anyhow::Result<()> {
        let Planned { kind, lasts, .. } = *planned;
        let _busy = self.busy[on].lock().unwrap_or_else(PoisonError::into_inner);
        // Not before: the holder of the lock may have taken long, and so may the other gateways of a rolling restart.
        let is_spared = spared_from.is_some_and(|from| self.history.clock().elapsed() >= from);
        if kind.ends_gateways() && is_spared {
            return Ok(());
        }
        let id = self.note(kind, Hits::gateway(on), format!("gateway {on}"));
        match kind {
            Kind::GatewayPause => {
                self.fleet.pause(on)?;
                stop::sleep(lasts);
                self.fleet.resume(on)?;
            }
            Kind::GatewayTerm => {
                self.fleet.terminate(on)?;
                self.fleet.start_again(on)?;
            }
            _ => {
                self.fleet.kill(on)?;
                stop::sleep(lasts);
                self.fleet.start_again(on)?;
            }
        }
        self.healed(id, None);
        Ok(())
    }

    fn note(&self, kind: Kind, hits: Hits, note: String) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (kind, Hits { gateways, near }) = (kind.as_str().to_owned(), hits);
        self.history.note(Event::Fault { id, kind, hits: gateways, near, note });
        id
    }

    fn healed(&self, id: u64, struck: Option<u64>) {
        self.history.note(Event::Healed { id, struck });
    }
}

// === impl Hits ===

impl Hits {
    fn gateway(number: usize) -> Self {
        Self { gateways: vec![number], near: false }
    }
}

/// For so long; how often it struck.
fn poison(proxy: &Proxy, toxic: Toxic, lasts: Duration) -> u64 {
    let before = proxy.struck();
    proxy.set(toxic);
    let mut left = lasts;
    if let Toxic::Late { wave: first, is_queued } = toxic {
        for wave in first + 1.. {
            stop::sleep(left.min(WAVE));
            left = left.saturating_sub(WAVE);
            if left.is_zero() {
                break;
            }
            proxy.set(Toxic::Late { wave, is_queued });
        }
    }
    stop::sleep(left);
    proxy.set(Toxic::None);
    // The connections that were hit have recorded it by then.
    stop::sleep(NOTED);
    proxy.struck() - before
}

fn toxic(kind: Kind, rng: &mut Rng) -> Toxic {
    let mut millis = |least, most| Duration::from_millis(rng.between(least, most));
    match kind {
        Kind::FrontLatency | Kind::BackLatency => {
            Toxic::Latency { delay: millis(5, 300), jitter: millis(5, 300) }
        }
        Kind::FrontSlow | Kind::BackSlow => {
            Toxic::Slow { bytes_per_second: rng.between(500, 20_000) }
        }
        Kind::FrontBlackHole | Kind::BackBlackHole => {
            let direction = if rng.percent(50) { Direction::Up } else { Direction::Down };
            Toxic::BlackHole { direction }
        }
        Kind::FrontCut | Kind::BackCut => Toxic::Cut { after_bytes: rng.between(1, 5_000) },
        Kind::FrontReset | Kind::BackReset => Toxic::Reset { after_bytes: rng.between(1, 5_000) },
        Kind::BackLate => Toxic::Late { wave: 1, is_queued: rng.percent(50) },
        _ => Toxic::HalfOpen,
    }
}
