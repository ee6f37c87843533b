//! The gateways: real processes, each of which may be dead, frozen or starting.

mod gateway;
mod setup;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;

use crate::history::{Event, History};
use crate::proxy::Proxy;
use crate::stop;

pub(crate) use gateway::Gateway;
pub(crate) use setup::Setup;

/// Of all routes. Short, so that it runs out often.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// How long a gateway may take to be there again, its store's faults included.
const START_LIMIT: Duration = Duration::from_mins(2);
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
            fleet.launch(number, &mut fleet.gateway(number), Duration::ZERO)?;
            fleet.wait_until_ready(number)?;
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
    pub(crate) fn kill(&self, number: usize) {
        let mut gateway = self.gateway(number);
        self.places[number].front.lead_to(None);
        // Its counters go with it.
        self.note_refused(number, gateway.as_ref());
        *gateway = None;
    }

    /// SIGTERM, and waits for its end. Fails if it does not end by itself, or badly.
    pub(crate) fn terminate(&self, number: usize) -> anyhow::Result<()> {
        let mut gateway = self.gateway(number);
        self.note_refused(number, gateway.as_ref());
        let Some(running) = gateway.take() else { return Ok(()) };
        let ended = running.terminate(TERM_LIMIT);
        self.places[number].front.lead_to(None);
        ended.with_context(|| format!("gateway {number}"))
    }

    /// Starts a gateway that was killed or terminated.
    pub(crate) fn start_again(&self, number: usize) -> anyhow::Result<()> {
        self.launch(number, &mut self.gateway(number), START_LIMIT)
    }

    pub(crate) fn pause(&self, number: usize) -> anyhow::Result<()> {
        self.gateway(number).as_ref().map_or(Ok(()), Gateway::pause)
    }

    pub(crate) fn resume(&self, number: usize) -> anyhow::Result<()> {
        self.gateway(number).as_ref().map_or(Ok(()), Gateway::resume)
    }

    /// Starts those that have ended by themselves, and waits until all are ready.
    pub(crate) fn wait_until_all_ready(&self) -> anyhow::Result<()> {
        (0..self.len()).try_for_each(|number| self.wait_until_ready(number))
    }

    /// Writes down what all gateways have counted.
    pub(crate) fn note_all_refused(&self) {
        for number in 0..self.len() {
            self.note_refused(number, self.gateway(number).as_ref());
        }
    }

    /// Has a gateway ended that nobody ended? Then how, and what it said.
    pub(crate) fn find_dead(&self) -> Option<String> {
        (0..self.len()).find_map(|number| {
            let mut gateway = self.gateway(number);
            let status = gateway.as_mut()?.has_ended()?;
            let said = gateway::last_lines(&self.places[number].log);
            Some(format!("gateway {number} ended by itself ({status}) and said:\n{said}"))
        })
    }

    fn launch(
        &self,
        number: usize,
        gateway: &mut Option<Gateway>,
        limit: Duration,
    ) -> anyhow::Result<()> {
        let place = &self.places[number];
        let clock = self.history.clock();
        let began = clock.elapsed();
        loop {
            stop::check()?;
            match Gateway::start(&self.program, &place.config, &place.log, &self.environment) {
                Ok(started) => {
                    place.front.lead_to(Some(started.listen()));
                    *gateway = Some(started);
                    return Ok(());
                }
                // Its store may be away.
                Err(_) if !clock.is_over(began, limit) => stop::sleep(BETWEEN_STARTS),
                Err(error) => return Err(error.context(format!("gateway {number}"))),
            }
        }
    }

    fn wait_until_ready(&self, number: usize) -> anyhow::Result<()> {
        let clock = self.history.clock();
        let began = clock.elapsed();
        while !self.gateway(number).as_ref().is_some_and(Gateway::is_ready) {
            stop::check()?;
            anyhow::ensure!(!clock.is_over(began, START_LIMIT), "gateway {number} is not ready");
            std::thread::sleep(BETWEEN_STARTS);
        }
        Ok(())
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
