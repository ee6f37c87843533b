//! What a fingerprint is made of.

use std::borrow::Cow;

/// A named part of a request. The name tells how the value was read.
pub(crate) type Part<'a> = (&'static str, Cow<'a, [u8]>);
