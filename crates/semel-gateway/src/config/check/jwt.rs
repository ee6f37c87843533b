//! Tokens: what a table `[jwt]` must have, and what routes may take from them.

use semel_http::ScopeSource;
use semel_http::jwt::{TokenRules, TokenRulesError};

use super::add;
use crate::config::fault::{Found, Place};
use crate::config::gather::Gathered;
use crate::config::jwt::KeysFrom;
use crate::config::settings::Section;
use crate::config::sheet::Sheet;
use crate::config::sheets::Sheets;

/// What cannot be without `keys`.
const RULES: [&str; 7] =
    ["algorithms", "issuer", "audience", "ca", "leeway", "refresh", "min_refresh"];

/// Tokens are verified by all that is needed, or not at all.
pub(in crate::config) fn tokens(sheets: &Sheets, gathered: &Gathered, found: &mut Found) {
    if gathered.has(Section::Jwt, "keys") {
        // Of a place that was refused nothing can be said.
        if sheets.jwt.keys().is_some() {
            verified(sheets, gathered, found);
        }
        return;
    }
    for name in RULES {
        if let Some(place) = sheets.jwt.place(name) {
            let cure = "name the keys of the issuer: a file, or the URL of a JSON Web Key Set";
            found.add(place.clone(), format!("`{name}` is set without `keys`"), cure);
        }
    }
    for sheet in all(sheets) {
        unverified(sheet, found);
    }
}

fn verified(sheets: &Sheets, gathered: &Gathered, found: &mut Found) {
    let sheet = &sheets.jwt;
    let place = sheet.place("keys").cloned().unwrap_or(Place::Whole);
    let needed = [
        ("algorithms", "name what the issuer signs with, such as algorithms = [\"RS256\"]"),
        ("issuer", "write what its tokens have in the claim iss"),
    ];
    for (name, cure) in needed {
        if !gathered.has(Section::Jwt, name) {
            found.add(place.clone(), format!("`keys` is set without `{name}`"), cure);
        }
    }
    kinds(sheet, found);
    transport(sheet, found);
    if sheet.time("min_refresh") > sheet.time("refresh") {
        let (pause, refresh) = (sheet.shown("min_refresh"), sheet.shown("refresh"));
        let what = format!("`min_refresh` is {pause}, longer than `refresh` ({refresh})");
        let cure = "shorten it, or read the keys less often";
        add(sheet, &["refresh", "min_refresh"], what, cure, found);
    }
    let is_sure = all(sheets).all(|sheet| sheet.is_sure_of(&["scope"]));
    if is_sure && !all(sheets).any(reads_tokens) {
        let cure =
            "write scope = [\"jwt:sub\"] where tokens say who the client is, or remove [jwt]";
        found.add(place, "`keys` is set, and no `scope` has a jwt:CLAIM", cure);
    }
}

/// A secret and a public key are not to be confused.
fn kinds(sheet: &Sheet, found: &mut Found) {
    let names = sheet.algorithms().to_vec();
    if let Err(TokenRulesError::Mixed { secret, public }) = TokenRules::new("-", names) {
        let what = format!(
            "`algorithms` has {secret}, which goes with a secret, and {public}, which goes with a \
             public key"
        );
        let cure = "name algorithms of one kind: a public key is known to all";
        add(sheet, &["algorithms"], what, cure, found);
    }
}

/// What is at a URL is public, and what is trusted there is for TLS.
fn transport(sheet: &Sheet, found: &mut Found) {
    let Some(keys) = sheet.keys() else { return };
    let shown = sheet.shown("keys");
    let is_https = matches!(keys, KeysFrom::Url(url) if url.server.is_https());
    if let (false, Some(place)) = (is_https, sheet.place("ca")) {
        let what = format!("`ca` is for TLS, and `keys` ({shown}) has none");
        found.add(place.clone(), what, "remove it");
    }
    let secret = sheet.algorithms().iter().find(|algorithm| algorithm.is_secret());
    if let (KeysFrom::Url(_), Some(algorithm)) = (keys, secret) {
        let what =
            format!("`algorithms` has {algorithm}, whose key is a secret, and `keys` is a URL");
        let cure = "keep the secret in a file that only this user may read";
        add(sheet, &["keys", "algorithms"], what, cure, found);
    }
}

/// Claims that a client can make up are not taken for money, unless something in front verifies them.
fn unverified(sheet: &Sheet, found: &mut Found) {
    let names = ["jwt_unverified", "scope"];
    let refuses = sheet.word("jwt_unverified") == "refuse" && sheet.word("mode") != "off";
    if refuses && reads_tokens(sheet) {
        let preset = sheet.preset_of("jwt_unverified");
        let preset = preset.map(|word| format!(" (preset {word})")).unwrap_or_default();
        let what = format!(
            "`scope` is {}, and tokens are not verified, which `jwt_unverified` refuses{preset}",
            sheet.shown("scope")
        );
        let cure = "add [jwt] with the keys of the issuer, or write \
                    jwt_unverified = \"behind-a-verifier\" if something in front verifies tokens";
        add(sheet, &names, what, cure, found);
    }
}

fn all(sheets: &Sheets) -> impl Iterator<Item = &Sheet> {
    std::iter::once(&sheets.policy).chain(sheets.routes.iter().map(|(_, sheet)| sheet))
}

/// Does the scope have a claim?
pub(in crate::config) fn reads_tokens(sheet: &Sheet) -> bool {
    sheet.scope().iter().any(|source| matches!(source, ScopeSource::Jwt(_)))
}
