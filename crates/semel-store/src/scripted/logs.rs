use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

thread_local! {
    /// The events of this thread, while a [`Logs`] exists. A test has a thread of its own, and on
    /// Tokio's runtime of one thread all its tasks run there.
    static CAPTURED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps every event of Semel on this thread as text, until it is dropped.
#[derive(Debug)]
pub struct Logs {
    /// It belongs to its thread.
    not_send: PhantomData<Rc<()>>,
}

// === impl Logs ===

impl Logs {
    /// Captures from now on.
    pub fn of_this_thread() -> Self {
        Self::install();
        CAPTURED.set(Some(String::new()));
        Self { not_send: PhantomData }
    }

    /// The events so far, one line each.
    pub fn text(&self) -> String {
        CAPTURED.with_borrow(|captured| captured.clone().unwrap_or_default())
    }

    /// Installs the subscriber of this process. Every test must call it before the first event on its threads,
    /// also one that captures nothing: tracing caches for each call site whether a subscriber is interested,
    /// and an event before the installation would cache that none is.
    ///
    /// # Panics
    ///
    /// If the process has another global subscriber.
    pub fn install() {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| {
            tracing::subscriber::set_global_default(CaptureSubscriber)
                .expect("no other subscriber");
        });
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        CAPTURED.set(None);
    }
}

struct CaptureSubscriber;

impl Subscriber for CaptureSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("semel")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        CAPTURED.with_borrow_mut(|captured| {
            if let Some(captured) = captured {
                event.record(&mut Fields(captured));
                captured.push('\n');
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
