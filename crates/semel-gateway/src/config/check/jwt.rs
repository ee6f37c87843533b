//! Tokens: what a table `[jwt]` must have, and what routes may take from them.

use semel_http::jwt::{TokenRules, TokenRulesError};
use semel_http::{JwtUnverified, Mode, ScopeSource};

use super::add;
use crate::config::effective::Effective;
use crate::config::fault::{Found, Place};
use crate::config::gather::Gathered;
use crate::config::jwt::KeysFrom;
use crate::config::settings::jwt::{
    ALGORITHMS, AUDIENCE, CA, ISSUER, KEYS, LEEWAY, MIN_REFRESH, REFRESH,
};
use crate::config::settings::{Row, policy};
use crate::config::values::Values;

/// What cannot be without `keys`.
const RULES: [&Row; 7] = [
    &ALGORITHMS.row,
    &ISSUER.row,
    &AUDIENCE.row,
    &CA.row,
    &LEEWAY.row,
    &REFRESH.row,
    &MIN_REFRESH.row,
];

/// Tokens are verified by all that is needed, or not at all.
pub(in crate::config) fn tokens(effective: &Effective, gathered: &Gathered, found: &mut Found) {
    if gathered.has(&KEYS) {
        // Of a place that was refused nothing can be said.
        if effective.general.get(&KEYS).is_some() {
            verified(effective, gathered, found);
        }
        return;
    }
    for row in RULES {
        if let Some(place) = effective.general.place(row) {
            let cure = "name the keys of the issuer: a file, or the URL of a JSON Web Key Set";
            found.add(place.clone(), format!("`{}` is set without `keys`", row.name), cure);
        }
    }
    for values in effective.policies() {
        unverified(values, found);
    }
}

fn verified(effective: &Effective, gathered: &Gathered, found: &mut Found) {
    let values = &effective.general;
    let place = values.place(&KEYS).cloned().unwrap_or(Place::Whole);
    let needed: [(&Row, _); 2] = [
        (&ALGORITHMS, "name what the issuer signs with, such as algorithms = [\"RS256\"]"),
        (&ISSUER, "write what its tokens have in the claim iss"),
    ];
    for (row, cure) in needed {
        if !gathered.has(row) {
            found.add(place.clone(), format!("`keys` is set without `{}`", row.name), cure);
        }
    }
    kinds(values, found);
    transport(values, found);
    if values.get(&MIN_REFRESH) > values.get(&REFRESH) {
        let (pause, refresh) = (values.shown(&MIN_REFRESH), values.shown(&REFRESH));
        let what = format!("`min_refresh` is {pause}, longer than `refresh` ({refresh})");
        let cure = "shorten it, or read the keys less often";
        add(values, &[&REFRESH, &MIN_REFRESH], what, cure, found);
    }
    let is_sure = effective.policies().all(|values| values.is_sure_of(&[&policy::SCOPE]));
    if is_sure && !effective.policies().any(reads_tokens) {
        let cure =
            "write scope = [\"jwt:sub\"] where tokens say who the client is, or remove [jwt]";
        found.add(place, "`keys` is set, and no `scope` has a jwt:CLAIM", cure);
    }
}

/// A secret and a public key are not to be confused.
fn kinds(values: &Values, found: &mut Found) {
    let names = values.get(&ALGORITHMS).unwrap_or_default();
    if let Err(TokenRulesError::Mixed { secret, public }) = TokenRules::new("-", names) {
        let what = format!(
            "`algorithms` has {secret}, which goes with a secret, and {public}, which goes with a \
             public key"
        );
        let cure = "name algorithms of one kind: a public key is known to all";
        add(values, &[&ALGORITHMS], what, cure, found);
    }
}

/// What is at a URL is public, and what is trusted there is for TLS.
fn transport(values: &Values, found: &mut Found) {
    let Some(keys) = values.get(&KEYS) else { return };
    let shown = values.shown(&KEYS);
    let is_https = matches!(&keys, KeysFrom::Url(url) if url.server.is_https());
    if let (false, Some(place)) = (is_https, values.place(&CA)) {
        let what = format!("`ca` is for TLS, and `keys` ({shown}) has none");
        found.add(place.clone(), what, "remove it");
    }
    let algorithms = values.get(&ALGORITHMS).unwrap_or_default();
    let secret = algorithms.iter().find(|algorithm| algorithm.is_secret());
    if let (KeysFrom::Url(_), Some(algorithm)) = (keys, secret) {
        let what =
            format!("`algorithms` has {algorithm}, whose key is a secret, and `keys` is a URL");
        let cure = "keep the secret in a file that only this user may read";
        add(values, &[&KEYS, &ALGORITHMS], what, cure, found);
    }
}

/// Claims that a client can make up are not taken for money, unless something in front verifies them.
fn unverified(values: &Values, found: &mut Found) {
    let refuses = values.get(&policy::JWT_UNVERIFIED) == JwtUnverified::Refuse
        && values.get(&policy::MODE) != Mode::Off;
    if refuses && reads_tokens(values) {
        let preset = values.preset_of(&policy::JWT_UNVERIFIED);
        let preset = preset.map(|word| format!(" (preset {word})")).unwrap_or_default();
        let what = format!(
            "`scope` is {}, and tokens are not verified, which `jwt_unverified` refuses{preset}",
            values.shown(&policy::SCOPE)
        );
        let cure = "add [jwt] with the keys of the issuer, or write \
                    jwt_unverified = \"behind-a-verifier\" if something in front verifies tokens";
        add(values, &[&policy::JWT_UNVERIFIED, &policy::SCOPE], what, cure, found);
    }
}

/// Does the scope have a claim?
pub(in crate::config) fn reads_tokens(values: &Values) -> bool {
    values.get(&policy::SCOPE).iter().any(|source| matches!(source, ScopeSource::Jwt(_)))
}
