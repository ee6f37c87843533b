use std::sync::{Arc, Condvar, Mutex};

use super::PATIENCE;

/// Holds executions up until the test lets them go on, and tells the test that they are there.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    arrived: usize,
    open: bool,
}

// === impl Gate ===

impl Gate {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// For the upstream: waits for the gate to be opened.
    pub(crate) fn pass(&self) {
        let mut state = self.0.state.lock().expect("a gate");
        state.arrived += 1;
        self.0.changed.notify_all();
        let wait = self.0.changed.wait_timeout_while(state, PATIENCE, |state| !state.open);
        drop(wait.expect("a gate"));
    }

    /// For the test: waits until this many executions have come to the gate, ever.
    pub(crate) fn wait_for(&self, arrivals: usize) {
        let state = self.0.state.lock().expect("a gate");
        let wait =
            self.0.changed.wait_timeout_while(state, PATIENCE, |state| state.arrived < arrivals);
        let (state, waited) = wait.expect("a gate");
        assert!(!waited.timed_out(), "{} of {arrivals} executions came", state.arrived);
    }

    /// Opens the gate for good.
    pub(crate) fn open(&self) {
        self.0.state.lock().expect("a gate").open = true;
        self.0.changed.notify_all();
    }

    /// Closes the gate for later executions.
    pub(crate) fn close(&self) {
        self.0.state.lock().expect("a gate").open = false;
    }
}
