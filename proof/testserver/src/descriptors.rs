use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A process that can open nothing more, until this is dropped. For tests that have a process to themselves: what
/// runs beside them can open nothing either.
#[derive(Debug)]
pub struct NoDescriptors {
    before: Rlimit,
}

// === impl NoDescriptors ===

impl NoDescriptors {
    /// From now on. What is open stays open.
    ///
    /// # Panics
    ///
    /// If the system refuses to lower a limit of this process.
    pub fn begin() -> Self {
        let before = getrlimit(Resource::Nofile);
        let none = Rlimit { current: Some(0), ..before };
        setrlimit(Resource::Nofile, none).expect("a limit may be lowered");
        Self { before }
    }
}

impl Drop for NoDescriptors {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = setrlimit(Resource::Nofile, self.before);
    }
}
