//! The ledger: every charge and refund that took effect, in order.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::input::{NewCharge, NewRefund};

/// The limit of one charge.
pub(super) const AMOUNT_MAX: u64 = 1_000_000;
/// It is kept in memory.
const ENTRIES_MAX: usize = 100_000;

/// All that took effect.
#[derive(Default)]
pub(super) struct Ledger {
    entries: Vec<Entry>,
}

/// One thing that took effect.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) amount: u64,
    pub(super) currency: String,
    pub(super) customer: String,
    /// The charge that a refund is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) charge: Option<String>,
    /// How many times the gateway has let this key execute, this time included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fence: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Charge,
    Refund,
}

/// Why something does not take effect.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    TooMuch,
    NoSuchCharge,
    OverRefunded { left: u64 },
    Full,
}

/// What the ledger adds up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) charges: usize,
    pub(crate) refunds: usize,
    /// Charged and not refunded, by currency.
    pub(crate) balance: BTreeMap<String, u64>,
}

// === impl Ledger ===

impl Ledger {
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn charges(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.kind == Kind::Charge)
    }

    pub(super) fn charge(&mut self, new: NewCharge, fence: Option<u64>) -> Result<Entry, Refused> {
        if new.amount > AMOUNT_MAX {
            return Err(Refused::TooMuch);
        }
        let NewCharge { amount, currency, customer } = new;
        self.add("ch", |id| Entry {
            id,
            kind: Kind::Charge,
            amount,
            currency,
            customer,
            charge: None,
            fence,
        })
    }

    pub(super) fn refund(
        &mut self,
        id: &str,
        new: &NewRefund,
        fence: Option<u64>,
    ) -> Result<Entry, Refused> {
        let charge = self.charges().find(|entry| entry.id == id).cloned();
        let charge = charge.ok_or(Refused::NoSuchCharge)?;
        let left = charge.amount - self.refunded(id);
        let amount = new.amount.unwrap_or(left);
        if amount > left || left == 0 {
            return Err(Refused::OverRefunded { left });
        }
        self.add("re", |id| Entry {
            id,
            kind: Kind::Refund,
            amount,
            charge: Some(charge.id),
            fence,
            ..charge
        })
    }

    /// How much of a charge was given back.
    pub(super) fn refunded(&self, id: &str) -> u64 {
        let refunds = self.entries.iter().filter(|entry| entry.charge.as_deref() == Some(id));
        refunds.map(|entry| entry.amount).sum()
    }

    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for entry in &self.entries {
            let balance = totals.balance.entry(entry.currency.clone()).or_default();
            match entry.kind {
                Kind::Charge => {
                    totals.charges += 1;
                    *balance += entry.amount;
                }
                Kind::Refund => {
                    totals.refunds += 1;
                    *balance -= entry.amount;
                }
            }
        }
        totals
    }

    fn add(&mut self, prefix: &str, make: impl FnOnce(String) -> Entry) -> Result<Entry, Refused> {
        if self.entries.len() >= ENTRIES_MAX {
            return Err(Refused::Full);
        }
        let entry = make(format!("{prefix}_{}", self.entries.len() + 1));
        self.entries.push(entry.clone());
        Ok(entry)
    }
}

// === impl Totals ===

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending = |count| if count == 1 { "" } else { "s" };
        write!(f, "{} charge{}", self.charges, ending(self.charges))?;
        if self.refunds > 0 {
            write!(f, ", {} refund{}", self.refunds, ending(self.refunds))?;
        }
        for (currency, amount) in &self.balance {
            write!(f, ", {}.{:02} {currency}", amount / 100, amount % 100)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(amount: u64) -> NewCharge {
        NewCharge { amount, currency: "EUR".to_owned(), customer: "ada".to_owned() }
    }

    #[test]
    fn no_more_is_refunded_than_was_charged() {
        let mut ledger = Ledger::default();
        let id = ledger.charge(charge(100), Some(1)).unwrap().id;
        let part = NewRefund { amount: Some(70) };
        assert_eq!(ledger.refund(&id, &part, None).unwrap().id, "re_2");
        assert_eq!(
            ledger.refund(&id, &part, None).unwrap_err(),
            Refused::OverRefunded { left: 30 }
        );
        assert_eq!(ledger.refund(&id, &NewRefund::default(), None).unwrap().amount, 30);
        let none = ledger.refund(&id, &NewRefund::default(), None).unwrap_err();
        assert_eq!(none, Refused::OverRefunded { left: 0 });
        assert_eq!(ledger.refund("ch_9", &part, None).unwrap_err(), Refused::NoSuchCharge);
        assert_eq!(ledger.totals().to_string(), "1 charge, 2 refunds, 0.00 EUR");
    }

    #[test]
    fn too_much_is_not_charged() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.charge(charge(AMOUNT_MAX + 1), None).unwrap_err(), Refused::TooMuch);
        assert!(ledger.entries().is_empty());
    }
}
