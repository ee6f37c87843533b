use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_store::Clock as _;
use tokio_util::sync::CancellationToken;

use crate::clock::ServerTime;
use crate::oracle::{Moment, Oracle, Verdict};
use crate::plan::Plan;
use crate::random::Random;
use crate::trace::{Source, Trace};
use crate::{Fault, Mistake, Options, Statistics, Violation};

/// What everything in one run shares. Cheap to clone.
#[derive(Clone)]
pub(crate) struct World(Arc<Parts>);

struct Parts {
    plan: Plan,
    clock: Arc<ServerTime>,
    mistake: Option<Mistake>,
    /// Set when a rule is broken: the run ends there.
    broken: CancellationToken,
    inner: Mutex<Inner>,
}

struct Inner {
    random: Random,
    trace: Trace,
    statistics: Statistics,
    oracle: Oracle,
    violation: Option<Violation>,
}

// === impl World ===

impl World {
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::draw(&mut random.fork());
        let inner = Inner {
            random: random.fork(),
            trace: Trace::new(options.is_traced),
            statistics: Statistics::default(),
            oracle: Oracle::new(&plan),
            violation: None,
        };
        Self(Arc::new(Parts {
            plan,
            clock: Arc::new(ServerTime::start()),
            mistake: options.mistake,
            broken: CancellationToken::new(),
            inner: Mutex::new(inner),
        }))
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.0.plan
    }

    pub(crate) fn clock(&self) -> &Arc<ServerTime> {
        &self.0.clock
    }

    pub(crate) fn broken(&self) -> &CancellationToken {
        &self.0.broken
    }

    /// Whether this mistake was planted.
    pub(crate) fn has(&self, mistake: Mistake) -> bool {
        self.0.mistake == Some(mistake)
    }

    /// How much simulated time has passed.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.clock.elapsed()
    }

    /// Whether all faults are over.
    pub(crate) fn is_calm(&self) -> bool {
        self.elapsed() >= self.0.plan.horizon
    }

    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.inner().random)
    }

    pub(crate) fn note(&self, source: Source, what: fmt::Arguments<'_>) {
        let at = self.elapsed();
        self.inner().trace.note(at, source, what);
    }

    pub(crate) fn count(&self, fault: Fault) {
        self.inner().statistics.count(fault);
    }

    pub(crate) fn tally(&self, change: impl FnOnce(&mut Statistics)) {
        change(&mut self.inner().statistics);
    }

    /// Counts a fault that may keep a node from doing its part, for `lasting` from now.
    pub(crate) fn fault(&self, fault: Fault, node: Option<usize>, lasting: Duration) {
        let until = self.elapsed() + lasting;
        let mut inner = self.inner();
        inner.statistics.count(fault);
        inner.oracle.troubled(node, until);
    }

    /// Reports an event to the oracle, and ends the run if a rule is broken.
    pub(crate) fn report<T>(
        &self,
        report: impl FnOnce(&mut Oracle, Moment) -> Result<T, Violation>,
    ) -> Option<T> {
        let moment = self.moment();
        let mut inner = self.inner();
        match report(&mut inner.oracle, moment) {
            Ok(value) => Some(value),
            Err(violation) => {
                inner.trace.note(moment.at, Source::Simulator, format_args!("BROKEN: {violation}"));
                inner.violation.get_or_insert(violation);
                self.0.broken.cancel();
                None
            }
        }
    }

    /// Queries the oracle.
    pub(crate) fn query<T>(&self, query: impl FnOnce(&Oracle, Moment) -> T) -> T {
        let moment = self.moment();
        query(&self.inner().oracle, moment)
    }

    /// The same as [`report`](Self::report), for events without a result.
    pub(crate) fn judge(&self, judge: impl FnOnce(&mut Oracle, Moment) -> Verdict) {
        self.report(judge);
    }

    fn moment(&self) -> Moment {
        Moment { at: self.elapsed(), now: self.0.clock.now() }
    }

    /// The result of the run.
    pub(crate) fn close(&self) -> (Statistics, Option<Violation>, Option<String>) {
        let simulated = self.elapsed();
        let mut inner = self.inner();
        let trace = std::mem::replace(&mut inner.trace, Trace::new(false));
        let mut statistics = std::mem::take(&mut inner.statistics);
        statistics.seeds = 1;
        statistics.events = trace.lines();
        statistics.simulated = simulated;
        inner.oracle.sum_up(&mut statistics);
        (statistics, inner.violation.take(), trace.into_text())
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
