//! The budget of file descriptors: their limit, and its division.
//!
//! A process without free descriptors can neither reach its store nor write its files. So a reserve is kept for those,
//! and connections of clients and to the upstream share the rest.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Limits;

/// The reserve for the store and its files, logs, the admin address, threads and rejected connections.
const RESERVE: usize = 768;
/// The part of the reserve for uses without a limit of their own: standard streams, listeners, logs, the store's log
/// and the tables that it writes, reopening it, and connections to a store on a server.
const OTHERS: usize = 64;
/// Descriptors that a worker thread keeps open.
const PER_WORKER: usize = 4;
/// Upper limits, beyond which more are of no use: tables of the store, rejected connections, admin connections.
const TABLES_MAX: usize = 400;
const REJECTED_MAX: usize = 256;
const ADMIN_MAX: usize = 64;

/// The division of the file descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorBudget {
    /// The limit of this process.
    pub(crate) limit: usize,
    pub(crate) reserve: Reserve,
    /// Connections of clients.
    pub(crate) clients: usize,
    /// Connections to the upstream.
    pub(crate) upstream: usize,
}

/// The division of the reserve. Each part is a limit, except for `others`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserve {
    pub(crate) whole: usize,
    pub(crate) others: usize,
    /// Tables that the embedded store keeps open.
    pub(crate) tables: usize,
    /// Connections over the limit that are rejected with a response at a time.
    pub(crate) rejected: usize,
    /// Connections of the admin address.
    pub(crate) admin: usize,
}

/// Raises the limit of file descriptors of this process to the hard limit; returns the limit before and after.
///
/// A shell or a service manager often sets a soft limit of 1,024 below a far higher hard limit, for programs that use
/// `select`. This one does not.
pub fn raise() -> (u64, u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (before, most) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    (before, if raised.is_ok() { most } else { before })
}

// === impl DescriptorBudget ===

impl DescriptorBudget {
    /// Divides the present limit of this process, with `workers` threads that serve.
    pub(crate) fn now(limits: &Limits, workers: usize) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self::of(limit, workers, limits.max_connections, limits.max_upstream_connections)
    }

    /// Each side gets what it is configured for, if the limit suffices. Otherwise each gets half of what the reserve
    /// leaves, and what the other side does not use of its half.
    fn of(limit: usize, workers: usize, clients: usize, upstream: usize) -> Self {
        let reserve = Reserve::of(RESERVE.min(limit / 2), workers);
        let rest = limit - reserve.whole;
        let clients_max = clients.min(rest - upstream.min(rest / 2)).max(1);
        let upstream_max = upstream.min(rest.saturating_sub(clients_max)).max(1);
        Self { limit, reserve, clients: clients_max, upstream: upstream_max }
    }

    /// Logs the division, with a warning and a cure if it is less than was configured.
    pub(crate) fn log(self, limits: &Limits) {
        let Self { limit, reserve, clients, upstream } = self;
        let (reserve, tables) = (reserve.whole, reserve.tables);
        tracing::info!(limit, reserve, tables, clients, upstream, "file descriptors");
        let (wanted, wanted_upstream) = (limits.max_connections, limits.max_upstream_connections);
        if clients < wanted || upstream < wanted_upstream {
            tracing::warn!(
                "the limit of {limit} file descriptors has room for {clients} connections of clients (max_connections \
                 is {wanted}) and {upstream} to the upstream (max_upstream_connections is {wanted_upstream}); raise it \
                 (LimitNOFILE= of systemd, ulimit -Hn), or lower these"
            );
        }
    }
}

// === impl Reserve ===

impl Reserve {
    /// Each part gets at least one.
    fn of(whole: usize, workers: usize) -> Self {
        let others = OTHERS.saturating_add(PER_WORKER.saturating_mul(workers)).min(whole / 2);
        let rest = whole - others;
        let admin = (rest / 8).clamp(1, ADMIN_MAX);
        let rejected = (rest / 4).clamp(1, REJECTED_MAX);
        let tables = rest.saturating_sub(admin + rejected).clamp(1, TABLES_MAX);
        Self { whole, others, tables, rejected, admin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: usize, clients: usize, upstream: usize) -> (usize, usize, usize) {
        let DescriptorBudget { reserve, clients, upstream, .. } =
            DescriptorBudget::of(limit, 2, clients, upstream);
        assert!(reserve.whole + clients + upstream <= limit.max(2), "{limit}");
        (reserve.whole, clients, upstream)
    }

    #[test]
    fn each_side_gets_what_is_configured_if_the_limit_suffices() {
        assert_eq!(budget(1 << 20, 10_000, 8_000), (768, 10_000, 8_000));
        assert_eq!(budget(20_000, 10_000, 8_000), (768, 10_000, 8_000));
        assert_eq!(budget(usize::MAX, 10_000, 8_000), (768, 10_000, 8_000));
    }

    #[test]
    fn the_reserve_is_never_used_for_connections() {
        assert_eq!(budget(4_096, 10_000, 8_000), (768, 1_664, 1_664));
        assert_eq!(budget(4_096, 100, 8_000), (768, 100, 3_228));
        assert_eq!(budget(4_096, 10_000, 100), (768, 3_228, 100));
        assert_eq!(budget(1_024, 10_000, 8_000), (512, 256, 256));
        assert_eq!(budget(256, 10_000, 8_000), (128, 64, 64));
        assert_eq!(budget(0, 10_000, 8_000), (0, 1, 1));
    }

    /// A regression: the store kept 400 tables open whatever the limit, of a reserve of 128 or 512.
    #[test]
    fn the_parts_of_the_reserve_fit_into_it() {
        let parts = |limit, workers| {
            let Reserve { whole, others, tables, rejected, admin } =
                DescriptorBudget::of(limit, workers, 10_000, 8_000).reserve;
            assert!(others + tables + rejected + admin <= whole, "{limit}, {workers}");
            assert!(others >= (OTHERS + PER_WORKER * workers).min(whole / 2), "{limit}, {workers}");
            [others, tables, rejected, admin]
        };
        assert_eq!(parts(256, 2), [64, 40, 16, 8]);
        assert_eq!(parts(512, 2), [72, 115, 46, 23]);
        assert_eq!(parts(1_024, 2), [72, 275, 110, 55]);
        assert_eq!(parts(65_536, 2), [72, 400, 174, 64]);
        // More threads leave less for the rest.
        assert_eq!(parts(1_024, 64), [256, 160, 64, 32]);
        assert_eq!(parts(65_536, 64), [320, 280, 112, 56]);
    }

    #[test]
    fn a_limit_is_raised_as_far_as_the_system_allows() {
        let (before, now) = raise();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
        assert!(before <= now && now == current.unwrap_or(u64::MAX));
    }
}
