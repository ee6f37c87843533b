//! The methods that are forwarded.

use http::Method;

/// Methods that are registered (IANA, HTTP Method Registry) and are no part of HTTP's core. `CONNECT`
/// is not served, and `PRI` is no method of requests.
const REGISTERED: [&str; 30] = [
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "ORDERPATCH",
    "PROPFIND",
    "PROPPATCH",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

/// The methods that are forwarded: the registered ones, and those that the configuration adds.
///
/// Methods are case-sensitive, but some servers treat `post` as `POST`: a request that is not protected here would be
/// executed there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Methods {
    added: Box<[Method]>,
}

// === impl Methods ===

impl Methods {
    pub(crate) fn new(added: &[Method]) -> Self {
        Self { added: added.into() }
    }

    pub(crate) fn has(&self, method: &Method) -> bool {
        let is_core = matches!(
            *method,
            Method::GET
                | Method::POST
                | Method::PUT
                | Method::PATCH
                | Method::DELETE
                | Method::HEAD
                | Method::OPTIONS
                | Method::TRACE
        );
        is_core || REGISTERED.contains(&method.as_str()) || self.added.contains(method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registered_methods_in_upper_case_are_forwarded() {
        let has = |method: &str| Methods::default().has(&method.parse().unwrap());
        for method in ["GET", "POST", "PATCH", "DELETE", "PROPFIND", "VERSION-CONTROL", "QUERY"] {
            assert!(has(method), "{method}");
        }
        for method in ["get", "post", "Post", "pOST", "propfind", "PURGE", "FOO", "PRI", "CONNECT"]
        {
            assert!(!has(method), "{method}");
        }
    }

    #[test]
    fn configured_methods_are_forwarded() {
        let methods = Methods::new(&["PURGE".parse().unwrap()]);
        assert!(methods.has(&"PURGE".parse().unwrap()));
        assert!(!methods.has(&"purge".parse().unwrap()));
    }
}
