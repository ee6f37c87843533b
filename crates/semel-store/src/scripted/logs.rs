use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

thread_local! {
    /// What was said on this thread, if anybody listens. A test has a thread of its own, and on
    /// Tokio's runtime of one thread all its tasks run there.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps every event of Semel on this thread as text, until it is dropped.
#[derive(Debug)]
pub struct Logs {
    /// It must stay where it listens.
    not_send: PhantomData<Rc<()>>,
}

// === impl Logs ===

impl Logs {
    /// Listens from now on.
    pub fn of_this_thread() -> Self {
        Self::install();
        SAID.set(Some(String::new()));
        Self { not_send: PhantomData }
    }

    /// What was said so far, a line for each event. Only who listens may ask.
    pub fn text(&self) -> String {
        SAID.with_borrow(|said| said.clone().unwrap_or_default())
    }

    /// Makes this process listen. Every test must call it before anything is said on its threads,
    /// also one that asks for nothing: tracing remembers for each place in the code whether anybody
    /// listens, and a thread that speaks too early would have it remember that nobody does.
    ///
    /// # Panics
    ///
    /// If the process has another global subscriber.
    pub fn install() {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| {
            tracing::subscriber::set_global_default(Listener).expect("no other subscriber");
        });
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        SAID.set(None);
    }
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("semel")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        SAID.with_borrow_mut(|said| {
            if let Some(said) = said {
                event.record(&mut Fields(said));
                said.push('\n');
            }
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{field}={value:?} ").expect("a string takes all");
    }
}
