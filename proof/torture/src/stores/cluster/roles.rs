//! The roles of servers, monitored from outside: only a replica that was really promoted may have lost records.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::history::{Event, History};

pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A frozen or dead server does not answer, and nothing waits for that.
const ASK_LIMIT: Duration = Duration::from_millis(100);

/// What a server says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Master,
    Replica,
}

/// A server and what is known of it.
struct Watched {
    address: SocketAddr,
    role: Option<Role>,
    /// When it was last seen as that.
    seen: u64,
    /// Its promotion, until the other of its pair follows.
    promotion: Option<u64>,
}

/// Records each promotion as a fault, from when the server was last seen as a replica until the other of its pair is
/// one: meanwhile there may be two that act as the master.
///
/// `pair_of` names the other by its number; `is_orderly` says whether it was an orderly failover.
pub(super) fn watch(
    servers: &[SocketAddr],
    pair_of: impl Fn(usize) -> usize,
    is_orderly: impl Fn(usize) -> bool,
    history: &History,
    is_over: &AtomicBool,
) {
    let unknown =
        |address: &SocketAddr| Watched { address: *address, role: None, seen: 0, promotion: None };
    let mut all: Vec<Watched> = servers.iter().map(unknown).collect();
    while !is_over.load(Ordering::Relaxed) {
        for number in 0..all.len() {
            let Some(role) = ask(all[number].address) else { continue };
            if role == Role::Master && all[number].role == Some(Role::Replica) {
                let kind = if is_orderly(number) { "promoted-orderly" } else { "promoted" };
                let note = format!("node {number}");
                let id = history.note_unplanned(all[number].seen, kind, note);
                all[number].promotion = Some(id);
            }
            all[number].role = Some(role);
            all[number].seen = history.clock().now();
            if role == Role::Replica {
                // Its own is over too: it was undone.
                let over = [pair_of(number), number].map(|one| all[one].promotion.take());
                for id in over.into_iter().flatten() {
                    history.note(Event::Healed { id, struck: None });
                }
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// On a connection of its own, past every proxy. What it is in the cluster, not what it replicates: a replica
/// that has just started calls itself a master by `ROLE`, until it has found its own.
fn ask(address: SocketAddr) -> Option<Role> {
    let mut stream = TcpStream::connect_timeout(&address, ASK_LIMIT).ok()?;
    stream.set_read_timeout(Some(ASK_LIMIT)).ok()?;
    stream.write_all(b"CLUSTER NODES\r\nQUIT\r\n").ok()?;
    // A server that ends closes the connection, and so does one that was asked to.
    BufReader::new(stream).lines().map_while(Result::ok).find_map(|line| role_in(&line))
}

/// In the line of the server that was asked.
fn role_in(line: &str) -> Option<Role> {
    match line {
        _ if line.contains(" myself,master") => Some(Role::Master),
        _ if line.contains(" myself,slave") => Some(Role::Replica),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_reports_its_role() {
        let master = "07c3 127.0.0.1:30001@31001 myself,master - 0 0 1 connected 0-5460";
        let replica = "67ed 127.0.0.1:30002@31002 myself,slave 07c3 0 0 1 connected";
        let other = "292f 127.0.0.1:30003@31003 master - 0 1426238316232 2 connected 5461-10922";
        assert_eq!(role_in(master), Some(Role::Master));
        assert_eq!(role_in(replica), Some(Role::Replica));
        assert_eq!(role_in(other), None);
        assert_eq!(role_in("-LOADING Redis is loading"), None);
    }
}
