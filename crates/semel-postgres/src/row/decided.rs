use std::error::Error;

use bytes::Bytes;
use semel_core::Settlement;
use tokio_postgres::types::{FromSql, Type};

use super::{Damage, settlement_of};

/// The result of the function `claim`, as one composite value.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) verdict: i16,
    pub(crate) fence: Option<i64>,
    pub(crate) until: Option<i64>,
    pub(crate) expires: Option<i64>,
    state: Option<i16>,
    result: Option<String>,
    reply: Option<Bytes>,
}

/// The columns of a composite value. Each is preceded by its type and its length (below zero: NULL).
struct Columns<'a>(&'a [u8]);

type Damaged = Box<dyn Error + Sync + Send>;

// === impl Decided ===

impl Decided {
    pub(crate) fn settlement(self) -> Result<Settlement, Damage> {
        let state = self.state.ok_or(Damage::Nonsense("an outcome without a state"))?;
        settlement_of(state, self.result.as_deref(), self.reply)
    }
}

impl<'a> FromSql<'a> for Decided {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Damaged> {
        let mut columns = Columns(raw);
        if columns.number()? != 7 {
            return Err("an answer of other columns".into());
        }
        Ok(Self {
            verdict: columns.next()?.ok_or("no verdict")?,
            fence: columns.next()?,
            until: columns.next()?,
            expires: columns.next()?,
            state: columns.next()?,
            result: columns.next()?,
            reply: columns.next::<&[u8]>()?.map(Bytes::copy_from_slice),
        })
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::RECORD
    }
}

// === impl Columns ===

impl<'a> Columns<'a> {
    fn number(&mut self) -> Result<i32, Damaged> {
        let (number, rest) = self.0.split_first_chunk().ok_or("it ends early")?;
        self.0 = rest;
        Ok(i32::from_be_bytes(*number))
    }

    fn next<T: FromSql<'a>>(&mut self) -> Result<Option<T>, Damaged> {
        let oid = self.number()?.cast_unsigned();
        let ty = Type::from_oid(oid).filter(T::accepts).ok_or("a column of another type")?;
        let Ok(length) = usize::try_from(self.number()?) else { return Ok(None) };
        let (value, rest) = self.0.split_at_checked(length).ok_or("it ends early")?;
        self.0 = rest;
        T::from_sql(&ty, value).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(columns: &[(Type, Option<&[u8]>)]) -> Vec<u8> {
        let mut raw = i32::try_from(columns.len()).unwrap().to_be_bytes().to_vec();
        for (ty, value) in columns {
            raw.extend(ty.oid().to_be_bytes());
            let length = value.map_or(-1, |value| i32::try_from(value.len()).unwrap());
            raw.extend(length.to_be_bytes());
            raw.extend(value.unwrap_or_default());
        }
        raw
    }

    fn replay() -> Vec<u8> {
        encoded(&[
            (Type::INT2, Some(&1_i16.to_be_bytes())),
            (Type::INT8, None),
            (Type::INT8, None),
            (Type::INT8, Some(&77_i64.to_be_bytes())),
            (Type::INT2, Some(&3_i16.to_be_bytes())),
            (Type::TEXT, Some(b"ch_1")),
            (Type::BYTEA, Some(b"reply")),
        ])
    }

    #[test]
    fn every_column_is_read() {
        let decided = Decided::from_sql(&Type::RECORD, &replay()).unwrap();
        let expected = Decided {
            verdict: 1,
            expires: Some(77),
            state: Some(3),
            result: Some("ch_1".to_owned()),
            reply: Some(Bytes::from_static(b"reply")),
            ..Decided::default()
        };
        assert_eq!(decided, expected);
    }

    #[test]
    fn a_truncated_value_is_an_error_and_no_panic() {
        let whole = replay();
        for length in 0..whole.len() {
            assert!(Decided::from_sql(&Type::RECORD, &whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn columns_of_another_type_are_refused() {
        let mut other = replay();
        // The type of the first column.
        other[4..8].copy_from_slice(&Type::INT8.oid().to_be_bytes());
        assert!(Decided::from_sql(&Type::RECORD, &other).is_err());
    }
}
