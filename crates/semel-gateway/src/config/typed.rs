//! What is made of the value of a setting.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};
use semel_core::{InFlight, KeyFormat, OnAbandoned, OnStoreDown, OnUnknown};
use semel_embedded::Durability;
use semel_engine::Rate;
use semel_http::json::Pointer;
use semel_http::jwt::TokenAlgorithm;
use semel_http::{
    EncodedSlash, JwtUnverified, KeyRule, Mode, OnMissingScope, PartSource, PathComparison, Preset,
    Profile, ScopeSource, StatusPattern,
};
use tracing::Level;

use super::value::Value;
use super::{KeysFrom, LogFormat, StoreChoice, Upstream};
use crate::Forwarded;

/// The type of a setting.
pub(super) trait FromValue: Sized {
    /// `None` only if there is no value, or one of another kind.
    fn from_value(value: Option<&Value>) -> Option<Self>;
}

/// A type for whole numbers and sizes.
pub(super) trait Number: FromValue {}

impl Number for u32 {}
impl Number for u64 {}
impl Number for usize {}
impl Number for StatusCode {}
impl Number for Option<NonZero<u64>> {}

/// A choice that the file names by a word.
pub(super) trait Word: Sized + 'static {
    const WORDS: &'static [&'static str];

    fn from_word(word: &str) -> Option<Self>;
}

impl<T: Word> FromValue for T {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        match value? {
            Value::Word(word) => T::from_word(word),
            _ => None,
        }
    }
}

/// What is off or not set.
impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Option<&Value>) -> Option<Self> {
        Some(T::from_value(value))
    }
}

macro_rules! from_values {
    ($($type:ty: $kind:ident($value:ident) => $made:expr;)+) => {
        $(impl FromValue for $type {
            fn from_value(value: Option<&Value>) -> Option<Self> {
                match value? {
                    Value::$kind($value) => $made,
                    _ => None,
                }
            }
        })+
    };
}

from_values! {
    bool: Switch(on) => Some(*on);
    Duration: Time(time) => Some(*time);
    u64: Number(number) => Some(*number);
    u32: Number(number) => u32::try_from(*number).ok();
    usize: Number(number) => Some(usize::try_from(*number).unwrap_or(usize::MAX));
    NonZero<u64>: Number(number) => NonZero::new(*number);
    StatusCode: Number(number) => StatusCode::from_u16(u16::try_from(*number).ok()?).ok();
    Rate: Rate(rate) => *rate;
    SocketAddr: Address(address) => *address;
    String: Text(text) => Some(text.clone());
    PathBuf: Text(text) => Some(text.into());
    Upstream: Upstream(upstream) => Some(upstream.clone());
    StoreChoice: Store(store) => Some(store.clone());
    KeysFrom: Keys(keys) => Some(keys.clone());
    PartSource: Source(source) => Some(source.clone());
    Vec<TokenAlgorithm>: Algorithms(algorithms) => Some(algorithms.clone());
    Vec<String>: Texts(texts) => Some(texts.clone());
    Vec<PartSource>: KeySources(sources) => Some(sources.clone());
    Vec<ScopeSource>: ScopeSources(sources) => Some(sources.clone());
    Vec<HeaderName>: HeaderNames(names) => Some(names.clone());
    Vec<Method>: Methods(methods) => Some(methods.clone());
    Vec<Pointer>: Pointers(pointers) => Some(pointers.clone());
    Vec<StatusPattern>: Statuses(statuses) => Some(statuses.clone());
    Vec<(HeaderName, HeaderValue)>: HeaderLines(lines) => Some(lines.clone());
}

macro_rules! words {
    ($($type:ident: $($word:literal = $variant:expr),+;)+) => {
        $(impl Word for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some($variant),)+
                    _ => None,
                }
            }
        })+
    };
}

words! {
    KeyFormat: "any" = Self::Any, "uuid" = Self::Uuid;
    // For how long is what `wait_timeout` says.
    InFlight: "conflict" = Self::Conflict, "accepted" = Self::Accepted,
        "wait" = Self::Wait(Duration::ZERO);
    OnAbandoned: "reexecute" = Self::Reexecute, "fail" = Self::Fail, "hold" = Self::Hold;
    OnUnknown: "release" = Self::Release, "hold" = Self::Hold;
    OnStoreDown: "closed" = Self::Closed, "open" = Self::Open;
    Forwarded: "replace" = Self::Replace, "append" = Self::Append;
    Durability: "power" = Self::Power, "process" = Self::Process;
    LogFormat: "text" = Self::Text, "json" = Self::Json;
    Level: "error" = Self::ERROR, "warn" = Self::WARN, "info" = Self::INFO, "debug" = Self::DEBUG,
        "trace" = Self::TRACE;
}

macro_rules! words_of_the_library {
    ($($type:ident),+) => {
        $(impl Word for $type {
            const WORDS: &'static [&'static str] = $type::WORDS;

            fn from_word(word: &str) -> Option<Self> {
                word.parse().ok()
            }
        })+
    };
}

words_of_the_library! {
    Mode, Profile, Preset, KeyRule, OnMissingScope, JwtUnverified, PathComparison, EncodedSlash
}
