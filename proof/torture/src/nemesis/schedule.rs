//! What is broken when, out of a seed.

use std::time::Duration;

use super::{Group, Kind};
use crate::rng::Rng;

/// One fault of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When it begins, after the faults begin.
    pub at: Duration,
    /// What.
    pub kind: Kind,
    /// The target: the number of a gateway, or of a path to the store, from 0, modulo their count.
    pub on: usize,
    /// For how long. Mending comes on top.
    pub lasts: Duration,
    /// What else is drawn for it.
    pub seed: u64,
}

/// All faults of a run, in tracks that go on beside each other. In each, one comes after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The tracks.
    pub tracks: Vec<Vec<Planned>>,
    /// From then on no gateway is ended, also if a fault comes later than planned. A short run spares none, so that
    /// on a slow machine each kind of fault comes all the same, if late.
    pub spares_gateways_from: Option<Duration>,
}

/// What a schedule is drawn for.
#[derive(Clone, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    pub(crate) gateways: usize,
    pub(crate) links: usize,
    pub(crate) kinds: &'a [Kind],
}

/// How long to wait between two faults of a track, in milliseconds.
type Pause = (u64, u64);

const GATEWAY: Pause = (500, 3_500);
const NETWORK: Pause = (500, 3_500);
const STORE: Pause = (2_000, 7_000);
/// A run of this length or less is short: faults come faster, so that every kind comes all the same.
const SHORT: Duration = Duration::from_secs(30);
const GATEWAY_SHORT: Pause = (200, 1_500);
const NETWORK_SHORT: Pause = (50, 300);
const STORE_SHORT: Pause = (100, 900);
/// The final time in which no gateway is ended, so that pending settlements can complete. Short runs have no time for
/// that.
const SPARED: Duration = Duration::from_secs(25);
/// When, before the end of a long run, the store is away for longer than the lease, whatever else was drawn: every
/// gateway lives through it, and for long enough after it.
const LAST_OUTAGE: Duration = Duration::from_secs(16);
/// How long that lasts, in milliseconds.
const LAST_OUTAGE_LASTS: (u64, u64) = (3_000, 9_000);

// === impl Schedule ===

impl Schedule {
    pub(crate) fn draw(terms: &Terms<'_>) -> Self {
        // While two of three gateways are broken in turns, the third serves.
        let fleets: &[&[usize]] = if terms.gateways > 1 { &[&[0, 2], &[1]] } else { &[&[0]] };
        let is_short = terms.is_short();
        let gateway = if is_short { GATEWAY_SHORT } else { GATEWAY };
        let network = if is_short { NETWORK_SHORT } else { NETWORK };
        // While a disk is full nothing else is tried, so that there is some time between two such faults.
        let store =
            if is_short && !terms.kinds.contains(&Kind::DiskFull) { STORE_SHORT } else { STORE };
        let mut tracks = Vec::new();
        for (number, gateways) in fleets.iter().enumerate() {
            tracks.push(terms.track(
                &format!("gateway-{number}"),
                Group::Gateway,
                gateway,
                gateways,
            ));
        }
        let fronts: Vec<usize> = (0..terms.gateways).collect();
        tracks.push(terms.track("front", Group::Front, network, &fronts));
        if terms.links > 0 {
            let links: Vec<usize> = (0..terms.links).collect();
            tracks.push(terms.track("back", Group::Back, network, &links));
        }
        let mut of_store = terms.track("store", Group::Store, store, &[0]);
        terms.end_with_an_outage(&mut of_store);
        tracks.push(of_store);
        Self { tracks, spares_gateways_from: terms.spares_gateways_from() }
    }

    /// How many faults it has.
    pub fn len(&self) -> usize {
        self.tracks.iter().map(Vec::len).sum()
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

// === impl Terms ===

impl Terms<'_> {
    fn is_short(&self) -> bool {
        self.length <= SHORT
    }

    fn spares_gateways_from(&self) -> Option<Duration> {
        (!self.is_short()).then(|| self.length.saturating_sub(SPARED))
    }

    fn track(&self, name: &str, group: Group, pause: Pause, on: &[usize]) -> Vec<Planned> {
        let kinds: Vec<Kind> =
            self.kinds.iter().copied().filter(|kind| kind.group() == group).collect();
        let mut rng = Rng::of(self.seed, name, 0);
        let mut track = Vec::new();
        // Each kind comes once before any comes again, so that short runs have all of them.
        let mut bag = kinds.clone();
        let mut at = Duration::ZERO;
        while !kinds.is_empty() {
            at += Duration::from_millis(rng.between(pause.0, pause.1));
            if bag.is_empty() {
                bag = weighted(&kinds);
            }
            let kind = bag.swap_remove(rng.below(bag.len()));
            let lasts = lasts(kind, self.is_short(), &mut rng);
            if at + lasts > self.length {
                break;
            }
            // What is left out is drawn all the same: the others come as if it was there.
            let planned = Planned { at, kind, on: *rng.pick(on), lasts, seed: rng.next_u64() };
            if !self.is_left_out(kind, at) {
                track.push(planned);
            }
            at += lasts + mending(kind);
        }
        track
    }

    /// In place of what a long run would have at that time.
    fn end_with_an_outage(&self, track: &mut Vec<Planned>) {
        let outages = [Kind::StoreOutage, Kind::DiskFull];
        let kind = self.kinds.iter().copied().find(|kind| outages.contains(kind));
        let Some(kind) = kind.filter(|_| !self.is_short()) else { return };
        let at = self.length.saturating_sub(LAST_OUTAGE);
        let is_over = |planned: &Planned| planned.at + planned.lasts + mending(planned.kind) <= at;
        track.retain(is_over);
        let mut rng = Rng::of(self.seed, "last outage", 0);
        let lasts = Duration::from_millis(rng.between(LAST_OUTAGE_LASTS.0, LAST_OUTAGE_LASTS.1));
        track.push(Planned { at, kind, on: 0, lasts, seed: rng.next_u64() });
    }

    /// True if it would end gateways in the final time. A rolling restart reaches the last of them late.
    fn is_left_out(&self, kind: Kind, at: Duration) -> bool {
        let comes_too_late = |spared_from| at + mending(kind) > spared_from;
        kind.ends_gateways() && self.spares_gateways_from().is_some_and(comes_too_late)
    }
}

/// Kills, pauses and outages are what most promises are about, so they come more often.
fn weighted(kinds: &[Kind]) -> Vec<Kind> {
    let times = |kind: &Kind| match kind {
        Kind::GatewayKill => 4,
        Kind::GatewayPause | Kind::StoreOutage | Kind::StoreFull | Kind::BackLate => 2,
        _ => 1,
    };
    kinds.iter().flat_map(|kind| std::iter::repeat_n(*kind, times(kind))).collect()
}

fn lasts(kind: Kind, is_short: bool, rng: &mut Rng) -> Duration {
    let (least, most) = match kind {
        Kind::GatewayKill => (20, 600),
        // Past the lease, most of them.
        Kind::GatewayPause => (1_500, if is_short { 3_500 } else { 5_000 }),
        Kind::StoreKill | Kind::NearKill => (50, if is_short { 800 } else { 1_500 }),
        Kind::StorePause | Kind::NearPause => (200, if is_short { 2_000 } else { 4_000 }),
        // Some past the lease.
        Kind::DiskFull if is_short => (1_500, 4_000),
        Kind::DiskFull => (500, *rng.pick(&[2_500, 6_000, 20_000])),
        Kind::StoreOutage if is_short => (2_300, 3_500),
        Kind::StoreOutage => (1_000, *rng.pick(&[5_000, 8_000, 20_000])),
        // Past the lease too: renewals must get through.
        Kind::StoreFull => (2_300, if is_short { 3_000 } else { 7_000 }),
        // Past the time that a claim has, so that it is sent again by another way.
        Kind::BackLate => (3_000, if is_short { 3_800 } else { 8_000 }),
        Kind::StoreFailover => (100, 500),
        Kind::GatewayTerm
        | Kind::StoreRestart
        | Kind::StoreHandover
        | Kind::ClockForward
        | Kind::ClockBack => return Duration::ZERO,
        // Networks. Some longer than the lease.
        _ => (500, if is_short { 2_800 } else { 3_500 }),
    };
    Duration::from_millis(rng.between(least, most))
}

/// About how long it takes until all is well again, so that the next comes when it is planned.
fn mending(kind: Kind) -> Duration {
    Duration::from_millis(match kind {
        Kind::GatewayTerm => 3_000,
        Kind::StoreFailover => 3_500,
        Kind::StoreHandover | Kind::StorePause => 1_500,
        Kind::StoreKill | Kind::StoreRestart | Kind::StoreOutage => 800,
        Kind::GatewayKill | Kind::NearKill | Kind::DiskFull => 200,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(seed: u64, seconds: u64, kinds: &[Kind]) -> Schedule {
        let length = Duration::from_secs(seconds);
        Schedule::draw(&Terms { seed, length, gateways: 3, links: 3, kinds })
    }

    #[test]
    fn a_seed_has_one_schedule_and_another_seed_another() {
        assert_eq!(draw(5, 60, &Kind::ALL), draw(5, 60, &Kind::ALL));
        assert_ne!(draw(5, 60, &Kind::ALL), draw(6, 60, &Kind::ALL));
        assert!(!draw(5, 60, &Kind::ALL).is_empty());
    }

    #[test]
    fn every_kind_comes_and_all_end_in_time() {
        let schedule = draw(5, 200, &Kind::ALL);
        let all: Vec<Planned> = schedule.tracks.concat();
        for kind in Kind::ALL {
            assert!(all.iter().any(|planned| planned.kind == kind), "{kind}");
        }
        assert!(all.iter().all(|planned| planned.at + planned.lasts <= Duration::from_secs(200)));
    }

    #[test]
    fn short_runs_have_every_kind_too() {
        let kinds: Vec<Kind> =
            Kind::ALL.into_iter().filter(|kind| *kind < Kind::NearKill).collect();
        for seed in 1..20 {
            let all = draw(seed, 30, &kinds).tracks.concat();
            let has = |kind: &&Kind| all.iter().any(|planned| planned.kind == **kind);
            let missing: Vec<&Kind> = kinds.iter().filter(|kind| !has(kind)).collect();
            assert!(missing.is_empty(), "{seed}: {missing:?}");
        }
    }

    #[test]
    fn a_long_run_ends_with_an_outage_that_every_gateway_lives_through() {
        for (seed, kind) in (1..20).zip([Kind::StoreOutage, Kind::DiskFull].into_iter().cycle()) {
            let kinds = [Kind::GatewayKill, Kind::GatewayTerm, Kind::StoreKill, kind];
            let schedule = draw(seed, 60, &kinds);
            let of_store = schedule.tracks.last().expect("a track");
            let last = of_store.last().expect("an outage");
            assert_eq!((last.kind, last.at), (kind, Duration::from_secs(44)), "{seed}");
            assert!(last.lasts >= Duration::from_secs(3), "{seed}: {last:?}");
            let spared_from = schedule.spares_gateways_from.expect("it is long");
            assert!(spared_from + Duration::from_secs(5) < last.at);
            let before = &of_store[of_store.len() - 2];
            assert!(before.at + before.lasts <= last.at, "{seed}: {before:?}");
        }
        let all = draw(5, 60, &[Kind::GatewayKill]).tracks.concat();
        assert!(
            all.iter().all(|planned| planned.kind == Kind::GatewayKill),
            "only what is asked for"
        );
    }

    #[test]
    fn in_the_end_of_a_long_run_no_gateway_is_ended() {
        let calm = Duration::from_secs(35);
        let late = |seed, seconds| {
            let all = draw(seed, seconds, &Kind::ALL).tracks.concat().into_iter();
            all.filter(|planned| planned.at >= calm).map(|planned| planned.kind).collect::<Vec<_>>()
        };
        for seed in 1..20 {
            let (last, longer) = (late(seed, 60), late(seed, 90));
            assert!(!last.iter().any(|kind| kind.ends_gateways()), "{seed}: {last:?}");
            assert!(last.contains(&Kind::GatewayPause), "{seed}: {last:?}");
            assert!(longer.iter().any(|kind| kind.ends_gateways()), "{seed}: {longer:?}");
            assert_eq!(draw(seed, 60, &Kind::ALL).spares_gateways_from, Some(calm));
        }
    }

    #[test]
    fn omitted_final_faults_shift_no_other_fault() {
        let end = Duration::from_mins(1);
        let others = |seconds| {
            let mut all = draw(5, seconds, &Kind::ALL).tracks.concat();
            let is_moved = |planned: &Planned| {
                planned.kind.ends_gateways() || planned.kind.group() == Group::Store
            };
            all.retain(|planned| !is_moved(planned) && planned.at + planned.lasts < end);
            all
        };
        assert_eq!(others(60), others(90));
    }

    #[test]
    fn short_runs_end_gateways_until_the_end() {
        let late = |seed| {
            let all = draw(seed, 30, &Kind::ALL).tracks.concat().into_iter();
            all.filter(|planned| planned.at >= Duration::from_secs(27)).map(|planned| planned.kind)
        };
        assert!((1..20).flat_map(late).any(|kind| kind == Kind::GatewayTerm));
        assert_eq!(draw(1, 30, &Kind::ALL).spares_gateways_from, None, "late ones come too");
    }

    #[test]
    fn a_short_run_has_a_full_disk_and_mostly_has_not() {
        for seed in 1..20 {
            let all = draw(seed, 14, &[Kind::DiskFull]).tracks.concat();
            let full: Duration = all.iter().map(|planned| planned.lasts).sum();
            assert!(!all.is_empty() && full < Duration::from_secs(9), "{seed}: {all:?}");
        }
    }

    #[test]
    fn only_kinds_that_are_asked_for_come() {
        let kinds = Kind::named("gateway").expect("known");
        assert_eq!(kinds.len(), 3);
        let all = draw(5, 60, &kinds).tracks.concat();
        assert!(all.iter().all(|planned| kinds.contains(&planned.kind)));
        Kind::named("gremlin").expect_err("unknown");
    }
}
