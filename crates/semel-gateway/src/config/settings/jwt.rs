use std::path::PathBuf;
use std::time::Duration;

use semel_http::jwt::TokenAlgorithm;

use super::kind::{ALGORITHM_LIST, KEYS_FROM, PATH, TEXT, TEXTS, time};
use super::{Row, Section, Setting};
use crate::config::KeysFrom;

settings! { SETTINGS in Jwt;
    /// Where the issuer's keys are: a file with public keys in PEM, a JSON Web Key Set or (for HS256 and its kin) a
    /// secret, or the https:// URL of a key set. It turns verification on.
    KEYS: Option<KeysFrom> = keys(KEYS_FROM);
    /// What tokens may be signed by. It must be set with `keys`.
    ALGORITHMS: Option<Vec<TokenAlgorithm>> = algorithms(ALGORITHM_LIST);
    /// What tokens must have in `iss`. It must be set with `keys`.
    ISSUER: Option<String> = issuer(TEXT);
    /// One of these tokens must have in `aud`. Without it, tokens for other services of the issuer count too.
    AUDIENCE: Option<Vec<String>> = audience(TEXTS);
    /// How far the clocks of issuer and gateway may differ.
    LEEWAY: Duration = leeway(time("0s", "5m")).or(r#""30s""#);
    /// How often the keys are read again. A file that changes is read within a second.
    REFRESH: Duration = refresh(time("100ms", "7d")).or(r#""5m""#);
    /// How soon after one look at the keys a token with an unknown key may cause the next.
    MIN_REFRESH: Duration = min_refresh(time("10ms", "1h")).or(r#""10s""#);
    /// PEM file with the certificates to trust at an https:// URL of keys, instead of those of the system.
    CA: Option<PathBuf> = ca(PATH);
}
