//! The sources of a configuration: a file, the environment, the command line.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use semel_core::planted::{VARIABLE, which};
#[cfg(feature = "postgres")]
use semel_gateway::config::StoreChoice;
use semel_gateway::config::{Config, Faults, Flags};

/// The file that is read by default.
const DEFAULT_FILE: &str = "semel.toml";
/// The most bytes that are read: more than the limit of a configuration, so that a longer one is refused.
const BYTES_MAX: u64 = 2 << 20;

const STORE: &str =
    "Where records are kept: embedded:DIR, postgres://USER@HOST/DATABASE, or memory: for tests";

/// The settings on the command line.
#[derive(clap::Args)]
pub(crate) struct Given {
    /// The configuration file [default: ./semel.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address that clients connect to; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The address of /health, /ready and /metrics, or "off"
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// The API behind the gateway
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    #[arg(long, value_name = "STORE", help = STORE)]
    store: Option<String>,
}

/// The file and flags of a configuration, for each reload.
pub(crate) struct Sources {
    file: Option<PathBuf>,
    flags: Flags,
}

/// Why there is no configuration.
pub(crate) enum Unusable {
    /// Something in it is wrong.
    Faults(Faults),
    /// It cannot be read at all.
    Unreadable(String),
}

// === impl Given ===

impl Given {
    pub(crate) fn sources(&self) -> Sources {
        let flags = Flags {
            listen: self.listen.clone(),
            admin: self.admin.clone(),
            upstream: self.upstream.clone(),
            store: self.store.clone(),
        };
        Sources::new(self.config.clone(), flags)
    }
}

// === impl Sources ===

impl Sources {
    /// Chooses the file once: a default file that appears later is not read.
    pub(crate) fn new(file: Option<PathBuf>, flags: Flags) -> Self {
        let default = || Path::new(DEFAULT_FILE).exists().then(|| PathBuf::from(DEFAULT_FILE));
        Self { file: file.or_else(default), flags }
    }

    /// A line that names the file.
    pub(crate) fn named(&self) -> String {
        match &self.file {
            Some(path) => format!("semel: the configuration is {}", path.display()),
            None => "semel: no configuration file; variables, flags and defaults are in effect"
                .to_owned(),
        }
    }

    pub(crate) fn load(&self) -> Result<Config, Unusable> {
        self.read(|source, variables| Config::load(source, variables, &self.flags))
    }

    /// The store, for commands that need no other setting.
    #[cfg(feature = "postgres")]
    pub(crate) fn store(&self) -> Result<StoreChoice, Unusable> {
        self.read(|source, variables| Config::store(source, variables, &self.flags))
    }

    /// Passes the name and the text of the file to `make`, with the variables.
    fn read<T>(
        &self,
        make: impl FnOnce(Option<(&str, &str)>, Vec<(String, String)>) -> Result<T, Faults>,
    ) -> Result<T, Unusable> {
        let variables = variables().map_err(Unusable::Unreadable)?;
        let Some(path) = &self.file else {
            return make(None, variables).map_err(Unusable::Faults);
        };
        let name = path.display().to_string();
        let text = read(path).map_err(|error| {
            let cure = "name a file that this user may read with --config";
            Unusable::Unreadable(format!("{name}: cannot be read: {error}\n    cure: {cure}"))
        })?;
        make(Some((&name, &text)), variables).map_err(Unusable::Faults)
    }
}

// === impl Unusable ===

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Faults(faults) => faults.fmt(f),
            Self::Unreadable(what) => f.write_str(what),
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// The variables that may be meant for us. Others need not even be text.
fn variables() -> Result<Vec<(String, String)>, String> {
    let ours = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with("SEMEL_"))
        // Only known where something is planted: else it is refused like any other unknown name.
        .filter(|(name, _)| name != VARIABLE || which().is_none());
    ours.map(|(name, value)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => Err(format!("{name}: is not UTF-8\n    cure: set it to text, or unset it")),
    })
    .collect()
}
