//! Which policy a request comes under.

mod ambiguity;
mod case;
mod octets;
mod path;
mod reading;
mod readings;
#[cfg(test)]
mod servers;
mod table;
mod traversal;

pub(crate) use ambiguity::Ambiguity;
pub use traversal::{goes_up_after_empty_segment, leaves_root};

use std::borrow::Cow;
use std::sync::Arc;

use http::Method;

use self::ambiguity::is_suspicious;
use self::case::{folded, folded_like, folded_pattern};
use self::path::{merged, normalised};
use self::readings::{Read, readings};
use self::table::Table;
use crate::policy::{EncodedSlash, Mode, Need, PathComparison, RoutePolicy};

/// How a table is asked for a route.
type Find = for<'a> fn(&'a Table, &Method, &str) -> Option<&'a Arc<Route>>;

/// The routes of an application, each with its policy, and the policy of everything else.
///
/// ```
/// use semel_http::{Preset, RoutePolicy, Routes};
///
/// let payments = RoutePolicy::builder().preset(Preset::Payments).build()?;
/// let mut routes = Routes::new(RoutePolicy::default());
/// routes.add("POST /v1/charges", payments.clone())?;
/// routes.add("POST /v1/charges/{id}/refunds", payments)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Routes {
    exact: Table,
    /// Those whose upstream takes capitals for small letters, by their patterns in lower case.
    folded: Table,
    /// True if there are any.
    folds: bool,
    fallback: Arc<Route>,
    all: Vec<Arc<Route>>,
}

/// One route.
#[derive(Debug)]
pub struct Route {
    name: Box<str>,
    pattern: Option<Box<str>>,
    policy: RoutePolicy,
    /// How specific it is: for one method or any, then segment by segment.
    rank: (bool, Box<[u8]>),
    /// Its place in [`Routes::all`].
    pub(crate) index: usize,
}

/// Why a route cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// Not `METHOD PATH`.
    #[error(
        "`{0}` is not a route; write METHOD PATH, such as POST /v1/charges/{{id}}, or * for any method"
    )]
    Malformed(String),
    /// The path is not a pattern.
    #[error(
        "`{path}` is not a path pattern: {reason}; write {{name}} for one segment and {{*rest}} for all that follow"
    )]
    BadPattern {
        /// The path.
        path: String,
        /// What the router said.
        reason: String,
    },
    /// Another route matches the same requests.
    #[error("`{new}` matches the same requests as `{old}`; keep one of them")]
    Conflict {
        /// The route to be added.
        new: String,
        /// The path pattern that is there, for the same method.
        old: String,
    },
}

// === impl Routes ===

impl Routes {
    /// No routes yet: everything comes under `fallback`.
    pub fn new(fallback: RoutePolicy) -> Self {
        let fallback = Arc::new(Route::new("*", None, fallback, 0));
        let all = vec![fallback.clone()];
        Self { exact: Table::default(), folded: Table::default(), folds: false, fallback, all }
    }

    /// Adds a route: `METHOD PATH`, with `{name}` and `{*rest}` in the path and `*` for any method.
    pub fn add(&mut self, matches: &str, policy: RoutePolicy) -> Result<(), RouteError> {
        let malformed = || RouteError::Malformed(matches.to_owned());
        let (method, path) = matches.split_once(' ').ok_or_else(malformed)?;
        // As requests are matched, or it would match none.
        let path = path.trim_start();
        if !path.starts_with('/') || path.contains(char::is_whitespace) {
            return Err(malformed());
        }
        let path = &*merged(path);
        let name = format!("{method} {path}");
        let method = match method {
            "*" => None,
            method if method.bytes().any(|byte| byte.is_ascii_lowercase()) => {
                return Err(malformed());
            }
            method => Some(Method::from_bytes(method.as_bytes()).map_err(|_| malformed())?),
        };
        let ignores_case = policy.path_case == PathComparison::Ignore;
        let route = Arc::new(Route::new(&name, Some(path), policy, self.all.len()));
        let refused = |error| RouteError::of(name.clone(), path, error);
        if ignores_case {
            let folded = &folded_pattern(path);
            self.folded.insert(method.as_ref(), folded, route.clone()).map_err(refused)?;
            self.folds = true;
        } else {
            self.exact.insert(method.as_ref(), path, route.clone()).map_err(refused)?;
        }
        self.all.push(route);
        Ok(())
    }

    /// The route of a request, however its path is spelled: escapes of unreserved characters,
    /// repeated slashes, `.`, `..` and a slash at the end do not get around a route. One for its
    /// method comes before one for any method.
    pub fn find(&self, method: &Method, path: &str) -> &Arc<Route> {
        self.look_up(method, &merged(path))
    }

    /// The route of a path without empty segments.
    fn look_up(&self, method: &Method, path: &str) -> &Arc<Route> {
        let folded = self.folds.then(|| folded(path));
        let best = |find: Find| {
            let exact = find(&self.exact, method, path);
            let folded = folded.as_ref().and_then(|path| find(&self.folded, method, path));
            match (exact, folded) {
                (Some(exact), Some(folded)) if folded.rank > exact.rank => Some(folded),
                (exact, folded) => exact.or(folded),
            }
        };
        best(Table::find).or_else(|| best(Table::find_longer)).unwrap_or(&self.fallback)
    }

    /// What two servers may read differently in a path that is protected by one of the readings. Were
    /// it passed on, it could come under one route here and be taken for another by the upstream, without
    /// what that one asks for. The mode is that of the strictest such route.
    pub(crate) fn ambiguity(&self, method: &Method, path: &str) -> Option<(Ambiguity, Mode)> {
        if !is_suspicious(path) {
            return None;
        }
        let (ambiguity, route) = match Ambiguity::of(path) {
            slash @ (None | Some(Ambiguity::EncodedSlash)) => {
                self.strictest_reading(method, path, slash)?
            }
            // What it leads to is known to the upstream alone.
            Some(ambiguity) => (ambiguity, self.all.iter().max_by_key(|it| it.guard(method))?),
        };
        let mode = route.guard(method);
        (mode != Mode::Off).then_some((ambiguity, mode))
    }

    /// How much is asked for a request with this method.
    pub(crate) fn asked_for(&self, method: &Method, path: &str) -> (Mode, Need) {
        let route = self.find(method, path);
        let refused = self.ambiguity(method, path).map(|(_, mode)| (mode, Need::Required));
        let asked = (route.guard(method), route.policy.need(method));
        refused.map_or(asked, |refused| refused.max(asked))
    }

    /// Another route than the one that a path comes under here, if one of its readings leads there: the
    /// strictest, if there are many. Or its own route, if the path has an escaped slash and the route
    /// refuses such.
    ///
    /// Two routes that protect alike by their modes may ask for different things: a key, an identity, a
    /// token that is verified. None of them is the stricter one, so it is not asked which.
    fn strictest_reading(
        &self,
        method: &Method,
        path: &str,
        slash: Option<Ambiguity>,
    ) -> Option<(Ambiguity, &Arc<Route>)> {
        let refuses = |route: &Route| route.policy.path_encoded_slash == EncodedSlash::Refuse;
        let own = self.find(method, path);
        let with_slash = slash.filter(|_| refuses(own)).map(|slash| (slash, own));
        let found = readings(path).into_iter().filter_map(|Read { path, ambiguity }| {
            let route = self.look_up(method, &path);
            // A route that knows it for a part of a name is not reached by taking it for a slash.
            let is_read_so =
                ambiguity != Ambiguity::EncodedSlash || (with_slash.is_some() && refuses(route));
            let is_guarded = route.guard(method) != Mode::Off;
            // A route that is only watched asks for nothing that a protected one would have to give.
            let is_as_strict = route.guard(method) >= own.guard(method);
            // Dots are spelling: where the same is asked for, a retry with them is to be a replay.
            let is_same = Arc::ptr_eq(route, own)
                || (ambiguity == Ambiguity::Dots && route.policy == own.policy);
            (is_read_so && is_guarded && is_as_strict && !is_same).then_some((ambiguity, route))
        });
        with_slash.into_iter().chain(found).max_by_key(|(_, route)| route.guard(method))
    }

    /// What everything comes under that no pattern matches.
    pub const fn fallback(&self) -> &Arc<Route> {
        &self.fallback
    }

    /// All routes, the fallback first.
    pub fn all(&self) -> &[Arc<Route>] {
        &self.all
    }
}

impl Default for Routes {
    fn default() -> Self {
        Self::new(RoutePolicy::default())
    }
}

// === impl Route ===

impl Route {
    fn new(name: &str, pattern: Option<&str>, policy: RoutePolicy, index: usize) -> Self {
        let rank = (!name.starts_with('*'), pattern.map(rank).unwrap_or_default());
        Self { name: name.into(), pattern: pattern.map(Into::into), policy, rank, index }
    }

    /// `METHOD PATTERN`, or `*` for the fallback: what logs and metrics call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its policy.
    pub const fn policy(&self) -> &RoutePolicy {
        &self.policy
    }

    /// True if requests of this method are passed on, whatever they bring.
    pub fn passes(&self, method: &Method) -> bool {
        self.policy.need(method) == Need::Pass
    }

    /// What is done for requests of this method: nothing if they pass.
    fn guard(&self, method: &Method) -> Mode {
        if self.passes(method) { Mode::Off } else { self.policy.mode }
    }

    /// True if a pattern matched, rather than none.
    pub(crate) const fn is_matched(&self) -> bool {
        self.pattern.is_some()
    }

    /// What a key is good for: the pattern, or the path itself if none matched.
    ///
    /// That is the path with empty segments and a slash at its end left out, and in small letters if
    /// the upstream ignores capitals, while the fingerprint
    /// has them, unless the upstream ignores them ([`compared`](Self::compared)). So a key that comes
    /// again with another such path finds its record, and is a mismatch there. Were it another
    /// scope, a server that takes both for one path would execute twice. Were it the same
    /// fingerprint, one that takes them for two would have an operation answered with another's
    /// reply.
    pub(crate) fn what<'a>(&'a self, path: &'a str) -> Cow<'a, str> {
        match &self.pattern {
            Some(pattern) => Cow::Borrowed(pattern),
            None => self.as_case_counts(without_final_slash(merged(path))),
        }
    }

    /// The path as it must be when a key comes again: in its one spelling, and without what the
    /// upstream ignores.
    ///
    /// Where no pattern matched, capitals count: any segment may be a parameter to the upstream, and
    /// those keep theirs.
    pub(crate) fn compared<'a>(&self, path: &'a str) -> Cow<'a, str> {
        let path = match self.policy.path_slash {
            PathComparison::Exact => normalised(path),
            PathComparison::Ignore => without_final_slash(merged(path)),
        };
        if self.is_matched() { self.as_case_counts(path) } else { path }
    }

    fn as_case_counts<'a>(&self, path: Cow<'a, str>) -> Cow<'a, str> {
        match self.policy.path_case {
            PathComparison::Exact => path,
            PathComparison::Ignore => folded_like(&path, self.pattern.as_deref()).into(),
        }
    }
}

/// How specific a pattern is, segment by segment: text before a parameter before a rest.
fn rank(pattern: &str) -> Box<[u8]> {
    let of = |segment: &str| match segment {
        rest if rest.starts_with("{*") => 0,
        parameter if parameter.contains('{') => 1,
        _ => 2,
    };
    pattern.split('/').map(of).collect()
}

/// Many servers take `/charges/` for `/charges`.
fn without_final_slash(path: Cow<'_, str>) -> Cow<'_, str> {
    match path {
        Cow::Borrowed(path) => Cow::Borrowed(path.strip_suffix('/').unwrap_or(path)),
        Cow::Owned(mut path) => {
            if path.ends_with('/') {
                path.pop();
            }
            Cow::Owned(path)
        }
    }
}

// === impl RouteError ===

impl RouteError {
    fn of(new: String, path: &str, error: matchit::InsertError) -> Self {
        match error {
            matchit::InsertError::Conflict { with } => Self::Conflict { new, old: with },
            other => Self::BadPattern { path: path.to_owned(), reason: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests;
