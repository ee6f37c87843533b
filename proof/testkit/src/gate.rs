use std::sync::{Arc, Condvar, Mutex};

use crate::PATIENCE;

/// Holds executions up until the test lets them go on, and tells the test that they are there.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    open: bool,
}

// === impl Gate ===

impl Gate {
    /// For the upstream: waits for the gate to be opened.
    pub fn pass(&self) {
        let mut state = self.0.state.lock().expect("a gate");
        state.arrived += 1;
        self.0.changed.notify_all();
        let wait = self.0.changed.wait_timeout_while(state, PATIENCE, |state| !state.open);
        drop(wait.expect("a gate"));
    }

    /// For the test: waits until this many executions have come to the gate, ever.
    pub fn wait_for(&self, arrivals: usize) {
        let state = self.0.state.lock().expect("a gate");
        let wait =
            self.0.changed.wait_timeout_while(state, PATIENCE, |state| state.arrived < arrivals);
        let (state, waited) = wait.expect("a gate");
        assert!(!waited.timed_out(), "{} of {arrivals} executions came", state.arrived);
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        self.0.state.lock().expect("a gate").open = true;
        self.0.changed.notify_all();
    }

    /// Closes the gate for later executions.
    pub fn close(&self) {
        self.0.state.lock().expect("a gate").open = false;
    }
}
