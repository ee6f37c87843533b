//! A gateway that lives never takes over from itself: it knows that it executes, or what it has to settle.

use super::judge::SETTLE;
use super::record::{Execution, Heard, Record};
use super::{Checker, SLACK};
use crate::history::Route;

// === impl Checker ===

impl Checker {
    /// Does one execution follow the other in one and the same process, which knew of the first?
    ///
    /// Only if its lease is the very next one. Had there been one between them, it would have been another's, and
    /// the settlement of the first refused: then the gateway is done with it.
    pub(super) fn is_self_takeover(&self, first: &Execution, second: &Execution) -> bool {
        let is_next = first.fence.is_some_and(|fence| second.fence == Some(fence + 1));
        // One that never ended was lost by the upstream, and may have been handed back.
        let is_known = first.ended.is_some();
        let from = first.began.saturating_sub(SLACK);
        first.gateway == second.gateway
            && is_next
            && is_known
            && !self.faults.has_ended(first.gateway, from, second.began)
    }

    /// Had a gateway the occasion to take over from itself? The store was away for longer than the lease while it
    /// executed or settled, and after that time it told a retry of the record, before its outcome was known.
    pub(super) fn may_take_over_from_itself(&self, record: &Record, execution: &Execution) -> bool {
        if record.route != Route::Reexecute
            || execution.ended.is_none()
            || execution.is_released(record.route, u64::MAX)
        {
            return false;
        }
        let until = execution.end().saturating_add(SETTLE);
        let outages = self.faults.outages(execution.gateway, execution.began, until);
        let lease = self.head.lease_ms * 1_000;
        outages.iter().any(|(began, _)| {
            let lapses = (*began).max(execution.began) + lease;
            let is_trial = |retry: &Heard| self.is_retry_of(record, execution, lapses, retry);
            record.retries.iter().any(is_trial)
        })
    }

    /// Was this retry told by the process that executed, after the lease had run out, and nobody else had executed?
    fn is_retry_of(
        &self,
        record: &Record,
        execution: &Execution,
        lapses: u64,
        retry: &Heard,
    ) -> bool {
        let Heard { gateway, sent, told, .. } = retry;
        let from = execution.began.saturating_sub(SLACK);
        *gateway == execution.gateway
            && lapses <= sent.t
            && !record.is_replaced(execution, sent.t)
            && !self.faults.has_ended(*gateway, from, told.t)
    }
}
