//! What the bank refuses, as `application/problem+json` (RFC 9457).

use axum::http::{Response, StatusCode, header};

/// Why an order is not carried out. Each is an answer like any other: it is kept, and a retry gets
/// it again, though it might be answered otherwise by now.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// It says nothing that could be done.
    Invalid(String),
    /// An account has another currency.
    WrongCurrency(String),
    /// The balance would be more than can be counted.
    TooMuch,
    /// There is no such account.
    UnknownAccount(String),
    /// There is such an account already.
    AccountExists(String),
    /// The account that is to be debited has less than that.
    InsufficientFunds,
    /// The key has made a transfer, longer ago than its answer is kept.
    KeyUsed,
}

// === impl Refusal ===

impl Refusal {
    pub(crate) fn response(&self) -> Response<String> {
        let (status, code) = self.kind();
        let problem = serde_json::json!({
            "type": format!("urn:bank:{code}"),
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": self.detail(),
            "error_code": code,
        });
        let mut response = Response::new(problem.to_string());
        *response.status_mut() = status;
        let kind = header::HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }

    fn kind(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_order"),
            Self::WrongCurrency(_) => (StatusCode::UNPROCESSABLE_ENTITY, "wrong_currency"),
            Self::TooMuch => (StatusCode::UNPROCESSABLE_ENTITY, "balance_too_large"),
            Self::UnknownAccount(_) => (StatusCode::NOT_FOUND, "unknown_account"),
            Self::AccountExists(_) => (StatusCode::CONFLICT, "account_exists"),
            Self::InsufficientFunds => (StatusCode::PAYMENT_REQUIRED, "insufficient_funds"),
            Self::KeyUsed => (StatusCode::CONFLICT, "key_used"),
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Invalid(why) => why.clone(),
            Self::WrongCurrency(account) => format!("the account {account} has another currency"),
            Self::TooMuch => "the balance would be more than can be counted".to_owned(),
            Self::UnknownAccount(account) => format!("there is no account {account}"),
            Self::AccountExists(account) => format!("there is an account {account} already"),
            Self::InsufficientFunds => "the account has less than that".to_owned(),
            Self::KeyUsed => "this key made a transfer long ago; use a new key".to_owned(),
        }
    }
}
