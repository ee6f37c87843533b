//! The bytes of ordinary requests.

pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// A protected request.
pub(crate) fn post(target: &str, key: &str, body: &str) -> String {
    with_body("POST", target, &format!("Idempotency-Key: {key}\r\n"), body)
}

/// One that passes without protection.
pub(crate) fn put(target: &str, body: &str) -> String {
    with_body("PUT", target, "", body)
}

/// `fields` are whole lines.
pub(crate) fn with_body(method: &str, target: &str, fields: &str, body: &str) -> String {
    let len = body.len();
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {len}\r\n\r\n{body}")
}
