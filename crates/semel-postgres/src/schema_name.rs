//! The name of a schema in the database.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The name of the schema of all tables and functions. It is put into SQL unquoted, so it consists of
/// letters, digits and underscores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchemaName(String);

// === impl SchemaName ===

impl SchemaName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text itself if it is invalid.
    pub(crate) fn parse(name: String) -> Result<Self, String> {
        let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        let starts_well = name.bytes().next().is_some_and(|c| !c.is_ascii_digit());
        // PostgreSQL keeps at most 63 bytes of a name, and reserves "pg_".
        if starts_well && name.len() <= 63 && name.bytes().all(is_plain) && !name.starts_with("pg_")
        {
            return Ok(Self(name));
        }
        Err(name)
    }

    /// A number that tells it apart from other schemas.
    pub(crate) fn salt(&self) -> i64 {
        let hash = Sha256::digest(self.0.as_bytes());
        hash.iter().take(8).fold(0, |bits, byte| bits << 8 | i64::from(*byte))
    }
}

impl Default for SchemaName {
    fn default() -> Self {
        Self("semel".to_owned())
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_has_a_plain_name() {
        for good in ["semel", "_a1", "a"] {
            assert!(SchemaName::parse(good.to_owned()).is_ok(), "{good}");
        }
        for bad in ["", "1a", "a.b", "a\"b", "a'b", "A", "a b", "pg_x", &"a".repeat(64)] {
            assert!(SchemaName::parse(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
