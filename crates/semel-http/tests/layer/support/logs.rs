use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

thread_local! {
    /// What was said on this thread, if anybody listens. A test has a thread of its own, and all
    /// its tasks run there.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps every event of this thread as text, until it is dropped.
pub(crate) struct Logs(());

impl Logs {
    pub(crate) fn of_this_thread() -> Self {
        SAID.set(Some(String::new()));
        Self(())
    }

    #[expect(clippy::unused_self, reason = "only who listens may ask")]
    pub(crate) fn text(&self) -> String {
        SAID.with_borrow(|said| said.clone().unwrap_or_default())
    }

    /// Must come before anything is said on any thread. Tracing remembers for each place in the
    /// code whether anybody listens, and a thread without a subscriber of its own would have it
    /// remember that nobody does, also for those who have one.
    pub(crate) fn install() {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| tracing::subscriber::set_global_default(Listener).unwrap());
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
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}
