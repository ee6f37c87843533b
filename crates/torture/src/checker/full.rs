//! A store that is full takes in nothing new. What was executed is recorded all the same, and what is recorded is
//! replayed.

use super::judge::SETTLE;
use super::record::{Execution, Heard};
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
        for (execution, heard) in self.asked_while_full(record) {
            *self.report.trials.entry(Rule::FullStore).or_default() += 1;
            if heard.is_outcome {
                continue;
            }
            let what =
                format!("{} was executed, and is not recorded: the store is full", execution.nonce);
            let lines = vec![execution.line, heard.sent.line, heard.told.line];
            self.accuse(Rule::FullStore, record, (execution.began, heard.told.t), lines, what);
        }
    }

    /// How often something was told that a store which was full had to record or to replay, and nothing else was wrong.
    pub(super) fn tried_while_full(&self, record: usize) -> u64 {
        let of_key = &self.records[record];
        let has_store = |heard: &&Heard| {
            let from = heard.sent.t.saturating_sub(AFTERMATH);
            self.faults.store_away(heard.gateway, from, heard.told.t).is_none()
        };
        let replays = of_key.fresh_replays.iter().filter(has_store).count();
        let settled = of_key.executions.iter().filter(|execution| {
            let (began, end) = (execution.began.saturating_sub(SLACK), execution.end());
            execution.has_outcome()
                && execution.told_first_hand.is_some()
                && self.faults.was_full(end, end)
                && self.faults.store_loss(execution.gateway, began, end + SETTLE).is_none()
        });
        (replays + settled.count()) as u64
    }

    /// Each execution that ended while the store was full, and each request that must have been told its outcome.
    fn asked_while_full(&self, record: usize) -> Vec<(Execution, Heard)> {
        let of_key = &self.records[record];
        let mut asked = Vec::new();
        for execution in of_key.executions.iter().filter(|execution| execution.has_outcome()) {
            let all = of_key.while_full.iter();
            let must_be_told = all.filter(|heard| self.must_be_told(record, execution, heard));
            asked.extend(must_be_told.map(|heard| (execution.clone(), *heard)));
        }
        asked
    }

    /// Was the outcome of this execution to be settled, and to be told to this request, though the store was full, and
    /// was nothing else wrong?
    fn must_be_told(&self, record: usize, execution: &Execution, heard: &Heard) -> bool {
        let (began, end) = (execution.began.saturating_sub(SLACK), execution.end());
        let Heard { gateway, sent, told, .. } = *heard;
        let is_in_time = end.saturating_add(SETTLE) <= sent.t && self.faults.was_full(end, told.t);
        is_in_time
            && !self.records[record].is_replaced(execution, told.t)
            && self.faults.lease_loss(execution.gateway, began, sent.t).is_none()
            && !self.faults.has_ended(execution.gateway, began, sent.t)
            && self.faults.store_away(gateway, sent.t.saturating_sub(AFTERMATH), told.t).is_none()
    }
}
