//! What clients may ask for.

use serde::Deserialize;

/// A charge, as it is asked for. Amounts are in the currency's smallest unit.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCharge {
    pub(super) amount: u64,
    pub(super) currency: String,
    pub(super) customer: String,
}

/// A refund: of this much, or of all that is left.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRefund {
    pub(super) amount: Option<u64>,
}

// === impl NewCharge ===

impl NewCharge {
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let charge: Self = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let customer = charge.customer.trim();
        if charge.amount == 0 {
            Err("amount must be more than 0".to_owned())
        } else if charge.currency.len() != 3
            || !charge.currency.bytes().all(|b| b.is_ascii_uppercase())
        {
            Err("currency must be three capital letters, such as EUR".to_owned())
        } else if customer.is_empty() || customer.len() > 100 {
            Err("customer must have 1 to 100 characters".to_owned())
        } else {
            Ok(charge)
        }
    }
}

// === impl NewRefund ===

impl NewRefund {
    /// Without a body, all is refunded.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let refund: Self = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        match refund.amount {
            Some(0) => Err("amount must be more than 0".to_owned()),
            _ => Ok(refund),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_input_is_explained() {
        let charge = |text: &str| NewCharge::parse(text.as_bytes()).map(|_| ()).unwrap_err();
        assert!(charge("{}").contains("missing field `amount`"));
        assert!(charge("hello").contains("expected value"));
        assert!(
            charge(r#"{"amount":0,"currency":"EUR","customer":"ada"}"#).contains("more than 0")
        );
        assert!(charge(r#"{"amount":1,"currency":"eur","customer":"ada"}"#).contains("capital"));
        assert!(charge(r#"{"amount":1,"currency":"EUR","customer":" "}"#).contains("1 to 100"));
        assert!(NewRefund::parse(br#"{"amount":0}"#).is_err());
        assert_eq!(NewRefund::parse(b" ").unwrap().amount, None);
    }
}
