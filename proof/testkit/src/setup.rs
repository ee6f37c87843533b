use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use crate::{Ended, Gateway, semel};

/// How a gateway is started. Clones share its directory, and so a store in there.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The program, and what starts it.
    program: Vec<String>,
    directory: PathBuf,
    /// The same, unless it is another's.
    _temporary: Arc<TempDir>,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

// === impl Setup ===

impl Setup {
    /// In a directory of its own, without settings.
    pub fn new(program: &str) -> Self {
        let temporary = tempfile::tempdir().expect("a directory");
        Self {
            program: vec![program.to_owned()],
            directory: temporary.path().to_owned(),
            _temporary: Arc::new(temporary),
            arguments: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// In this directory of the caller.
    #[must_use]
    pub fn in_directory(self, directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ..self }
    }

    /// By a program that starts others.
    #[must_use]
    pub fn by(mut self, launcher: &[&str]) -> Self {
        self.program.splice(0..0, launcher.iter().map(|&word| word.to_owned()));
        self
    }

    /// With arguments.
    #[must_use]
    pub fn arguments(mut self, arguments: &[impl AsRef<str>]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// With variables of the environment.
    #[must_use]
    pub fn variables(mut self, variables: &[(&str, &str)]) -> Self {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        self.variables.extend(variables.iter().map(owned));
        self
    }

    /// With its configuration file, which is named.
    #[must_use]
    pub fn configured(self, text: &str) -> Self {
        self.write(text);
        let file = self.file().display().to_string();
        self.arguments(&["--config", &file])
    }

    /// Writes its configuration file.
    pub fn write(&self, text: &str) {
        fs::write(self.file(), text).expect("a configuration");
    }

    /// The text of its configuration file.
    pub fn text(&self) -> String {
        fs::read_to_string(self.file()).expect("a configuration")
    }

    /// Its configuration file.
    pub fn file(&self) -> PathBuf {
        self.directory.join("semel.toml")
    }

    /// The directory that it works in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts a gateway on free ports, and waits until it is ready.
    pub fn start(self) -> Gateway {
        let gateway = self.start_unready();
        gateway.wait_until_ready();
        gateway
    }

    /// Starts a gateway on free ports. It listens, and that is all that is known.
    pub fn start_unready(self) -> Gateway {
        Gateway::start(self)
    }

    /// Starts a gateway that cannot start.
    pub fn refused(&self) -> Ended {
        Ended::of(self.command().args(["--admin", "off"]))
    }

    /// `semel gateway` on a free port.
    pub(crate) fn command(&self) -> Command {
        let mut command = semel(&self.program[0], &[]);
        command.args(&self.program[1..]).args(["gateway", "--listen", "127.0.0.1:0"]);
        command.args(&self.arguments).current_dir(self.directory());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}
