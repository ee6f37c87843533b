//! The thread that starts all processes.
//!
//! The kernel can signal a process when its parent has ended. But its parent is the *thread* that started
//! it, and the threads of tests end. So one thread starts all processes, and it lives as long as this
//! process.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::{env, io, thread};

use crate::Error;
use crate::account::Account;

type Job = (Command, Sender<io::Result<Child>>);

/// `program`, which `account` runs, and which gets `signal` when this process ends.
pub(crate) fn tied(program: &Path, account: Option<Account>, signal: &str) -> Command {
    let mut command = Command::new("setpriv");
    // `setpriv` sets the signal last. It must: a change of user clears it.
    command.arg(format!("--pdeathsig={signal}"));
    if let Some(Account { uid, gid }) = account {
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).arg("--clear-groups");
    }
    command.arg("--").arg(program);
    command
}

/// `program`, which is killed when this process ends, however it ends. To be started by [`spawn`].
pub fn killed_with_us(program: &Path) -> Command {
    tied(program, None, "KILL")
}

/// Starts `command`, in the C locale and without settings for `PostgreSQL` from our environment.
pub fn spawn(mut command: Command) -> Result<Child, Error> {
    // Messages are looked through for what went wrong.
    command.env("LC_ALL", "C");
    for (name, _) in env::vars_os() {
        let ours = command.get_envs().any(|(set, _)| set == name);
        if !ours && name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
    let program = command.get_program().to_owned();
    start(command).map_err(|source| match (source.kind(), program.to_str()) {
        (io::ErrorKind::NotFound, Some("setpriv")) => missing("setpriv", "util-linux"),
        (io::ErrorKind::NotFound, Some("openssl")) => missing("openssl", "openssl"),
        (io::ErrorKind::NotFound, Some("cc")) => missing("cc", "gcc"),
        _ => Error::at(Path::new(&program))(source),
    })
}

fn missing(what: &str, package: &'static str) -> Error {
    Error::NotInstalled { what: what.to_owned(), looked_in: "PATH".to_owned(), package }
}

fn start(command: Command) -> io::Result<Child> {
    static SUPERVISOR: OnceLock<Sender<Job>> = OnceLock::new();
    let supervisor = SUPERVISOR.get_or_init(|| {
        let (send, jobs) = channel::<Job>();
        // The sender is in a static, so the jobs never end.
        thread::spawn(move || {
            for (mut command, answer) in jobs {
                let _ = answer.send(command.spawn());
            }
        });
        send
    });
    let (send, answer) = channel();
    let gone = || io::Error::other("the thread that starts processes is gone");
    supervisor.send((command, send)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}
