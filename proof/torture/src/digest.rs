//! Digests of replies, the same for the sender and the receiver.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Headers in which a replay may differ from the first answer, or that belong to the connection.
const NOT_COMPARED: [&str; 7] = [
    "set-cookie",
    "x-idempotency-replayed",
    "x-idempotency-stored",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
];

/// What a gateway says of its own begins so.
const OWN: &str = "x-idempotency-";

/// A reply: its status, its headers by names in lower case, and its body.
pub(crate) type Reply<'a> = (u16, &'a [(String, String)], &'a [u8]);

/// Of everything that must be the same in all answers with an outcome.
pub(crate) fn of_answer(reply: Reply<'_>) -> String {
    digest(reply, |name| !NOT_COMPARED.contains(&name))
}

/// Of what the upstream said: the same, but for what the gateway says of its own.
pub(crate) fn of_upstream(reply: Reply<'_>) -> String {
    digest(reply, |name| !NOT_COMPARED.contains(&name) && !name.starts_with(OWN))
}

fn digest((status, headers, body): Reply<'_>, is_compared: impl Fn(&str) -> bool) -> String {
    let mut headers: Vec<_> = headers.iter().filter(|(name, _)| is_compared(name)).collect();
    // The order of names says nothing; the order of the values of one name does.
    headers.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut hasher = DefaultHasher::new();
    (status, headers, body).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        fields.iter().map(owned).collect()
    }

    #[test]
    fn headers_of_the_gateway_are_not_in_the_upstream_digest() {
        let said = fields(&[("part", "1"), ("part", "2"), ("date", "today")]);
        let more = [("date", "today"), ("x-idempotency-expires", "then"), ("connection", "close")];
        let answered = fields(&[&more[..], &[("part", "1"), ("part", "2")]].concat());
        assert_eq!(of_upstream((201, &said, b"body")), of_upstream((201, &answered, b"body")));
        assert_ne!(of_answer((201, &said, b"body")), of_answer((201, &answered, b"body")));
    }

    #[test]
    fn status_body_and_every_value_in_its_order_count() {
        let said = fields(&[("part", "1"), ("part", "2")]);
        let turned = fields(&[("part", "2"), ("part", "1")]);
        let first = of_upstream((201, &said, b"body"));
        for other in [(201, &turned, &b"body"[..]), (402, &said, b"body"), (201, &said, b"bodies")]
        {
            assert_ne!(first, of_upstream((other.0, other.1, other.2)));
        }
        assert_ne!(first, of_upstream((201, &said[..1], b"body")));
    }
}
