//! What must go together, besides the settings of one policy.

mod jwt;

pub(super) use jwt::{reads_tokens, tokens};

use std::net::{IpAddr, SocketAddr};

use semel_embedded::Durability;

use super::effective::Effective;
use super::fault::{Found, Place};
use super::gather::Gathered;
use super::settings::{Row, limits, policy, tls, top};
use super::values::Values;
use super::{StoreChoice, Upstream};

/// The gateway listens on two addresses, and does not call itself.
pub(super) fn addresses(effective: &Effective, found: &mut Found) {
    let values = &effective.general;
    let (listen, admin) = (values.get(&top::LISTEN), values.get(&top::ADMIN));
    if admin.is_some_and(|admin| overlap(listen, admin)) {
        let (admin, listen) = (values.shown(&top::ADMIN), values.shown(&top::LISTEN));
        let what = format!("`admin` is {admin}, which `listen` ({listen}) uses");
        let cure = "give them two ports, or turn the admin address \"off\"";
        add(values, &[&top::ADMIN, &top::LISTEN], what, cure, found);
    }
    let called = values.get(&top::UPSTREAM).as_ref().and_then(address_of);
    let own: [(&Row, _); 2] = [(&top::LISTEN, Some(listen)), (&top::ADMIN, admin)];
    for (row, own) in own {
        if let (Some(own), Some(called)) = (own, called)
            && overlap(own, called)
        {
            let upstream = values.shown(&top::UPSTREAM);
            let what = format!("`upstream` is {upstream}, the gateway's own `{}`", row.name);
            let cure = "name the API behind the gateway, or choose another port";
            add(values, &[&top::UPSTREAM, row], what, cure, found);
        }
    }
}

/// Each kind of store has settings of its own.
pub(super) fn store(effective: &Effective, found: &mut Found) {
    let values = &effective.general;
    let (choice, store) = (values.get(&top::STORE), values.shown(&top::STORE));
    let durability = values.shown(&top::DURABILITY);
    let is_embedded = matches!(choice, StoreChoice::Embedded(_));
    if !is_embedded && values.place(&top::DURABILITY).is_some() {
        let what = format!("`durability` is {durability}, and `store` ({store}) is not embedded");
        let cure = "remove it, or choose an embedded store";
        add(values, &[&top::DURABILITY, &top::STORE], what, cure, found);
    }
    #[cfg(feature = "redis")]
    let is_redis = matches!(choice, StoreChoice::Redis(_));
    #[cfg(not(feature = "redis"))]
    let is_redis = false;
    let replicas = values.place(&top::WAIT_REPLICAS).map(|_| values.get(&top::WAIT_REPLICAS));
    if let (false, Some(1..)) = (is_redis, replicas) {
        let replicas = values.shown(&top::WAIT_REPLICAS);
        let what = format!("`wait_replicas` is {replicas}, and `store` ({store}) is not Redis");
        let cure = "remove it; PostgreSQL has synchronous_standby_names for this";
        add(values, &[&top::WAIT_REPLICAS, &top::STORE], what, cure, found);
    }
    if values.get(&top::REQUIRE_DURABLE) != Some(true) {
        return;
    }
    let forgets = "`require_durable` is true, and";
    if choice == StoreChoice::Memory {
        let what = format!("{forgets} `store` ({store}) forgets everything");
        let cure = "choose another store, or write require_durable = false";
        add(values, &[&top::REQUIRE_DURABLE, &top::STORE], what, cure, found);
    } else if is_embedded && values.get(&top::DURABILITY) == Durability::Process {
        let what = format!("{forgets} `durability` ({durability}) is lost in a power cut");
        let cure = "remove `durability`, or write require_durable = false";
        add(values, &[&top::REQUIRE_DURABLE, &top::DURABILITY], what, cure, found);
    }
}

/// One body must fit into the memory for all: a larger one would be refused, or not kept, for ever.
pub(super) fn memory(effective: &Effective, found: &mut Found) {
    let (limits, all) = (&effective.general, &limits::MAX_BUFFERED);
    for values in effective.policies() {
        for one in [&policy::MAX_REQUEST_BODY, &policy::MAX_REPLY_BODY] {
            let is_sure = values.is_sure_of(&[one]) && limits.is_sure_of(&[all]);
            if is_sure && values.get(one) > limits.get(all) {
                let place = values.place(one).or_else(|| limits.place(all)).cloned();
                let (shown, room) = (values.shown(one), limits.shown(all));
                let what = format!("`{}` is {shown}, more than `max_buffered` ({room})", one.name);
                found.add(place.unwrap_or(Place::Whole), what, "lower it, or raise `max_buffered`");
            }
        }
    }
}

/// Nothing may make a charge depend on this process not ending.
pub(super) fn payments(effective: &Effective, found: &mut Found) {
    if effective.general.get(&top::STORE) != StoreChoice::Memory {
        return;
    }
    if let Some(place) = effective.payments() {
        let store = effective.general.shown(&top::STORE);
        let what = format!("`preset` is \"payments\", and `store` ({store}) forgets everything");
        let cure =
            "choose another store, such as store = \"embedded:./semel-data\", or another preset";
        found.add(place, what, cure);
    }
}

/// TLS needs two files towards clients, and an upstream that speaks it.
pub(super) fn tls(effective: &Effective, gathered: &Gathered, found: &mut Found) {
    let values = &effective.general;
    for (one, other) in [(&tls::CERTIFICATE, &tls::KEY), (&tls::KEY, &tls::CERTIFICATE)] {
        if let (Some(place), false) = (values.place(one), gathered.has(other)) {
            let what = format!("`{}` is set without `{}`", one.name, other.name);
            found.add(place.clone(), what, "set both, or neither");
        }
    }
    if values.get(&top::UPSTREAM).is_none_or(|upstream| upstream.is_https()) {
        return;
    }
    let upstream = values.shown(&top::UPSTREAM);
    let for_tls: [&Row; 2] = [&tls::CA, &tls::SERVER_NAME];
    for row in for_tls {
        if let Some(place) = values.place(row) {
            let name = row.name;
            let what = format!("`{name}` is for TLS, and `upstream` ({upstream}) is plain HTTP");
            found.add(place.clone(), what, "remove it, or write https:// in `upstream`");
        }
    }
}

fn add(values: &Values, rows: &[&Row], what: String, cure: &str, found: &mut Found) {
    if values.is_sure_of(rows) {
        found.add(values.blame(rows).unwrap_or(Place::Whole), what, cure);
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
