//! The source of keys: a file or a URL.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use semel_http::jwt::{KeySet, KeysError, TokenRules};

use super::fetch::{FetchError, fetch};
use crate::config::{Jwt, KeysFrom, KeysUrl};
use crate::tls::{self, TlsError};

/// Why the keys cannot be read, and from where.
#[derive(Debug, thiserror::Error)]
#[error("the keys of tokens cannot be read from {place}: {why}")]
pub struct KeysFault {
    /// The file or URL.
    pub place: String,
    /// What is wrong.
    pub why: Unreadable,
}

/// What is wrong with the source of the keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// The file.
    #[error("{0}; name a file in `keys` of [jwt] that this user may read")]
    File(#[from] io::Error),
    /// The file is too large to be a file of keys.
    #[error("it has more than {KEYS_MAX} bytes; name a file of keys in `keys` of [jwt]")]
    TooLarge,
    /// The URL.
    #[error("{0}")]
    Url(#[from] FetchError),
    /// What was read.
    #[error("{0}")]
    Keys(#[from] KeysError),
}

/// More than a hundred keys with their certificates take.
pub(super) const KEYS_MAX: usize = 512 * 1024;

/// The configured source of the keys.
#[derive(Clone)]
pub(super) struct Source {
    place: Place,
    rules: Arc<TokenRules>,
    shown: String,
}

#[derive(Clone)]
enum Place {
    File(PathBuf),
    /// With the file of the certificates to trust.
    Url(Box<KeysUrl>, Option<PathBuf>),
}

/// Time and size of a file, which change with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Option<SystemTime>, u64);

/// What was read.
pub(super) enum Found {
    /// The same bytes as before.
    Unchanged,
    Keys(KeySet, Vec<u8>),
}

// === impl Source ===

impl Source {
    pub(super) fn new(jwt: &Jwt, rules: TokenRules) -> Result<Self, TlsError> {
        let place = match &jwt.keys {
            KeysFrom::File(path) => Place::File(path.clone()),
            KeysFrom::Url(url) => {
                if url.server.is_https() {
                    // Each fetch reads the certificates again; here only their errors are found, at the start.
                    tls::connector(jwt.ca.as_deref())?;
                }
                Place::Url(Box::new(url.clone()), jwt.ca.clone())
            }
        };
        Ok(Self { place, rules: Arc::new(rules), shown: jwt.keys.to_string() })
    }

    /// Reads the keys, unless their bytes are those of `before`.
    pub(super) async fn read(&self, before: Option<&[u8]>) -> Result<Found, KeysFault> {
        let bytes = match &self.place {
            Place::File(path) => {
                let path = path.clone();
                // A file on a network file system may be slow.
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                read.unwrap_or_else(|panicked| Err(io::Error::other(panicked).into()))
            }
            Place::Url(url, ca) => fetch(url, ca.clone()).await.map_err(Unreadable::from),
        };
        let found = bytes.and_then(|bytes| {
            if before == Some(&*bytes) {
                return Ok(Found::Unchanged);
            }
            let keys = KeySet::read(&bytes, &self.rules)?;
            Ok(Found::Keys(keys, bytes))
        });
        found.map_err(|why| KeysFault { place: self.shown.clone(), why })
    }

    /// The stamp of a file. A URL has none.
    pub(super) async fn stamp(&self) -> Option<Stamp> {
        let Place::File(path) = &self.place else { return None };
        let path = path.clone();
        let stamp = tokio::task::spawn_blocking(move || {
            let metadata = fs::metadata(path).ok()?;
            Some(Stamp(metadata.modified().ok(), metadata.len()))
        });
        stamp.await.ok().flatten()
    }

    pub(super) const fn is_file(&self) -> bool {
        matches!(self.place, Place::File(_))
    }

    /// The path or URL, for logs.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, Unreadable> {
    let mut bytes = Vec::new();
    File::open(path)?.take(KEYS_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > KEYS_MAX { Err(Unreadable::TooLarge) } else { Ok(bytes) }
}
