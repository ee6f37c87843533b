//! What must go together, besides the settings of one policy.

mod jwt;

pub(super) use jwt::{reads_tokens, tokens};

use std::net::{IpAddr, SocketAddr};

use super::fault::{Found, Place};
use super::gather::Gathered;
use super::settings::Section;
use super::sheet::Sheet;
use super::sheets::Sheets;
use super::{StoreChoice, Upstream};

/// The gateway listens on two addresses, and does not call itself.
pub(super) fn addresses(sheets: &Sheets, found: &mut Found) {
    let top = &sheets.top;
    let (listen, admin) = (top.address("listen"), top.address("admin"));
    if let (Some(listen), Some(admin)) = (listen, admin)
        && overlap(listen, admin)
    {
        let names = ["admin", "listen"];
        let what = format!(
            "`admin` is {}, which `listen` ({}) uses",
            top.shown("admin"),
            top.shown("listen")
        );
        add(top, &names, what, "give them two ports, or turn the admin address \"off\"", found);
    }
    let called = top.upstream().and_then(address_of);
    for (name, own) in [("listen", listen), ("admin", admin)] {
        if let (Some(own), Some(called)) = (own, called)
            && overlap(own, called)
        {
            let what =
                format!("`upstream` is {}, the gateway's own `{name}`", top.shown("upstream"));
            let cure = "name the API behind the gateway, or choose another port";
            add(top, &["upstream", name], what, cure, found);
        }
    }
}

/// Each kind of store has settings of its own.
pub(super) fn store(sheets: &Sheets, found: &mut Found) {
    let top = &sheets.top;
    let store = top.store();
    let is_embedded = matches!(store, None | Some(StoreChoice::Embedded(_)));
    if let (false, Some(_)) = (is_embedded, top.place("durability")) {
        let (durability, store) = (top.shown("durability"), top.shown("store"));
        let what = format!("`durability` is {durability}, and `store` ({store}) is not embedded");
        let cure = "remove it, or choose an embedded store";
        add(top, &["durability", "store"], what, cure, found);
    }
    #[cfg(feature = "redis")]
    let is_redis = matches!(store, None | Some(StoreChoice::Redis(_)));
    #[cfg(not(feature = "redis"))]
    let is_redis = store.is_none();
    if let (false, 1.., Some(_)) =
        (is_redis, top.number("wait_replicas"), top.place("wait_replicas"))
    {
        let (replicas, store) = (top.shown("wait_replicas"), top.shown("store"));
        let what = format!("`wait_replicas` is {replicas}, and `store` ({store}) is not Redis");
        let cure = "remove it; PostgreSQL has synchronous_standby_names for this";
        add(top, &["wait_replicas", "store"], what, cure, found);
    }
    if top.switch("require_durable") != Some(true) {
        return;
    }
    let forgets = "`require_durable` is true, and";
    if store == Some(&StoreChoice::Memory) {
        let what = format!("{forgets} `store` ({}) forgets everything", top.shown("store"));
        let cure = "choose another store, or write require_durable = false";
        add(top, &["require_durable", "store"], what, cure, found);
    } else if is_embedded && top.word("durability") == "process" {
        let what =
            format!("{forgets} `durability` ({}) is lost in a power cut", top.shown("durability"));
        let cure = "remove `durability`, or write require_durable = false";
        add(top, &["require_durable", "durability"], what, cure, found);
    }
}

/// One body must fit into the memory for all: a larger one would be refused, or not kept, for ever.
pub(super) fn memory(sheets: &Sheets, found: &mut Found) {
    let (limits, all) = (&sheets.limits, "max_buffered");
    for sheet in std::iter::once(&sheets.policy).chain(sheets.routes.iter().map(|(_, it)| it)) {
        for one in ["max_request_body", "max_reply_body"] {
            let is_sure = sheet.is_sure_of(&[one]) && limits.is_sure_of(&[all]);
            if is_sure && sheet.number(one) > limits.number(all) {
                let place = sheet.place(one).or_else(|| limits.place(all)).cloned();
                let (shown, room) = (sheet.shown(one), limits.shown(all));
                let what = format!("`{one}` is {shown}, more than `{all}` ({room})");
                found.add(place.unwrap_or(Place::Whole), what, "lower it, or raise `max_buffered`");
            }
        }
    }
}

/// Nothing may make a charge depend on this process not ending.
pub(super) fn payments(sheets: &Sheets, found: &mut Found) {
    if sheets.top.store() != Some(&StoreChoice::Memory) {
        return;
    }
    if let Some(place) = sheets.payments() {
        let store = sheets.top.shown("store");
        let what = format!("`preset` is \"payments\", and `store` ({store}) forgets everything");
        let cure =
            "choose another store, such as store = \"embedded:./semel-data\", or another preset";
        found.add(place, what, cure);
    }
}

/// TLS needs two files towards clients, and an upstream that speaks it.
pub(super) fn tls(sheets: &Sheets, gathered: &Gathered, found: &mut Found) {
    for (one, other) in [("certificate", "key"), ("key", "certificate")] {
        if let (Some(place), false) = (sheets.tls.place(one), gathered.has(Section::Tls, other)) {
            let what = format!("`{one}` is set without `{other}`");
            found.add(place.clone(), what, "set both, or neither");
        }
    }
    if sheets.top.upstream().is_none_or(Upstream::is_https) {
        return;
    }
    let upstream = sheets.top.shown("upstream");
    for name in ["ca", "server_name"] {
        if let Some(place) = sheets.upstream_tls.place(name) {
            let what = format!("`{name}` is for TLS, and `upstream` ({upstream}) is plain HTTP");
            found.add(place.clone(), what, "remove it, or write https:// in `upstream`");
        }
    }
}

fn add(sheet: &Sheet, names: &[&str], what: String, cure: &str, found: &mut Found) {
    if sheet.is_sure_of(names) {
        found.add(sheet.blame(names).unwrap_or(Place::Whole), what, cure);
    }
}

/// Can only one of them be listened on?
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip(), other.ip());
    // `[::]` takes the ports of IPv4, too.
    let takes_all =
        |all: IpAddr, ip: IpAddr| all.is_unspecified() && (all.is_ipv6() || ip.is_ipv4());
    one.port() == other.port() && one.port() != 0 && (a == b || takes_all(a, b) || takes_all(b, a))
}

/// The address, if it is certain without looking up a name.
fn address_of(upstream: &Upstream) -> Option<SocketAddr> {
    let host = if upstream.host == "localhost" { "127.0.0.1" } else { upstream.host.as_str() };
    Some(SocketAddr::new(host.parse().ok()?, upstream.port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_overlap_when_one_takes_the_other() {
        let overlap = |a: &str, b: &str| overlap(a.parse().unwrap(), b.parse().unwrap());
        assert!(overlap("127.0.0.1:1", "127.0.0.1:1"));
        assert!(overlap("0.0.0.0:1", "127.0.0.1:1"));
        assert!(overlap("127.0.0.1:1", "[::]:1"));
        assert!(!overlap("127.0.0.1:1", "127.0.0.1:2"));
        assert!(!overlap("127.0.0.1:0", "127.0.0.1:0"));
        assert!(!overlap("127.0.0.1:1", "127.0.0.2:1"));
        assert!(!overlap("0.0.0.0:1", "[::1]:1"));
    }
}
