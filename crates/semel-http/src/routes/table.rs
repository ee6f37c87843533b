//! Routes by method and path pattern.

use std::collections::HashMap;
use std::sync::Arc;

use http::Method;
use matchit::{InsertError, Router};

use super::Route;

/// Routes by method and pattern. A route for the method comes before one for any method.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    exact: Patterns,
    /// The same without what a path may lack: a slash at the end, and all that a `{*rest}` stands
    /// for.
    shortened: Patterns,
}

#[derive(Clone, Debug, Default)]
struct Patterns {
    by_method: HashMap<Method, Router<Arc<Route>>>,
    any_method: Router<Arc<Route>>,
}

// === impl Table ===

impl Table {
    /// Adds a route: for all methods if none is given.
    pub(super) fn insert(
        &mut self,
        method: Option<&Method>,
        pattern: &str,
        route: Arc<Route>,
    ) -> Result<(), InsertError> {
        self.exact.insert(method, pattern, route.clone())?;
        if let Some(shortened) = shortened(pattern) {
            // Of two routes that lack different things, the first one is taken.
            let _ = self.shortened.insert(method, shortened, route);
        }
        Ok(())
    }

    /// The route of a normalised path, with or without a slash at its end.
    pub(super) fn find(&self, method: &Method, path: &str) -> Option<&Arc<Route>> {
        self.exact.at(method, path).or_else(|| self.exact.at(method, path.strip_suffix('/')?))
    }

    /// The route of a normalised path that has none, if a pattern has only a slash or a `{*rest}`
    /// more than the path: some servers take an empty rest for one.
    pub(super) fn find_longer(&self, method: &Method, path: &str) -> Option<&Arc<Route>> {
        self.shortened.at(method, without_final_slash(path))
    }
}

/// The pattern without its slash at the end or its `{*rest}`, if it has one.
fn shortened(pattern: &str) -> Option<&str> {
    let before_rest = || pattern.rfind("/{*").map(|at| &pattern[..=at]);
    let longer = if pattern.ends_with('/') { Some(pattern) } else { before_rest() };
    longer.map(without_final_slash)
}

fn without_final_slash(path: &str) -> &str {
    path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(path)
}

// === impl Patterns ===

impl Patterns {
    fn insert(
        &mut self,
        method: Option<&Method>,
        pattern: &str,
        route: Arc<Route>,
    ) -> Result<(), InsertError> {
        let router = match method {
            None => &mut self.any_method,
            Some(method) => self.by_method.entry(method.clone()).or_default(),
        };
        router.insert(pattern, route)
    }

    fn at(&self, method: &Method, path: &str) -> Option<&Arc<Route>> {
        let by_method = self.by_method.get(method).and_then(|router| router.at(path).ok());
        by_method.or_else(|| self.any_method.at(path).ok()).map(|found| found.value)
    }
}
