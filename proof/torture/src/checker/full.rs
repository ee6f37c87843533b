//! A store that is full takes in nothing new. What was executed is recorded all the same, and what is recorded is
//! replayed.

use super::judge::SETTLE;
use super::record::{Execution, Response};
use super::{AFTERMATH, Checker, Rule, SLACK};

// === impl Checker ===

impl Checker {
    /// The rule for what nothing excuses, if the store was full at that time.
    pub(super) fn name_full_store(&self, rule: Rule, gateway: usize, during: (u64, u64)) -> Rule {
        let is_of_store = matches!(rule, Rule::SettleFirst | Rule::CauselessRefusal);
        let from = during.0.saturating_sub(SLACK);
        let is_full = self.faults.store_full(gateway, from, during.1).is_some();
        if is_of_store && is_full { Rule::FullStore } else { rule }
    }

    /// What was executed while the store was full is replayed while it is.
    pub(super) fn judge_full(&mut self, record: usize) {
        for (execution, response) in self.asked_while_full(record) {
            *self.report.trials.entry(Rule::FullStore).or_default() += 1;
            if response.is_outcome {
                continue;
            }
            let what =
                format!("{} was executed, and is not recorded: the store is full", execution.nonce);
            let lines = vec![execution.line, response.sent.line, response.answered.line];
            self.accuse(
                Rule::FullStore,
                record,
                (execution.began, response.answered.t),
                lines,
                what,
            );
        }
    }

    /// Counts answers that a full store had to record or to replay, without another fault.
    pub(super) fn tried_while_full(&self, record: usize) -> u64 {
        let of_key = &self.records[record];
        let has_store = |response: &&Response| {
            let from = response.sent.t.saturating_sub(AFTERMATH);
            self.faults.store_away(response.gateway, from, response.answered.t).is_none()
        };
        let replays = of_key.fresh_replays.iter().filter(has_store).count();
        let settled = of_key.executions.iter().filter(|execution| {
            let (began, end) = (execution.began.saturating_sub(SLACK), execution.end());
            execution.has_outcome()
                && execution.direct_answer.is_some()
                && self.faults.was_full(end, end)
                && self.faults.store_loss(execution.gateway, began, end + SETTLE).is_none()
        });
        (replays + settled.count()) as u64
    }

    /// Each execution that ended while the store was full, and each request that must have got its outcome.
    fn asked_while_full(&self, record: usize) -> Vec<(Execution, Response)> {
        let of_key = &self.records[record];
        let mut asked = Vec::new();
        for execution in of_key.executions.iter().filter(|execution| execution.has_outcome()) {
            let all = of_key.while_full.iter();
            let must_be_answered =
                all.filter(|response| self.must_be_answered(record, execution, response));
            asked.extend(must_be_answered.map(|response| (execution.clone(), *response)));
        }
        asked
    }

    /// True if the outcome of this execution had to be settled, and answered to this request, with a full store and
    /// no other fault.
    fn must_be_answered(&self, record: usize, execution: &Execution, response: &Response) -> bool {
        let (began, end) = (execution.began.saturating_sub(SLACK), execution.end());
        let Response { gateway, sent, answered, .. } = *response;
        let is_in_time =
            end.saturating_add(SETTLE) <= sent.t && self.faults.was_full(end, answered.t);
        is_in_time
            && !self.records[record].is_replaced(execution, answered.t)
            && self.faults.lease_loss(execution.gateway, began, sent.t).is_none()
            && !self.faults.has_ended(execution.gateway, began, sent.t)
            && self
                .faults
                .store_away(gateway, sent.t.saturating_sub(AFTERMATH), answered.t)
                .is_none()
    }
}
