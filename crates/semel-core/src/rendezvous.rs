//! Which of several places a record belongs to.

use sha2::{Digest as _, Sha256};

use crate::RecordId;

/// The node that a record belongs to, by rendezvous hashing: of all nodes the one whose name, hashed with
/// the record's id, gives the highest number. `None` if there are no nodes.
///
/// Whoever has the same list of names finds the same node, in whatever order. If a node is added, it takes
/// its share evenly from all others; if one is removed, its records are spread evenly over those that are
/// left; no other record moves. So several regions with a store each can send every retry of a key to the
/// region that has its record, without asking anybody.
///
/// The names must be those that everybody else uses, and must not change with an address: a node under a
/// new name is a new node.
///
/// ```
/// use semel_core::{Key, RecordId, Scope, rendezvous};
///
/// let scope = Scope::new([("who", "customer-7")]);
/// let id = RecordId::new("shop", &scope, &Key::parse("order-12345")?);
/// let regions = ["eu-west", "us-east", "ap-south"];
/// let home = rendezvous(id, &regions).expect("there are regions");
/// assert!(regions.contains(home));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rendezvous<N: AsRef<[u8]>>(id: RecordId, nodes: &[N]) -> Option<&N> {
    nodes.iter().max_by_key(|node| score(id, node.as_ref()))
}

fn score(id: RecordId, node: &[u8]) -> [u8; 32] {
    // The id has a fixed length, so nothing can be taken for something else.
    Sha256::new().chain_update(id.as_bytes()).chain_update(node).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [&str; 5] = ["eu-west", "us-east", "ap-south", "sa-east", "af-south"];
    const RECORDS: u64 = 20_000;

    fn id(number: u64) -> RecordId {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        RecordId::from_bytes(bytes)
    }

    fn home(number: u64, nodes: &[&'static str]) -> &'static str {
        rendezvous(id(number), nodes).unwrap()
    }

    #[test]
    fn nobody_is_home_where_there_is_nobody() {
        assert_eq!(rendezvous::<&str>(id(1), &[]), None);
    }

    #[test]
    fn the_order_of_the_names_does_not_matter() {
        let mut turned = NODES;
        turned.reverse();
        for number in 0..1_000 {
            assert_eq!(home(number, &NODES), home(number, &turned));
        }
    }

    /// Other programs may compute the same.
    #[test]
    fn it_stays_as_it_is() {
        let homes: Vec<_> = (0..8).map(|number| home(number, &NODES[..3])).collect();
        let expected =
            (0..8).map(|number| by_hand(number, &NODES[..3])).collect::<Vec<&'static str>>();
        assert_eq!(homes, expected);
    }

    /// As the documentation says it: SHA-256 over the 32 bytes of the id and the name, the highest wins.
    fn by_hand(number: u64, nodes: &[&'static str]) -> &'static str {
        let hash = |node: &str| {
            let mut bytes = id(number).as_bytes().to_vec();
            bytes.extend_from_slice(node.as_bytes());
            Sha256::digest(bytes).to_vec()
        };
        let mut best = nodes[0];
        for node in nodes {
            if hash(node) > hash(best) {
                best = node;
            }
        }
        best
    }

    #[test]
    fn every_node_has_its_share() {
        for node in NODES {
            let share = (0..RECORDS).filter(|number| home(*number, &NODES) == node).count();
            assert!((3_700..=4_300).contains(&share), "{node} has {share}");
        }
    }

    #[test]
    fn only_the_records_of_a_node_that_leaves_move() {
        let left: Vec<_> = NODES.into_iter().filter(|node| *node != "us-east").collect();
        for number in 0..RECORDS {
            let before = home(number, &NODES);
            if before != "us-east" {
                assert_eq!(home(number, &left), before);
            }
        }
    }
}
