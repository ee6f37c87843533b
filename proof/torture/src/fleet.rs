//! The gateways: real processes, each of which may be dead, frozen or starting.

mod gateway;
mod setup;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;

use crate::history::{Event, History, Wish};
use crate::proxy::Proxy;
use crate::stop;

pub(crate) use gateway::Gateway;
use gateway::Start;
pub(crate) use setup::Setup;

/// Of all routes. Short, so that it runs out often.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// How long a gateway may take to be there again, its store's faults included.
const START_LIMIT: Duration = Duration::from_mins(2);
/// How long one that runs may take to be ready when nothing is broken any more.
const READY_LIMIT: Duration = Duration::from_secs(20);
const BETWEEN_STARTS: Duration = Duration::from_millis(100);
/// How long a gateway may take to end when it is asked to. It lets executions end first.
const TERM_LIMIT: Duration = Duration::from_secs(40);

/// All gateways, each behind a proxy that clients connect to.
pub(crate) struct Fleet {
    program: PathBuf,
    environment: Vec<(String, String)>,
    places: Vec<Place>,
    history: History,
}

struct Place {
    number: usize,
    config: PathBuf,
    log: PathBuf,
    front: Proxy,
    gateway: Mutex<Option<Gateway>>,
}

// === impl Fleet ===

impl Fleet {
    /// Starts one gateway for each proxy.
    pub(crate) fn start(
        program: &Path,
        environment: &[(String, String)],
        setups: &[Setup],
        fronts: Vec<Proxy>,
        scratch: &Path,
        history: History,
    ) -> anyhow::Result<Self> {
        let mut places = Vec::new();
        for (number, (setup, front)) in setups.iter().zip(fronts).enumerate() {
            let config = scratch.join(format!("gateway-{number}.toml"));
            setup.write(&config)?;
            let log = scratch.join(format!("gateway-{number}.log"));
            places.push(Place { number, config, log, front, gateway: Mutex::default() });
        }
        let (program, environment) = (program.to_owned(), environment.to_owned());
        let fleet = Self { program, environment, places, history };
        for number in 0..fleet.len() {
            // Nothing is broken yet: what does not start now never will.
            let failed = fleet.launch(number, &mut fleet.gateway(number))?;
            anyhow::ensure!(failed.is_none(), "gateway {number}: {}", failed.unwrap_or_default());
            fleet.wait_until_ready(number, START_LIMIT)?;
        }
        Ok(fleet)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The way from the clients to a gateway.
    pub(crate) fn front(&self, number: usize) -> &Proxy {
        &self.places[number].front
    }

    /// `kill -9`.
    pub(crate) fn kill(&self, number: usize) -> anyhow::Result<()> {
        let mut gateway = self.gateway(number);
        self.check_alive(number, gateway.as_mut())?;
        self.places[number].front.lead_to(None);
        // Its counters go with it.
        self.note_refused(number, gateway.as_ref());
        *gateway = None;
        Ok(())
    }

    /// SIGTERM, and waits for its end. Fails if it does not end by itself, or crashes.
    pub(crate) fn terminate(&self, number: usize) -> anyhow::Result<()> {
        let mut gateway = self.gateway(number);
        self.check_alive(number, gateway.as_mut())?;
        self.note_refused(number, gateway.as_ref());
        let Some(running) = gateway.take() else { return Ok(()) };
        let place = &self.places[number];
        let since = self.history.clock().now();
        let ended = running.terminate(TERM_LIMIT);
        place.front.lead_to(None);
        let has_cut = !ended.with_context(|| format!("gateway {number}"))?;
        let said = has_cut.then(|| gateway::last_lines(&place.log));
        self.note_asked(number, Wish::End, since, said.as_deref());
        Ok(())
    }

    /// Starts a gateway that was killed or terminated, as often as it takes: its store may be away. Whether
    /// it was is for the checker to say.
    pub(crate) fn start_again(&self, number: usize) -> anyhow::Result<()> {
        let mut gateway = self.gateway(number);
        let clock = self.history.clock();
        let began = clock.elapsed();
        loop {
            let since = clock.now();
            let failed = self.launch(number, &mut gateway)?;
            self.note_asked(number, Wish::Start, since, failed.as_deref());
            let Some(why) = failed else { return Ok(()) };
            let is_late = clock.is_over(began, START_LIMIT);
            anyhow::ensure!(!is_late, "gateway {number}: {why}");
            stop::sleep(BETWEEN_STARTS);
        }
    }

    pub(crate) fn pause(&self, number: usize) -> anyhow::Result<()> {
        let mut gateway = self.gateway(number);
        self.check_alive(number, gateway.as_mut())?;
        gateway.as_ref().map_or(Ok(()), Gateway::pause)
    }

    pub(crate) fn resume(&self, number: usize) -> anyhow::Result<()> {
        self.gateway(number).as_ref().map_or(Ok(()), Gateway::resume)
    }

    /// When all faults are over: waits until all are ready, which takes a moment.
    pub(crate) fn wait_until_all_ready(&self) -> anyhow::Result<()> {
        (0..self.len()).try_for_each(|number| self.wait_until_ready(number, READY_LIMIT))
    }

    /// Writes down what all gateways have counted.
    pub(crate) fn note_all_refused(&self) {
        for number in 0..self.len() {
            self.note_refused(number, self.gateway(number).as_ref());
        }
    }

    /// A gateway that exited by itself: its exit status and its last output.
    pub(crate) fn find_dead(&self) -> Option<String> {
        (0..self.len()).find_map(|number| {
            // One that is being started or stopped is checked by the task that does it.
            let mut gateway = self.places[number].gateway.try_lock().ok()?;
            self.check_alive(number, gateway.as_mut()).err().map(|dead| dead.to_string())
        })
    }

    /// A process that exited by itself must not be stopped or paused: that would hide its exit.
    fn check_alive(&self, number: usize, gateway: Option<&mut Gateway>) -> anyhow::Result<()> {
        let Some(status) = gateway.and_then(Gateway::has_ended) else { return Ok(()) };
        let said = gateway::last_lines(&self.places[number].log);
        anyhow::bail!("gateway {number} ended by itself ({status}) and said:\n{said}")
    }

    /// One start. Why it failed, if it did; a crash is an error.
    fn launch(
        &self,
        number: usize,
        gateway: &mut Option<Gateway>,
    ) -> anyhow::Result<Option<String>> {
        let Place { config, log, front, .. } = &self.places[number];
        let start = Gateway::start(&self.program, config, log, &self.environment);
        match start.with_context(|| format!("gateway {number}"))? {
            Start::Listens(started) => {
                front.lead_to(started.listen());
                *gateway = Some(started);
                Ok(None)
            }
            Start::Failed(why) => Ok(Some(why)),
        }
    }

    fn wait_until_ready(&self, number: usize, limit: Duration) -> anyhow::Result<()> {
        let clock = self.history.clock();
        let began = clock.elapsed();
        while !self.gateway(number).as_ref().is_some_and(Gateway::is_ready) {
            stop::check()?;
            let is_late = clock.is_over(began, limit);
            anyhow::ensure!(!is_late, "gateway {number} is not ready after {limit:?}");
            std::thread::sleep(BETWEEN_STARTS);
        }
        Ok(())
    }

    /// Writes down what a gateway was asked for, and, if it failed, the end of what it said.
    fn note_asked(&self, number: usize, to: Wish, since: u64, failed: Option<&str>) {
        let gateway = self.places[number].number;
        let note = failed.and_then(|said| said.lines().last()).unwrap_or_default().to_owned();
        self.history.note(Event::Asked { gateway, to, since, done: failed.is_none(), note });
    }

    fn note_refused(&self, number: usize, gateway: Option<&Gateway>) {
        let count = gateway.map_or(0, Gateway::refused);
        if count > 0 {
            self.history.note(Event::Refused { gateway: self.places[number].number, count });
        }
    }

    fn gateway(&self, number: usize) -> MutexGuard<'_, Option<Gateway>> {
        self.places[number].gateway.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
