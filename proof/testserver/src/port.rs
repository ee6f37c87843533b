//! Unused ports of the loopback address.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use crate::Error;
use crate::token::random;

const TRIES: usize = 100;
const LOWEST: u16 = 15_000;
/// Fewer than these are not worth a draw.
const CHOICE_MIN: u16 = 1_000;

/// A port that is spare now. Another process may be quicker to use it.
///
/// Not one that the kernel hands out to outgoing connections, if there are others: while a server
/// is down, a client that tries to reach it again and again would some day be given the server's
/// own port, connect to itself, and keep the server from coming back.
pub(crate) fn spare() -> Result<u16, Error> {
    let choice = first_outgoing().saturating_sub(LOWEST);
    if choice >= CHOICE_MIN {
        for _ in 0..TRIES {
            let port = LOWEST + u16::from_ne_bytes(random()?) % choice;
            if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(port);
            }
        }
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(Error::at(Path::new("127.0.0.1")))
}

/// The lowest port that the kernel takes for outgoing connections.
fn first_outgoing() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spare_port_can_be_listened_on() {
        let port = spare().expect("a port");
        // Another process may have been quicker; not a hundred times.
        let is_free = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
            || (0..100).any(|_| {
                let port = spare().expect("a port");
                TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
            });
        assert!(is_free);
    }

    #[test]
    fn a_spare_port_is_not_one_for_outgoing_connections() {
        let first = first_outgoing();
        if first >= LOWEST + CHOICE_MIN {
            assert!(spare().expect("a port") < first);
        }
    }
}
