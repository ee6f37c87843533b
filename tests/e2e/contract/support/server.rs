//! Servers that gateways share.

use std::any::Any;

/// A server with a store for several gateways.
pub(crate) trait Server: Sized + 'static {
    /// The kind of store, as metrics call it.
    const KIND: &str;

    /// One that the test may stop. It loses nothing.
    fn start() -> Self;

    /// A new store on it.
    fn store(&self) -> String;

    /// A new store on the one that all tests share, which is never stopped.
    fn shared_store() -> String;

    /// A new store on one whose clock differs from ours by so many milliseconds, and what keeps it.
    fn shifted_store(by: i64) -> (Box<dyn Any>, String);

    /// Ends it in a moment, with everything that was acknowledged.
    fn kill(&self);
    fn stop(&self);
    fn start_again(&self);
    /// The server stops answering, and connections stay open.
    fn pause(&self);
    fn resume(&self);
}
