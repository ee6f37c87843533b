//! What values a setting takes, and of which type they are.

use std::marker::PhantomData;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use http::header::{HeaderName, HeaderValue};
use semel_engine::Rate;
use semel_http::json::Pointer;
use semel_http::jwt::TokenAlgorithm;
use semel_http::{PartSource, ScopeSource, StatusPattern};

use crate::config::typed::{Number, Word};
use crate::config::{KeysFrom, StoreChoice, Upstream};

/// What values a setting takes. Limits are written as a user would write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum Kind {
    Word(&'static [&'static str]),
    Switch,
    Integer {
        min: u64,
        max: u64,
    },
    Time {
        min: &'static str,
        max: &'static str,
    },
    Size {
        min: &'static str,
        max: &'static str,
    },
    RateOrOff,
    Address,
    AddressOrOff,
    Upstream,
    Store,
    Namespace,
    Host,
    Path,
    /// Where keys of tokens are.
    Keys,
    Text,
    Match,
    Source,
    List(Item),
}

/// What a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::config) enum Item {
    /// At least one source of a key.
    KeySource,
    /// At least one source of an identity.
    ScopeSource,
    HeaderName,
    Method,
    /// At least one.
    Algorithm,
    Audience,
    Pointer,
    Status,
    HeaderLine,
}

/// A kind whose values are made into a `T`.
#[derive(Debug)]
pub(super) struct Typed<T> {
    pub(super) kind: Kind,
    of: PhantomData<fn() -> T>,
}

const fn typed<T>(kind: Kind) -> Typed<T> {
    Typed { kind, of: PhantomData }
}

const fn list<T>(item: Item) -> Typed<Vec<T>> {
    typed(Kind::List(item))
}

pub(super) const fn word<T: Word>() -> Typed<T> {
    typed(Kind::Word(T::WORDS))
}

pub(super) const fn integer<T: Number>(min: u64, max: u64) -> Typed<T> {
    typed(Kind::Integer { min, max })
}

pub(super) const fn time(min: &'static str, max: &'static str) -> Typed<Duration> {
    typed(Kind::Time { min, max })
}

pub(super) const fn size<T: Number>(min: &'static str, max: &'static str) -> Typed<T> {
    typed(Kind::Size { min, max })
}

pub(super) const SWITCH: Typed<bool> = typed(Kind::Switch);
pub(super) const RATE_OR_OFF: Typed<Option<Rate>> = typed(Kind::RateOrOff);
pub(super) const ADDRESS: Typed<SocketAddr> = typed(Kind::Address);
pub(super) const ADDRESS_OR_OFF: Typed<Option<SocketAddr>> = typed(Kind::AddressOrOff);
pub(super) const UPSTREAM_URL: Typed<Upstream> = typed(Kind::Upstream);
pub(super) const STORE_URL: Typed<StoreChoice> = typed(Kind::Store);
pub(super) const NAME: Typed<String> = typed(Kind::Namespace);
pub(super) const HOST: Typed<String> = typed(Kind::Host);
pub(super) const PATH: Typed<PathBuf> = typed(Kind::Path);
pub(super) const KEYS_FROM: Typed<KeysFrom> = typed(Kind::Keys);
pub(super) const TEXT: Typed<String> = typed(Kind::Text);
pub(super) const PATTERN: Typed<String> = typed(Kind::Match);
pub(super) const SOURCE: Typed<PartSource> = typed(Kind::Source);
pub(super) const KEY_SOURCES: Typed<Vec<PartSource>> = list(Item::KeySource);
pub(super) const SCOPE_SOURCES: Typed<Vec<ScopeSource>> = list(Item::ScopeSource);
pub(super) const HEADER_NAMES: Typed<Vec<HeaderName>> = list(Item::HeaderName);
pub(super) const METHOD_LIST: Typed<Vec<Method>> = list(Item::Method);
pub(super) const ALGORITHM_LIST: Typed<Vec<TokenAlgorithm>> = list(Item::Algorithm);
pub(super) const TEXTS: Typed<Vec<String>> = list(Item::Audience);
pub(super) const POINTERS: Typed<Vec<Pointer>> = list(Item::Pointer);
pub(super) const STATUSES: Typed<Vec<StatusPattern>> = list(Item::Status);
pub(super) const HEADER_LINES: Typed<Vec<(HeaderName, HeaderValue)>> = list(Item::HeaderLine);
