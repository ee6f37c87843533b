//! A gateway that lives never takes over from itself: it knows that it executes, or what it has to settle.

use super::judge::SETTLE;
use super::record::{Execution, LATE, Record, Response};
use super::{Checker, SLACK};
use crate::history::Route;

// === impl Checker ===

impl Checker {
    /// True if one execution follows the other in the same process, which knew of the first.
    ///
    /// The two are adjacent among the executions. If their fences are not, leases in between were granted without an
    /// execution. If another process had been granted one, the settlement of the first would have been refused, and
    /// the gateway would be done with it. A lease of the same process, as of a late claim, is adopted by the first.
    pub(super) fn is_self_takeover(
        &self,
        record: &Record,
        first: &Execution,
        second: &Execution,
    ) -> bool {
        let (Some(fence), Some(later)) = (first.fence, second.fence) else { return false };
        // One that never ended was lost by the upstream, and may have been handed back.
        let is_known = first.ended.is_some();
        let from = first.began.saturating_sub(SLACK);
        first.gateway == second.gateway
            && fence < later
            && is_known
            && !self.faults.has_ended(first.gateway, from, second.began)
            && (later == fence + 1 || self.are_leases_between_its_own(record, first, second))
    }

    /// True if only the process that executed can have been granted the leases between two executions: no other
    /// gateway got a request for the key, nor had this one ended, within the time in which its claims may arrive
    /// late.
    fn are_leases_between_its_own(
        &self,
        record: &Record,
        first: &Execution,
        second: &Execution,
    ) -> bool {
        let (gateway, until) = (first.gateway, second.began);
        !record.may_be_claimed_elsewhere(gateway, first.began, until)
            && !self.faults.has_ended(gateway, first.began.saturating_sub(LATE), until)
    }

    /// True if a gateway could have taken over from itself: it could not reach the store for longer than the lease
    /// while it executed or settled, and after that it answered a retry of the record before its outcome was known.
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
            let is_trial = |retry: &Response| self.is_retry_of(record, execution, lapses, retry);
            record.retries.iter().any(is_trial)
        })
    }

    /// True if the executing process answered this retry after the lease had expired, without another execution.
    fn is_retry_of(
        &self,
        record: &Record,
        execution: &Execution,
        lapses: u64,
        retry: &Response,
    ) -> bool {
        let Response { gateway, sent, answered, .. } = retry;
        let from = execution.began.saturating_sub(SLACK);
        *gateway == execution.gateway
            && lapses <= sent.t
            && !record.is_replaced(execution, sent.t)
            && !self.faults.has_ended(*gateway, from, answered.t)
    }
}
