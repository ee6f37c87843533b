//! Who is a master and who a replica, watched from beside: only a replica that was really promoted may
//! have lost records.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::history::{Event, History};

pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// One that is frozen or dead does not say, and nobody waits for that.
const ASK_LIMIT: Duration = Duration::from_millis(100);
const ANSWER_BYTES: usize = 32;

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

/// Notes each promotion as a fault, from when the server was last seen as a replica until the other of
/// its pair is one: for so long there may be two who take themselves for the master.
///
/// `pair_of` names the other by its number; `is_orderly` says whether a server was asked to take over.
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
            if role == Role::Replica
                && let Some(id) = all[pair_of(number)].promotion.take()
            {
                history.note(Event::Healed { id, struck: None });
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// On a connection of its own, past every proxy.
fn ask(address: SocketAddr) -> Option<Role> {
    let mut stream = TcpStream::connect_timeout(&address, ASK_LIMIT).ok()?;
    stream.set_read_timeout(Some(ASK_LIMIT)).ok()?;
    stream.write_all(b"ROLE\r\n").ok()?;
    let mut answer = [0; ANSWER_BYTES];
    let read = stream.read(&mut answer).ok()?;
    role_in(&String::from_utf8_lossy(&answer[..read]))
}

fn role_in(answer: &str) -> Option<Role> {
    match answer {
        _ if answer.contains("master") => Some(Role::Master),
        _ if answer.contains("slave") => Some(Role::Replica),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_what_it_is() {
        assert_eq!(role_in("*3\r\n$6\r\nmaster\r\n:7\r\n"), Some(Role::Master));
        assert_eq!(role_in("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1"), Some(Role::Replica));
        assert_eq!(role_in("-LOADING Redis is loading"), None);
    }
}
