//! Rules that need the whole history: the explanation of each record's executions.

use super::record::{Execution, Record};
use super::{AFTERMATH, Accusation, Checker, Excuse, Report, Rule, SLACK, Suspicion};
use crate::clients::DOUBT;
use crate::history::Route;
use crate::stores::CLOCK_BACK_MAX;

/// After the faults, a key may take its lease and this much longer, in microseconds.
const LIVENESS: u64 = 5_000_000;
/// How long after its disk was full an embedded store lets leases last that were live then, in microseconds, also those of
/// a process that is gone (`OUTAGE_GRACE` in the store).
const DISK_GRACE: u64 = 10_000_000;
/// By then an outcome is settled, if nothing has happened yet: what happens later is no excuse.
pub(super) const SETTLE: u64 = 500_000;
/// How long before an execution its lease may have begun, when nothing holds the gateway up.
const CLAIM: u64 = 1_000_000;

// === impl Checker ===

impl Checker {
    pub(super) fn finish(mut self) -> Report {
        self.judge_suspicions();
        for record in 0..self.records.len() {
            self.judge_takeovers(record);
            self.judge_fences(record);
            self.judge_recorded(record);
            self.judge_full(record);
            self.judge_called_unknown(record);
            self.judge_final_answers(record);
        }
        self.judge_accusations();
        self.judge_exits();
        self.count_trials();
        self.report.keys = self.records.len() as u64;
        let unknown = self.records.iter().filter(|record| record.unknown.is_some());
        self.report.unknown = unknown.count() as u64;
        self.report
    }

    fn judge_suspicions(&mut self) {
        for suspicion in std::mem::take(&mut self.suspicions) {
            let Suspicion { rule, record, gateway, excuse, during, lines, what } = suspicion;
            if !self.is_excused(excuse, gateway, during) {
                let rule = self.name_full_store(rule, gateway, during);
                self.accuse(rule, record, during, lines, what);
            }
        }
    }

    fn judge_accusations(&mut self) {
        for accusation in std::mem::take(&mut self.accusations) {
            let Accusation { rule, record, during: (from, until), lines, what } = accusation;
            if rule.may_follow_a_loss() && self.may_be_lost(from, until) {
                let loss = self.violation(rule, record, lines, what);
                self.report.losses.push(loss);
            } else {
                self.convict(rule, record, lines, what);
            }
        }
    }

    /// True if there was such an excuse for a gateway between two moments.
    pub(super) fn is_excused(
        &self,
        excuse: Excuse,
        gateway: usize,
        (from, until): (u64, u64),
    ) -> bool {
        let before = |slack| from.saturating_sub(slack);
        match excuse {
            Excuse::Any => self.faults.any(gateway, before(SLACK), until).is_some(),
            Excuse::Gateway => self.faults.of_gateway(gateway, before(SLACK), until).is_some(),
            Excuse::Term => self.faults.is_termed(gateway, before(SLACK), until),
            Excuse::Unanswered(asked) => {
                let from = asked.saturating_sub(AFTERMATH);
                self.faults.store_loss(gateway, from, until).is_some()
            }
            Excuse::Time(least) => {
                until - from - self.faults.disturbed(gateway, from, until) < least
            }
            Excuse::StoreLoss => self.faults.store_loss(gateway, before(SLACK), until).is_some(),
            Excuse::StoreAway => {
                self.faults.store_away(gateway, before(AFTERMATH), until).is_some()
            }
            Excuse::StoreAwayOrFull => {
                self.faults.store_away(gateway, before(AFTERMATH), until).is_some()
                    || self.faults.store_full(gateway, before(AFTERMATH), until).is_some()
            }
        }
    }

    /// Each execution after another has a reason.
    fn judge_takeovers(&mut self, record: usize) {
        let mut executions = self.records[record].executions.clone();
        if executions.len() > 1 {
            self.report.executed_again += 1;
        }
        executions.sort_by_key(|execution| (execution.fence, execution.began));
        for pair in executions.windows(2) {
            let (first, second) = (&pair[0], &pair[1]);
            let Some((rule, what)) = self.fault_of(&self.records[record], first, second) else {
                continue;
            };
            let lines = vec![first.line, second.line];
            self.accuse(rule, record, (first.began, second.began), lines, what);
        }
    }

    /// What is wrong with an execution after another, if anything.
    fn fault_of(
        &self,
        record: &Record,
        first: &Execution,
        second: &Execution,
    ) -> Option<(Rule, String)> {
        let route = record.route;
        let from = first.began.saturating_sub(SLACK);
        if first.fence == second.fence {
            let crashed = self.faults.any_lease_loss(from, second.began).is_some();
            let rule = if crashed { Rule::ClaimFirst } else { Rule::OneLease };
            return Some((rule, format!("two executions with the fence {:?}", first.fence)));
        }
        if first.is_released(route, second.began) {
            return None;
        }
        if route == Route::Hold {
            let what = format!("executed again with the fence {:?}", second.fence);
            return Some((Rule::HoldExecutedAgain, what));
        }
        if second.began < first.began {
            // The first began late: see `judge_fences`.
            return None;
        }
        let until = second.began.min(first.end().saturating_add(SETTLE));
        let Some(fault) = self.faults.lease_loss(first.gateway, from, until) else {
            let overlap = second.began < first.end();
            let rule = if overlap { Rule::OneLease } else { Rule::UnexplainedExecution };
            let gateway = first.gateway;
            return Some((
                rule,
                format!("executed again; nothing had happened to gateway {gateway}"),
            ));
        };
        if self.is_self_takeover(record, first, second) {
            let (gateway, kind) = (first.gateway, &fault.kind);
            let what = format!(
                "gateway {gateway} executed {} itself, has not handed it back, and lives ({kind})",
                first.nonce
            );
            return Some((Rule::SelfTakeover, what));
        }
        // If it was only killed, its lease ran on by itself.
        let held_up = self.faults.held_up(first.gateway, from, second.began).is_some();
        let lease = self.head.lease_ms * 1_000;
        let early = second.began + CLAIM < first.began + lease;
        (!held_up && early).then(|| {
            let what = format!("taken over before its lease can have run out ({})", fault.kind);
            (Rule::OneLease, what)
        })
    }

    /// A lower fence comes after a higher one only from a gateway that was held up.
    fn judge_fences(&mut self, record: usize) {
        let mut executions = self.records[record].executions.clone();
        executions.sort_by_key(|execution| execution.began);
        let Some(mut highest) = executions.first().cloned() else { return };
        for execution in executions.into_iter().skip(1) {
            if execution.fence >= highest.fence {
                highest = execution;
                continue;
            }
            // It was granted its lease before the other was, and that one only when this had run out.
            let lease = self.head.lease_ms * 1_000;
            let from = highest.began.saturating_sub(lease + SLACK);
            if self.faults.held_up(execution.gateway, from, execution.began).is_some() {
                self.report.late += 1;
                continue;
            }
            let what = format!("fence {:?} after {:?}", execution.fence, highest.fence);
            let lines = vec![highest.line, execution.line];
            let during = (highest.began, execution.began);
            self.accuse(Rule::FenceWentBack, record, during, lines, what);
        }
    }

    /// No later lease was granted than that of the recorded outcome.
    fn judge_recorded(&mut self, record: usize) {
        let of_key = &self.records[record];
        let (Some(recorded), Some(answer)) = (of_key.recorded(), &of_key.answer) else { return };
        let later = of_key.executions.iter().find(|other| other.fence > recorded.fence);
        let Some(later) = later else { return };
        let rule = if later.began > answer.at.t { Rule::SettledIsFinal } else { Rule::Fenced };
        let what = format!(
            "{} with the fence {:?} is recorded, and {} was executed with {:?}",
            recorded.nonce, recorded.fence, later.nonce, later.fence
        );
        let lines = vec![recorded.line, answer.at.line, later.line];
        let during = (recorded.began, later.began.max(answer.at.t));
        self.accuse(rule, record, during, lines, what);
    }

    /// *Unknown* is never answered during an execution, unless its lease may have been lost.
    fn judge_called_unknown(&mut self, record: usize) {
        for (sent, answered) in self.records[record].unknowns.clone() {
            let Some(execution) = self.leased_during(record, sent.t, answered.t) else { continue };
            let Execution { nonce, gateway, began, line, .. } = execution;
            let (during, lines) = ((*began, answered.t), vec![*line, sent.line, answered.line]);
            let what = format!(
                "called unknown while {nonce} was executed; nothing had happened to gateway {gateway}"
            );
            self.accuse(Rule::OneLease, record, during, lines, what);
        }
    }

    /// An execution that went on all the time, and that nothing may have cost its lease.
    fn leased_during(&self, record: usize, from: u64, until: u64) -> Option<&Execution> {
        self.records[record].executions.iter().find(|execution| {
            let (gateway, since) = (execution.gateway, execution.began.saturating_sub(SLACK));
            // If it ends just then, it may have been found to be unknown.
            execution.goes_on(from, until + SLACK)
                && self.faults.lease_loss(gateway, since, until).is_none()
                // A gateway that is being stopped may abandon it.
                && !self.faults.has_ended(gateway, since, until)
        })
    }

    /// When all faults were over, everything came to an end. A run that broke off was not over.
    fn judge_final_answers(&mut self, record: usize) {
        let of_key = &self.records[record];
        let Some(from) = of_key.first_invoke.filter(|_| self.report.is_whole) else { return };
        let (Some(first), Some(last)) = (of_key.first_read, of_key.last_read) else {
            let what = "its final answer was never requested".to_owned();
            return self.convict(Rule::Liveness, record, Vec::new(), what);
        };
        let until = of_key.final_answers.iter().map(|(_, at)| at.t).max().unwrap_or(last.t);
        let lines = vec![first.line, last.line];
        if of_key.final_answers.len() < self.head.gateways {
            return self.judge_missing_answers(record, (from, until), lines);
        }
        let back = if self.faults.clock_went_back() { CLOCK_BACK_MAX * 1_000 } else { 0 };
        let limit = self.head.lease_ms * 1_000 + LIVENESS + back;
        let grace = self.faults.disk_was_full().map_or(0, |full| full + DISK_GRACE + LIVENESS);
        let latest = grace.max(first.t + limit) + self.faults.stalled(first.t, until);
        if until > latest {
            let what = format!("the final answer took {} ms", (until - first.t) / 1_000);
            return self.convict(Rule::Liveness, record, lines, what);
        }
        if of_key.answer.is_none() {
            self.judge_unknown(record, from, until, lines);
        }
    }

    /// Not every gateway gave a final answer.
    fn judge_missing_answers(&mut self, record: usize, during: (u64, u64), lines: Vec<u64>) {
        let of_key = &self.records[record];
        let (all, asked, finals) =
            (self.head.gateways, of_key.asked.len(), of_key.final_answers.len());
        let answered = of_key.finished_gateways();
        if asked < all {
            let what =
                format!("only {asked} of {all} gateways were asked for a final answer in time");
            return self.convict(Rule::Liveness, record, lines, what);
        }
        if of_key.was_known_before_reads() {
            let what = format!(
                "it was answered before, and {finals} of {all} gateways have a final answer"
            );
            self.accuse(Rule::AnswerLost, record, during, lines.clone(), what);
        }
        // A refusal for the body is an answer too, though a wrong one: see `on_failure`.
        if answered < all {
            let what = format!("{finals} of {all} gateways have a final answer");
            self.convict(Rule::Liveness, record, lines, what);
        }
    }

    /// An unknown outcome has a reason.
    fn judge_unknown(&mut self, record: usize, from: u64, until: u64, mut lines: Vec<u64>) {
        let latest = self.records[record].executions.iter().max_by_key(|one| one.began);
        let Some(latest) = latest.cloned() else {
            return self.judge_orphan(record, (from, until), lines);
        };
        // It was released, and the holder of the next lease executed nothing.
        let was_released = latest.ended.as_ref().is_some_and(|ended| ended.status == 503);
        if was_released {
            return self.judge_orphan(record, (latest.end(), until), lines);
        }
        let last_read = self.records[record].last_read.map_or(0, |read| read.t);
        let was_cut = latest.ended.as_ref().is_some_and(|ended| ended.status == 0);
        let (began, end) =
            (latest.began.saturating_sub(SLACK), latest.end().saturating_add(SETTLE));
        lines.push(latest.line);
        lines.extend(latest.ended.as_ref().map(|ended| ended.line));
        if !was_cut && self.faults.lease_loss(latest.gateway, began, end).is_none() {
            let what = format!("{} was not disturbed, and its outcome is unknown", latest.nonce);
            self.accuse(Rule::Detached, record, (from, until), lines, what);
        } else if self.had_time_to_settle(self.records[record].route, &latest, last_read) {
            let what =
                format!("gateway {} lives, and never settled {}", latest.gateway, latest.nonce);
            self.accuse(Rule::SettlingGivenUp, record, (from, until), lines, what);
        }
    }

    /// True if an execution has an outcome, and its gateway lived until the key was last found held, with its store
    /// up for as long as settling may take. Under `hold` there is no takeover meanwhile.
    pub(super) fn had_time_to_settle(
        &self,
        route: Route,
        execution: &Execution,
        last_read: u64,
    ) -> bool {
        let from = execution.began.saturating_sub(SLACK);
        execution.has_outcome()
            && route == Route::Hold
            && !self.faults.has_ended(execution.gateway, from, last_read)
            && self.faults.longest_quiet(execution.end(), last_read) >= doubt()
    }

    /// Held, and never executed: a lease was granted without a confirmation. A live holder detects that and releases
    /// the lease as soon as it can.
    fn judge_orphan(&mut self, record: usize, (from, until): (u64, u64), lines: Vec<u64>) {
        if self.is_orphan_accused(record, from.saturating_sub(SLACK)) {
            let what =
                "held, and nothing was executed; the holder of its lease is alive".to_owned();
            self.accuse(Rule::HeldUnexecuted, record, (from, until), lines, what);
        }
    }

    /// True if a live holder had the time to release the lease, granted after `from`, of a held record.
    fn is_orphan_accused(&self, record: usize, from: u64) -> bool {
        let unknown = self.records[record].unknown;
        unknown.is_some_and(|(first, latest)| self.had_time_to_hand_back(from, first, latest))
    }

    /// The same of a record that was held when it was asked for at `first`, and still at `latest`.
    ///
    /// When it was first found held, its lease had run out. If no gateway had died by then, the holder
    /// lived, and had until its death, or until it was last found held.
    pub(super) fn had_time_to_hand_back(&self, from: u64, first: u64, latest: u64) -> bool {
        if self.faults.first_end(from, first).is_some() {
            return false;
        }
        let end = self.faults.first_end(first, latest).unwrap_or(latest);
        let ran_out_since = first.saturating_sub(self.head.lease_ms * 1_000);
        self.faults.longest_quiet(ran_out_since, end) >= doubt()
    }
}

/// How long a gateway may take to find out what became of a lease, or to settle, when its store is there.
fn doubt() -> u64 {
    u64::try_from(DOUBT.as_micros()).unwrap_or(u64::MAX)
}
