//! A lack of resources in this process, distinguished from a store that is down.
//!
//! A process without a free descriptor cannot call its store, even a healthy one. If that counted as an
//! outage, the breaker would open for all, and routes that fail open would execute without protection: one
//! client that holds enough connections could turn protection off. The same holds for the local ports towards a
//! store.

use std::error::Error;
use std::io;

/// The operating system's errors for a process, or a machine, that is out of a resource: `ENOMEM`, `ENFILE`, `EMFILE`,
/// `ENOBUFS`, and `EADDRNOTAVAIL` where all local ports towards an address are in use.
const CODES: [i32; 5] = [12, 23, 24, 105, 99];

/// Whether an error means that this process is out of descriptors, memory or local ports. Underlying errors count.
pub fn is_exhaustion(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return is_code(error);
        }
        cause = error.source();
    }
    false
}

/// The same for an error that may have lost its code, such as that of a DNS lookup or of fjall, by testing whether a
/// file can be opened now.
pub fn is_exhausted(error: &(dyn Error + 'static)) -> bool {
    is_exhaustion(error) || lacks_descriptors()
}

/// Whether this process can open no further file.
pub fn lacks_descriptors() -> bool {
    !has_descriptors(1)
}

/// Whether this process can open `count` files now. That may change before it does.
pub fn has_descriptors(count: usize) -> bool {
    // The root directory always exists, and opening it has no effect.
    let open = |_| std::fs::File::open("/").map_err(|error| is_code(&error));
    let opened: Result<Vec<_>, bool> = (0..count).map(open).collect();
    opened.map_or_else(|is_lacking| !is_lacking, |_| true)
}

fn is_code(error: &io::Error) -> bool {
    if let Some(code) = error.raw_os_error() {
        return CODES.contains(&code);
    }
    error.kind() == io::ErrorKind::OutOfMemory
        || error.get_ref().is_some_and(|inner| is_exhaustion(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_exhaustion_is_distinguished_from_errors_of_the_server() {
        for code in CODES {
            let error = io::Error::from_raw_os_error(code);
            assert!(is_exhaustion(&error), "{error}");
            let wrapped = io::Error::other(io::Error::from_raw_os_error(code));
            assert!(is_exhaustion(&wrapped), "{wrapped}");
        }
        assert!(is_exhaustion(&io::Error::from(io::ErrorKind::OutOfMemory)));
        // Refused, reset, timed out, no space.
        for code in [111, 104, 110, 28] {
            assert!(!is_exhaustion(&io::Error::from_raw_os_error(code)), "{code}");
        }
        assert!(!is_exhaustion(&io::Error::other("a name that means nothing")));
    }

    /// All local ports towards the store are in use, or wait for late packets (`EADDRNOTAVAIL`): the store was not
    /// asked. As an outage it would turn protection off where `on_store_down = "open"`.
    #[test]
    fn a_lack_of_local_ports_is_no_outage() {
        let error = io::Error::from_raw_os_error(99);
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
        assert!(is_exhaustion(&error) && is_exhaustion(&io::Error::other(error)));
    }

    #[test]
    fn a_process_with_free_descriptors_is_not_exhausted() {
        assert!(!lacks_descriptors() && has_descriptors(16));
        assert!(!is_exhausted(&io::Error::other("a name that means nothing")));
    }
}
