//! A history that is written by hand. Times are in milliseconds.

use crate::checker::{Report, Rule, check_lines};
use crate::history::{Effect, Event, Head, Line, Purpose, Route, Tier, Wish};

/// Two gateways with a lease of 2 s. All is about one record, unless said otherwise.
pub(super) struct Story {
    lines: Vec<Line>,
    scope: u8,
    route: Route,
    key: String,
    faults: u64,
    /// The executions with an answered outcome; further answers of them are replays.
    answered: Vec<String>,
}

/// What an outcome comes with.
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) digest: String,
    /// What the upstream said, if it is not what it ended with.
    pub(super) said: Option<String>,
    pub(super) scope: Option<u8>,
    pub(super) key: String,
    pub(super) replayed: bool,
    pub(super) cookies: bool,
    pub(super) stored: &'static str,
}

// === impl Story ===

impl Story {
    pub(super) fn new() -> Self {
        Self::of_tier(Tier::Strong)
    }

    pub(super) fn of_tier(tier: Tier) -> Self {
        let head = Head {
            seed: 1,
            store: "redis".to_owned(),
            tier,
            seconds: 1,
            gateways: 2,
            clients: 1,
            lease_ms: 2_000,
            kinds: Vec::new(),
            versions: String::new(),
            command: String::new(),
        };
        let lines = vec![Line { t: 0, event: Event::Head(head) }];
        Self {
            lines,
            scope: 0,
            route: Route::Hold,
            key: "k".to_owned(),
            faults: 0,
            answered: Vec::new(),
        }
    }

    /// What follows is about this route.
    pub(super) fn on(&mut self, route: Route) -> &mut Self {
        self.route = route;
        self
    }

    pub(super) fn with_key(&mut self, key: &str) -> &mut Self {
        key.clone_into(&mut self.key);
        self
    }

    pub(super) fn call(&mut self, ms: u64, op: u64, gateway: usize) -> &mut Self {
        self.invoke(ms, op, gateway, Purpose::Call)
    }

    pub(super) fn read(&mut self, ms: u64, op: u64, gateway: usize) -> &mut Self {
        self.invoke(ms, op, gateway, Purpose::Read)
    }

    pub(super) fn invoke(
        &mut self,
        ms: u64,
        op: u64,
        gateway: usize,
        purpose: Purpose,
    ) -> &mut Self {
        let (scope, route, key) = (self.scope, self.route, self.key.clone());
        self.add(ms, Event::Invoke { op, purpose, gateway, scope, route, key })
    }

    pub(super) fn begin(&mut self, ms: u64, nonce: &str, gateway: usize, fence: u64) -> &mut Self {
        self.begin_with(ms, nonce, gateway, Some(fence), 0)
    }

    pub(super) fn begin_with(
        &mut self,
        ms: u64,
        nonce: &str,
        gateway: usize,
        fence: Option<u64>,
        variant: u8,
    ) -> &mut Self {
        let (scope, route, key, nonce) =
            (self.scope, self.route, self.key.clone(), nonce.to_owned());
        self.add(ms, Event::Begin { nonce, gateway, scope, route, key, fence, variant })
    }

    pub(super) fn end(&mut self, ms: u64, nonce: &str, status: u16) -> &mut Self {
        let (nonce, digest) = (nonce.to_owned(), said(nonce, status));
        self.add(ms, Event::End { nonce, status, digest })
    }

    pub(super) fn ok(&mut self, ms: u64, op: u64, nonce: &str) -> &mut Self {
        self.ok_with(ms, op, nonce, |_| ())
    }

    pub(super) fn ok_with(
        &mut self,
        ms: u64,
        op: u64,
        nonce: &str,
        change: impl FnOnce(&mut Answered),
    ) -> &mut Self {
        let mut answered = Answered {
            status: 201,
            digest: format!("bytes of {nonce}"),
            said: None,
            scope: Some(self.scope),
            key: self.key.clone(),
            replayed: self.answered.iter().any(|answered| answered == nonce),
            cookies: false,
            stored: "yes",
        };
        self.answered.push(nonce.to_owned());
        change(&mut answered);
        let Answered { status, digest, said: other, scope, key, replayed, cookies, stored } =
            answered;
        let said = other.unwrap_or_else(|| said(nonce, status));
        let (nonce, stored) = (nonce.to_owned(), stored.to_owned());
        let effect = Effect { nonce, said, scope, key, replayed };
        self.add(ms, Event::Ok { op, status, effect, digest, cookies, stored })
    }

    /// The upstream's own refusal, by which nothing has happened.
    pub(super) fn gave_back(&mut self, ms: u64, op: u64, nonce: &str) -> &mut Self {
        self.gave_back_with(ms, op, nonce, |_| ())
    }

    pub(super) fn gave_back_with(
        &mut self,
        ms: u64,
        op: u64,
        nonce: &str,
        change: impl FnOnce(&mut Effect),
    ) -> &mut Self {
        let (scope, key) = (Some(self.scope), self.key.clone());
        let (nonce, said) = (nonce.to_owned(), said(nonce, 503));
        let mut effect = Effect { nonce, said, scope, key, replayed: false };
        change(&mut effect);
        let (code, effect) = ("upstream".to_owned(), Some(effect));
        self.add(ms, Event::Fail { op, status: 503, code, retry_after: false, effect })
    }

    pub(super) fn fail(&mut self, ms: u64, op: u64, status: u16, code: &str) -> &mut Self {
        self.refuse(ms, op, status, code, true)
    }

    /// A refusal that does not say when to come again.
    pub(super) fn fail_for_good(&mut self, ms: u64, op: u64, status: u16, code: &str) -> &mut Self {
        self.refuse(ms, op, status, code, false)
    }

    fn refuse(
        &mut self,
        ms: u64,
        op: u64,
        status: u16,
        code: &str,
        retry_after: bool,
    ) -> &mut Self {
        let code = code.to_owned();
        self.add(ms, Event::Fail { op, status, code, retry_after, effect: None })
    }

    pub(super) fn info(&mut self, ms: u64, op: u64, why: &str) -> &mut Self {
        self.add(ms, Event::Info { op, why: why.to_owned() })
    }

    /// A fault of a gateway, or of all if none is named.
    pub(super) fn fault(&mut self, from: u64, to: u64, kind: &str, hits: &[usize]) -> &mut Self {
        self.fault_with(from, to, kind, hits, (false, None))
    }

    /// A fault of all gateways that was noted and struck so often.
    pub(super) fn fault_that_struck(
        &mut self,
        from: u64,
        to: u64,
        kind: &str,
        struck: u64,
    ) -> &mut Self {
        self.fault_with(from, to, kind, &[], (false, Some(struck)))
    }

    /// A fault of what is before the truth.
    pub(super) fn near_fault(&mut self, from: u64, to: u64, kind: &str, on: usize) -> &mut Self {
        self.fault_with(from, to, kind, &[on], (true, None))
    }

    fn fault_with(
        &mut self,
        from: u64,
        to: u64,
        kind: &str,
        hits: &[usize],
        (near, struck): (bool, Option<u64>),
    ) -> &mut Self {
        self.faults += 1;
        let (id, kind, hits) = (self.faults, kind.to_owned(), hits.to_vec());
        self.add(from, Event::Fault { id, kind, hits, near, note: String::new() });
        self.add(to, Event::Healed { id, struck })
    }

    /// A gateway is asked for something, and at `to` it has done so, or failed.
    pub(super) fn asked(
        &mut self,
        (from, to): (u64, u64),
        gateway: usize,
        wish: Wish,
        done: bool,
    ) -> &mut Self {
        let note = if done { String::new() } else { "error: no luck".to_owned() };
        self.add(to, Event::Asked { gateway, to: wish, since: micros(from), done, note })
    }

    /// A part of the run begins.
    pub(super) fn phase(&mut self, ms: u64, name: &str) -> &mut Self {
        self.add(ms, Event::Phase { name: name.to_owned() })
    }

    /// All last reads are done. Without it the run broke off.
    pub(super) fn over(&mut self) -> &mut Self {
        self.phase(600_000, "over")
    }

    fn add(&mut self, ms: u64, event: Event) -> &mut Self {
        self.lines.push(Line { t: micros(ms), event });
        self
    }

    pub(super) fn text(&self) -> String {
        let line = |line: &Line| serde_json::to_string(line).expect("JSON") + "\n";
        self.lines.iter().map(line).collect()
    }

    pub(super) fn report(&self) -> Report {
        check_lines(self.text().as_bytes()).expect("a history")
    }

    /// It breaks these, and no others.
    #[track_caller]
    pub(super) fn breaks(&self, rules: &[Rule]) {
        let report = self.report();
        let mut expected: Vec<&str> = rules.iter().map(|rule| rule.as_str()).collect();
        expected.sort_unstable();
        let mut broken = report.broken();
        broken.sort_unstable();
        assert_eq!(broken, expected, "{report}");
    }
}

/// Late enough that what is before it is not before the run.
fn micros(ms: u64) -> u64 {
    (ms + 60_000) * 1_000
}

fn said(nonce: &str, status: u16) -> String {
    format!("{status} and what {nonce} said")
}
