//! Faults by what they are.

use std::collections::BTreeMap;

use super::NOT_RUN;
use crate::checker::IDLE;

/// Counts by kind.
type Faults = BTreeMap<String, u64>;

/// Detected, not injected.
const NOTICED: [&str; 2] = ["stall", "promoted"];

/// `kill -9` of gateways and servers.
pub(super) fn kills(faults: &Faults) -> u64 {
    kills_of_gateways(faults) + kills_of_servers(faults)
}

/// `kill -9` of gateways.
pub(super) fn kills_of_gateways(faults: &Faults) -> u64 {
    of_kinds(faults, &["gateway-kill"])
}

/// `kill -9` of servers.
pub(super) fn kills_of_servers(faults: &Faults) -> u64 {
    of_kinds(faults, &["store-kill", "store-failover", "near-kill"])
}

/// Of both networks.
pub(super) fn of_networks(faults: &Faults) -> u64 {
    of_kinds(faults, &["front-", "back-"])
}

/// Of servers, with those that were killed: they are started again.
pub(super) fn restarts(faults: &Faults) -> u64 {
    kills_of_servers(faults) + of_kinds(faults, &["store-restart"])
}

/// True if a replica was promoted by other than an orderly failover.
pub(super) fn has_promotion(faults: &Faults) -> bool {
    faults.contains_key("promoted")
}

/// The groups of the claims, as text.
pub(super) fn summed_up(faults: &Faults) -> String {
    let all = of_kinds(faults, &[""]) - of_kinds(faults, &NOTICED);
    format!(
        "{} kill -9, {} network faults, {} restarts of servers, {all} faults in all",
        kills(faults),
        of_networks(faults),
        restarts(faults)
    )
}

fn of_kinds(faults: &Faults, begins: &[&str]) -> u64 {
    let has_struck = |kind: &str| !kind.ends_with(NOT_RUN) && !kind.ends_with(IDLE);
    let is_one =
        |kind: &str| has_struck(kind) && begins.iter().any(|begin| kind.starts_with(begin));
    faults.iter().filter(|(kind, _)| is_one(kind)).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_summed_by_kind() {
        let counted = [
            ("gateway-kill", 2),
            ("store-kill", 3),
            ("front-cut", 5),
            ("stall", 7),
            ("promoted-orderly", 1),
            ("disk-full NOT RUN", 4),
            ("front-cut IDLE", 6),
        ];
        let faults = counted.map(|(kind, count)| (kind.to_owned(), count)).into();
        assert_eq!(
            summed_up(&faults),
            "5 kill -9, 5 network faults, 3 restarts of servers, 10 faults in all"
        );
    }
}
