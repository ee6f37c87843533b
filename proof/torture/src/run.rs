//! One run: a store, gateways, an upstream and clients; faults; last reads; and the check.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::{Builder, Runtime};

use crate::checker::{Report, check};
use crate::clients::{Crew, DOUBT, Target, World, read_all};
use crate::effects::{EffectFile, EffectLog, Effects, Shares, compare};
use crate::fleet::{Fleet, LEASE, Setup};
use crate::history::{Event, Head, History, HistoryFile};
use crate::nemesis::{Kind, Nemesis, Schedule, Terms};
use crate::program::version;
use crate::proxy::Proxy;
use crate::rng::Rng;
use crate::stop;
use crate::stores::{Ground, StoreKind, Stores};
use crate::time::Clock;

/// How often the machine is looked at, and how late a look must be to count as a stall. Short ones are
/// noted too: it is their sum that costs a lease.
const LOOK_EVERY: Duration = Duration::from_millis(40);
const STALL: Duration = Duration::from_millis(200);
/// How often the gateways are looked at.
const LOOK_AT_GATEWAYS_EVERY: Duration = Duration::from_millis(400);
/// A gateway's memory of settled records, if it has one.
const CACHE_BYTES: u64 = 2 << 20;
/// Of a hundred keys.
const SLOW_PERCENT: u64 = 5;
/// Of a hundred executions.
const REFUSED_PERCENT: u64 = 5;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// On which store.
    pub store: StoreKind,
    /// Everything is drawn from it.
    pub seed: u64,
    /// How long there are faults.
    pub seconds: u64,
    /// How many clients.
    pub clients: usize,
    /// Of a hundred keys, how many take longer than the lease.
    pub slow_percent: u64,
    /// Of a hundred executions that are not slow, how many say that nothing happened.
    pub refused_percent: u64,
    /// Only these faults, if any are named.
    pub kinds: Option<Vec<Kind>>,
    /// Where the history goes; else it is removed unless something is wrong.
    pub history: Option<PathBuf>,
    /// The gateway's program.
    pub semel: PathBuf,
    /// What the gateways have in their environment.
    pub environment: Vec<(String, String)>,
}

/// What came of it.
#[derive(Debug)]
pub struct Done {
    /// What the checker says, of as much as happened.
    pub report: Report,
    /// Why it did not come to its end as it should, if so.
    pub failure: Option<String>,
    /// What could not be run, and why.
    pub missing: Option<(Kind, String)>,
    /// Where everything is, if something was wrong.
    pub kept: Option<PathBuf>,
}

/// Says so when it is dropped.
struct Over<'a>(&'a AtomicBool);

/// Runs, checks, and clears up. Fails if nothing could be begun, or if it was stopped and nothing was
/// wrong until then; a run that began and broke off is checked like any other.
pub fn run(plan: &Plan) -> anyhow::Result<Done> {
    let scratch = tempfile::Builder::new().prefix("semel-torture-").tempdir()?;
    match run_in(plan, scratch.path()) {
        Ok(done) if done.is_good() => Ok(done),
        Ok(done) if stop::is_stopped() && done.report.violations.is_empty() => {
            Err(anyhow::anyhow!(done.failure.unwrap_or_default()))
        }
        Ok(done) => Ok(Done { kept: Some(scratch.keep()), ..done }),
        Err(error) if stop::is_stopped() => Err(error),
        Err(error) => Err(error.context(format!("the logs are in {}", scratch.keep().display()))),
    }
}

fn run_in(plan: &Plan, scratch: &Path) -> anyhow::Result<Done> {
    let file = plan.history.clone().unwrap_or_else(|| scratch.join("history.jsonl"));
    let (writing, history) = HistoryFile::create(&file, Clock::start())?;
    let (effects, log) = EffectFile::create(&scratch.join("effects.jsonl"), history.clone())?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut missing = None;
    let happened = happen(plan, scratch, &runtime, &history, log, &mut missing);
    drop(history);
    // Whatever still writes ends with it.
    runtime.shutdown_timeout(Duration::from_secs(5));
    let effects = effects.finish();
    let file = writing.finish()?;
    let (report, happened) = match (check(&file), happened) {
        (Ok(report), happened) => (report, happened),
        // Most likely it had not begun, and there is nothing to check.
        (Err(_), Err(error)) | (Err(error), Ok(())) => return Err(error),
    };
    let is_true = effects.and_then(|log| compare(&log, &file));
    let failure = happened.and(is_true).err().map(|error| format!("{error:#}"));
    Ok(Done { report, failure, missing, kept: None })
}

/// Everything of a run but the check.
fn happen(
    plan: &Plan,
    scratch: &Path,
    runtime: &Runtime,
    history: &History,
    log: EffectLog,
    missing: &mut Option<(Kind, String)>,
) -> anyhow::Result<()> {
    let gateways = plan.store.gateways();
    let mut kinds = plan.kinds();
    let ground = Ground {
        runtime,
        program: &plan.semel,
        scratch,
        gateways,
        seed: plan.seed,
        fails_over: kinds.contains(&Kind::StoreFailover),
    };
    let stores = Stores::start(plan.store, &ground).context("the store does not start")?;
    *missing = stores.missing().map(|(kind, why)| (kind, why.to_owned()));
    kinds.retain(|known| missing.as_ref().is_none_or(|(kind, _)| known != kind));
    history.note(Event::Head(plan.head(&kinds, &stores)));
    let shares = Shares { slow_percent: plan.slow_percent, refused_percent: plan.refused_percent };
    let upstream = Effects::start(plan.seed, shares, history.clone(), log);
    let effects = runtime.block_on(upstream)?;
    let setups: Vec<Setup> =
        (0..gateways).map(|number| plan.setup(number, &effects, &stores)).collect();
    let mut fronts = Vec::new();
    for number in 0..gateways as u64 {
        let seed = Rng::of(plan.seed, "front", number).next_u64();
        fronts.push(runtime.block_on(Proxy::start(seed))?);
    }
    let addresses = fronts.iter().map(Proxy::address).collect();
    let environment = &plan.environment;
    let fleet = Fleet::start(&plan.semel, environment, &setups, fronts, scratch, history.clone())?;
    let world = Arc::new(World::new(plan.seed, history.clone(), addresses));
    let schedule = plan.draw(&kinds, stores.links().len());
    let nemesis = Nemesis::new(&fleet, &stores, history);
    with_watch(&fleet, &stores, history, || {
        let touched = suffer(plan, runtime, &world, &nemesis, &schedule)?;
        fleet.wait_until_all_ready()?;
        recover(plan, runtime, &world, touched)?;
        fleet.note_all_refused();
        world.history.note(Event::Phase { name: "over".to_owned() });
        Ok(())
    })
}

/// The faults. What the clients had to do with.
fn suffer(
    plan: &Plan,
    runtime: &Runtime,
    world: &Arc<World>,
    nemesis: &Nemesis<'_>,
    schedule: &Schedule,
) -> anyhow::Result<Vec<Target>> {
    world.history.note(Event::Phase { name: "faults".to_owned() });
    let crew = Crew::start(runtime, world, plan.clients);
    let struck = nemesis.strike_all(schedule, Duration::from_secs(plan.seconds));
    world.history.note(Event::Phase { name: "calm".to_owned() });
    let touched = runtime.block_on(crew.stop())?;
    struck?;
    stop::check()?;
    Ok(touched)
}

/// After the faults: the final answer for every key.
fn recover(
    plan: &Plan,
    runtime: &Runtime,
    world: &Arc<World>,
    touched: Vec<Target>,
) -> anyhow::Result<()> {
    world.history.note(Event::Phase { name: "reads".to_owned() });
    let unknown = runtime.block_on(read_all(world, touched, plan.clients))?;
    // A gateway hands a lease back whose grant was not acknowledged, and one that could not settle
    // does so in the end, unless it has died before. Each has that time from when its key was found held, so
    // it is counted from the last of these reads.
    if !unknown.is_empty() {
        stop::sleep(DOUBT);
        runtime.block_on(read_all(world, unknown, plan.clients))?;
    }
    stop::check()
}

/// Runs it while the machine, the store and the gateways are monitored.
fn with_watch<T>(
    fleet: &Fleet,
    stores: &Stores,
    history: &History,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| watch_machine(history, &is_over));
        scope.spawn(|| stores.watch(history, &is_over));
        let dead = scope.spawn(|| watch_gateways(fleet, &is_over));
        let result = until_over(&is_over, work);
        match dead.join() {
            Ok(Some(dead)) => {
                Err(result.err().unwrap_or_else(|| anyhow::anyhow!("it went on"))).context(dead)
            }
            _ => result,
        }
    })
}

/// Runs it, and signals its end; also on a panic, as a scope waits for all monitors.
fn until_over<T>(is_over: &AtomicBool, work: impl FnOnce() -> T) -> T {
    let _over = Over(is_over);
    work()
}

/// Records stalls of the machine: leases may have expired then without another fault.
fn watch_machine(history: &History, is_over: &AtomicBool) {
    let clock = history.clock();
    while !is_over.load(Ordering::Relaxed) {
        let before = clock.now();
        thread::sleep(LOOK_EVERY);
        let late = Duration::from_micros(clock.now() - before).saturating_sub(LOOK_EVERY);
        if late > STALL {
            note_stall(history, before, "the runner was not woken");
        }
    }
}

fn watch_gateways(fleet: &Fleet, is_over: &AtomicBool) -> Option<String> {
    while !is_over.load(Ordering::Relaxed) {
        if let Some(dead) = fleet.find_dead() {
            eprintln!("{dead}");
            return Some(dead);
        }
        thread::sleep(LOOK_AT_GATEWAYS_EVERY);
    }
    None
}

/// The machine stood still since `from`.
pub(crate) fn note_stall(history: &History, from: u64, what: &str) {
    let id = history.note_unplanned(from, "stall", what.to_owned());
    history.note(Event::Healed { id, struck: None });
}

// === impl Over ===

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

// === impl Done ===

impl Done {
    /// True if it was completed without a violation.
    pub fn is_good(&self) -> bool {
        self.failure.is_none() && self.report.violations.is_empty()
    }

    /// For programs: one line of JSON.
    pub fn result(&self) -> String {
        let mut result = self.report.to_json();
        if let Some(failure) = &self.failure {
            result["error"] = failure.as_str().into();
        }
        result.to_string()
    }
}

// === impl Plan ===

impl Plan {
    /// A run of the usual size, with all faults that its store knows.
    pub fn new(store: StoreKind, seed: u64, seconds: u64, semel: PathBuf) -> Self {
        Self {
            store,
            seed,
            seconds,
            clients: 64,
            slow_percent: SLOW_PERCENT,
            refused_percent: REFUSED_PERCENT,
            kinds: None,
            history: None,
            semel,
            environment: Vec::new(),
        }
    }

    /// The faults that it may have.
    pub fn kinds(&self) -> Vec<Kind> {
        let general = Kind::ALL.into_iter().filter(|kind| {
            let name = kind.as_str();
            let is_back = name.starts_with("back-") && self.store != StoreKind::Embedded;
            name.starts_with("gateway-") || name.starts_with("front-") || is_back
        });
        // The possible losses of a promoted replica excuse much. So every other run on a cluster has no promotion,
        // and its results have no such excuse. Its servers have automatic failover disabled too: a machine that is
        // busy for a second would be enough. It depends on the seed alone, so that the seed repeats the run.
        let is_steady = self.store == StoreKind::RedisCluster && self.seed.is_multiple_of(2);
        let all = general.chain(self.store.kinds().iter().copied());
        all.filter(|kind| match &self.kinds {
            Some(only) => only.contains(kind),
            None => !(is_steady && *kind == Kind::StoreFailover),
        })
        .collect()
    }

    /// Its faults, before anything is started. What cannot be run here is not known yet.
    pub fn schedule(&self) -> Schedule {
        let links = match self.store {
            StoreKind::Embedded => 0,
            StoreKind::Redis | StoreKind::Postgres => self.store.gateways(),
            StoreKind::RedisCluster | StoreKind::Tiered => self.store.gateways() * 2,
        };
        self.draw(&self.kinds(), links)
    }

    fn draw(&self, kinds: &[Kind], links: usize) -> Schedule {
        let length = Duration::from_secs(self.seconds);
        let gateways = self.store.gateways();
        Schedule::draw(&Terms { seed: self.seed, length, gateways, links, kinds })
    }

    fn setup(&self, number: usize, effects: &Effects, stores: &Stores) -> Setup {
        let mut rng = Rng::of(self.seed, "setup", number as u64);
        Setup {
            upstream: effects.url_for(number),
            store: stores.url(number).to_owned(),
            // Some remember what is settled, and some always ask.
            cache_bytes: if rng.percent(50) { CACHE_BYTES } else { 0 },
        }
    }

    fn head(&self, kinds: &[Kind], stores: &Stores) -> Head {
        Head {
            seed: self.seed,
            store: self.store.as_str().to_owned(),
            tier: self.store.tier(),
            seconds: self.seconds,
            gateways: self.store.gateways(),
            clients: self.clients,
            lease_ms: u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX),
            kinds: kinds.iter().map(|kind| kind.as_str().to_owned()).collect(),
            versions: format!("{}, {}", version(&self.semel), stores.versions()),
            command: self.command(),
        }
    }

    /// The command that repeats it.
    pub fn command(&self) -> String {
        let mut command = format!(
            "cargo run --release -p semel-torture -- run --store {} --seed {} --seconds {} --clients {}",
            self.store.as_str(),
            self.seed,
            self.seconds,
            self.clients
        );
        if self.slow_percent != SLOW_PERCENT {
            let _ = write!(command, " --slow-percent {}", self.slow_percent);
        }
        if self.refused_percent != REFUSED_PERCENT {
            let _ = write!(command, " --refused-percent {}", self.refused_percent);
        }
        if let Some(kinds) = &self.kinds {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
            let _ = write!(command, " --faults {}", names.join(","));
        }
        for (name, value) in &self.environment {
            let _ = write!(command, " --gateway-env {name}={value}");
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The story: the monitors of a run that had panicked never ended, and the panic was not reported.
    #[test]
    fn a_panicking_task_is_over() {
        let is_over = AtomicBool::new(false);
        let panicked =
            std::panic::catch_unwind(|| until_over::<()>(&is_over, || panic!("on purpose")));
        panicked.expect_err("a panic");
        assert!(is_over.into_inner());
    }

    #[test]
    fn every_other_run_on_a_cluster_loses_no_records() {
        let plan = |store, seed| Plan::new(store, seed, 100, PathBuf::new());
        let fails_over = |plan: &Plan| plan.kinds().contains(&Kind::StoreFailover);
        assert!(fails_over(&plan(StoreKind::RedisCluster, 1)));
        let mut steady = plan(StoreKind::RedisCluster, 2);
        assert!(!fails_over(&steady));
        assert!(steady.kinds().contains(&Kind::StoreHandover));
        assert!(steady.kinds().contains(&Kind::StorePause));
        steady.kinds = Some(vec![Kind::StoreFailover]);
        assert!(fails_over(&steady), "an explicit setting wins");
    }

    /// The next run on a cluster is as many seeds later as there are stores.
    #[test]
    fn of_all_stores_in_turn_every_other_run_on_a_cluster_is_steady() {
        let fails_over = |seed| {
            let plan = Plan::new(StoreKind::RedisCluster, seed, 100, PathBuf::new());
            plan.kinds().contains(&Kind::StoreFailover)
        };
        let stores = StoreKind::ALL.len() as u64;
        for seed in 1..20 {
            assert_ne!(fails_over(seed), fails_over(seed + stores), "{seed}");
        }
    }
}
