//! How often each rule was really tried: without a fault that would have excused its breach. These are
//! the N of the rule of three.

use super::answers::ANSWER_TIMEOUT_MS;
use super::judge::SETTLE;
use super::record::{Execution, Record};
use super::{Checker, Excuse, RequestEnd, Rule, SLACK};
use crate::history::{Purpose, Route};

// === impl Checker ===

impl Checker {
    pub(super) fn count_trials(&mut self) {
        for record in 0..self.records.len() {
            self.count_of_record(record);
            self.count_of_executions(record);
        }
        self.count_of_requests();
    }

    fn count_of_record(&mut self, number: usize) {
        let record = &self.records[number];
        let answered = &record.answers;
        let is_read = record.first_read.is_some() && self.report.is_whole;
        let counts = [
            (Rule::OneAnswer, answered.outcomes),
            (Rule::NoSuchExecution, answered.outcomes),
            (Rule::ScopeCanary, answered.outcomes),
            (Rule::Cookies, answered.replays),
            (Rule::SettledIsFinal, answered.after_outcome),
            (Rule::MismatchInert, answered.mismatches),
            (Rule::Fenced, u64::from(record.answer.is_some() && self.has_stale_holder(record))),
            (Rule::AnswerLost, u64::from(record.was_known_before_reads() && is_read)),
            (Rule::Liveness, u64::from(is_read)),
            (Rule::FullStore, self.tried_while_full(number)),
            (Rule::HeldUnexecuted, u64::from(is_read && self.may_be_orphan(record))),
        ];
        self.count(number, &counts);
    }

    /// True if a key would be a violation, had it been held in the last reads. It would have been requested again
    /// then, with those that were.
    fn may_be_orphan(&self, record: &Record) -> bool {
        let (Some(first), Some(again)) = (record.first_read, self.asked_again) else {
            return false;
        };
        let from = record.first_invoke.unwrap_or_default().saturating_sub(SLACK);
        // If it is held, and was executed, that is why.
        let is_explained = record.answer.is_none() && !record.executions.is_empty();
        record.route == Route::Hold
            && !is_explained
            && self.had_time_to_hand_back(from, first.t, again)
    }

    /// True if this execution would be a violation, had its key been held in the last reads. It would have been
    /// requested again then, with those that were.
    fn would_be_given_up(&self, record: &Record, execution: &Execution) -> bool {
        let last_read = record.last_read.map_or(0, |read| read.t);
        let until = self.asked_again.map_or(last_read, |again| again.max(last_read));
        self.had_time_to_settle(record.route, execution, until)
    }

    /// True if a lease was granted after one that was not released, and whose holder lived. Then that one may have
    /// written late.
    fn has_stale_holder(&self, record: &Record) -> bool {
        let mut executions: Vec<&Execution> = record.executions.iter().collect();
        executions.sort_by_key(|execution| (execution.fence, execution.began));
        executions.windows(2).any(|pair| {
            let (holder, next) = (pair[0], pair[1].began);
            !holder.is_released(record.route, next)
                && !self.faults.has_ended(holder.gateway, holder.began, next)
        })
    }

    fn count_of_executions(&mut self, number: usize) {
        let record = &self.records[number];
        let is_hold = record.route == Route::Hold;
        let first = record.first_invoke.unwrap_or_default().saturating_sub(SLACK);
        let earliest = record.executions.iter().map(|execution| execution.began).min();
        let mut counts = Vec::new();
        for execution in &record.executions {
            let Execution { gateway, began, .. } = *execution;
            let (from, until) =
                (began.saturating_sub(SLACK), execution.end().saturating_add(SETTLE));
            let keeps_lease = self.faults.lease_loss(gateway, from, until).is_none();
            let has_store = self.faults.store_loss(gateway, from, until).is_none();
            let may_go_back = earliest.is_some_and(|earliest| earliest < began)
                && self.faults.held_up(gateway, first, began).is_none();
            let has_outcome = execution.has_outcome();
            // What was handed back may be executed again.
            let is_only = !execution.is_released(record.route, u64::MAX);
            let is_left = has_outcome && is_hold && record.is_left_alone(execution);
            counts.extend([
                (Rule::ClaimFirst, 1),
                (Rule::OneLease, u64::from(keeps_lease && record.is_rivalled(execution))),
                (Rule::FenceWentBack, u64::from(may_go_back)),
                (Rule::SettleFirst, u64::from(has_store && has_outcome)),
                (Rule::HoldExecutedAgain, u64::from(is_only && is_hold)),
                (Rule::UnexplainedExecution, u64::from(is_only && keeps_lease && !is_hold)),
                (Rule::Detached, u64::from(keeps_lease && is_left)),
                (Rule::SelfTakeover, u64::from(self.may_take_over_from_itself(record, execution))),
                (
                    Rule::SettlingGivenUp,
                    u64::from(!has_store && self.would_be_given_up(record, execution)),
                ),
            ]);
        }
        self.count(number, &counts);
    }

    fn count_of_requests(&mut self) {
        for closed in std::mem::take(&mut self.closed) {
            let during = (closed.from, closed.until);
            let is_without = |excuse| !self.is_excused(excuse, closed.gateway, during);
            let is_calm = is_without(Excuse::Any);
            let follows_probe = closed.purpose == Purpose::AfterProbe;
            // A request without an answer shows nothing, unless it waited for long enough.
            let is_answered = closed.end.is_answer();
            let has_waited = match closed.end {
                RequestEnd::NothingFor(millis) => millis >= ANSWER_TIMEOUT_MS,
                _ => is_answered,
            };
            let is_used = is_answered || closed.end == RequestEnd::Broken;
            let is_refusal_tried = match closed.end {
                RequestEnd::Refused(cause) => is_without(cause),
                // It could have been any refusal.
                RequestEnd::Answer => is_calm && is_without(Excuse::StoreAwayOrFull),
                _ => false,
            };
            for (rule, is_tried) in [
                (Rule::Bounded, is_calm && has_waited),
                (Rule::DrainedBody, is_calm && follows_probe && is_used),
                (Rule::CauselessRefusal, is_refusal_tried),
            ] {
                *self.report.trials.entry(rule).or_default() += u64::from(is_tried);
            }
        }
    }

    /// What a lost record would excuse does not count where one may have been lost.
    fn count(&mut self, record: usize, counts: &[(Rule, u64)]) {
        let of_key = &self.records[record];
        let from = of_key.first_invoke.unwrap_or_default();
        let is_safe = !self.may_be_lost(from, of_key.last_seen.max(from));
        for (rule, count) in counts {
            if is_safe || !rule.may_follow_a_loss() {
                *self.report.trials.entry(*rule).or_default() += count;
            }
        }
    }
}
