//! Parameters and rows.

mod decided;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use decided::Decided;
use semel_core::{
    Attempt, Claim, Fence, Fingerprint, Lease, OnAbandoned, Owner, Record, RecordId, Refusal,
    Release, Reply, ResultId, Settlement, State, Timestamp,
};
use semel_store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

const LEASED: i16 = 0;
const HELD: i16 = 1;
const RELEASED: i16 = 2;
const COMPLETED: i16 = 3;
const FAILED: i16 = 4;
const ABANDONED: i16 = 5;

/// The longest duration that is sent: far beyond any policy, and short enough to be added to the current
/// time.
const MILLIS_MAX: i64 = i64::MAX / 4;

/// A parameter whose bytes never appear in logs: the driver can be made to log its parameters (trap 24).
pub(crate) struct Hidden<'a>(pub(crate) &'a [u8]);

/// The same for owned bytes.
pub(crate) struct HiddenBytes(pub(crate) Bytes);

/// An owner, as the server's 128-bit type.
#[derive(Debug)]
pub(crate) struct OwnerParam(pub(crate) Owner);

/// A settlement in three columns.
#[derive(Debug)]
pub(crate) struct SettlementParams<'a> {
    pub(crate) state: i16,
    pub(crate) result: Option<&'a str>,
    pub(crate) reply: Option<Hidden<'a>>,
}

/// The verdict of a fenced write.
pub(crate) enum Fenced {
    Done,
    Refused(Refusal),
}

/// Why a row is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    #[error("{0}")]
    Column(#[from] tokio_postgres::Error),
    #[error("it has {0}")]
    Nonsense(&'static str),
}

/// Milliseconds for the server, rounded up as [`Timestamp::plus`] does.
pub(crate) fn millis(duration: Duration) -> i64 {
    let millis = duration.as_nanos().div_ceil(1_000_000);
    i64::try_from(millis).unwrap_or(MILLIS_MAX).min(MILLIS_MAX)
}

/// A fence for the server.
pub(crate) fn fence_param(fence: Fence) -> i64 {
    i64::try_from(fence.get()).unwrap_or(i64::MAX)
}

pub(crate) const fn on_abandoned(choice: OnAbandoned) -> i16 {
    match choice {
        OnAbandoned::Reexecute => 0,
        OnAbandoned::Fail => 1,
        OnAbandoned::Hold => 2,
    }
}

pub(crate) const fn release_state(how: Release) -> i16 {
    match how {
        Release::Retry => RELEASED,
        Release::Hold => HELD,
    }
}

/// The answer to a claim: the function's, or none and `expires, state, result, reply`.
pub(crate) fn claim(row: &Row, attempt: &Attempt) -> Result<Claim, Damage> {
    let Some(decided) = row.try_get::<_, Option<Decided>>(0)? else {
        return Ok(Claim::Replay { settlement: settlement(row, 2)?, expires: moment(row, 1)? });
    };
    Ok(match decided.verdict {
        0 => {
            let (id, fingerprint, owner) = (attempt.id(), attempt.fingerprint(), attempt.owner());
            let (until, expires) = (moment_of(decided.until)?, moment_of(decided.expires)?);
            let fence = fence_of(decided.fence.unwrap_or_default())?;
            Claim::Execute(Lease::new(id, fingerprint, fence, owner, until, expires))
        }
        1 => Claim::Replay {
            expires: moment_of(decided.expires)?,
            settlement: decided.settlement()?,
        },
        2 => Claim::InFlight { until: moment_of(decided.until)? },
        3 => Claim::Mismatch,
        4 => Claim::Unknown,
        _ => return Err(Damage::Nonsense("an unknown verdict")),
    })
}

/// The answer to a fenced write: `verdict` first, and `expires, state, result, reply` from
/// `settled` on.
pub(crate) fn fenced(row: &Row, settled: usize) -> Result<Fenced, Damage> {
    Ok(match row.try_get::<_, i16>(0)? {
        0 => Fenced::Done,
        1 => Fenced::Refused(Refusal::Settled {
            settlement: settlement(row, settled + 1)?,
            expires: moment(row, settled)?,
        }),
        2 => Fenced::Refused(Refusal::Superseded),
        3 => Fenced::Refused(Refusal::Gone),
        _ => return Err(Damage::Nonsense("an unknown verdict")),
    })
}

/// A record: `fingerprint, owner, created, fence, until, expires, state, result, reply`.
pub(crate) fn record(row: &Row) -> Result<Record, Damage> {
    let fingerprint: &[u8] = row.try_get(0)?;
    let fingerprint = fingerprint
        .try_into()
        .map_err(|_| Damage::Nonsense("a fingerprint that is not 32 bytes"))?;
    let state = match row.try_get::<_, i16>(6)? {
        LEASED => State::Leased { until: moment(row, 4)? },
        HELD => State::Held,
        RELEASED => State::Released,
        _ => State::Settled(settlement(row, 6)?),
    };
    Ok(Record {
        fingerprint: Fingerprint::from_bytes(fingerprint),
        created: moment(row, 2)?,
        expires: moment(row, 5)?,
        fence: fence(row, 3)?,
        owner: row.try_get::<_, OwnerParam>(1)?.0,
        state,
    })
}

/// A record that cannot be read.
pub(crate) fn corrupt(id: RecordId, damage: &Damage) -> StoreError {
    StoreError::Corrupt { what: format!("the record {} cannot be read: {damage}", id.prefix()) }
}

pub(crate) fn moment(row: &Row, column: usize) -> Result<Timestamp, Damage> {
    moment_of(row.try_get(column)?)
}

pub(crate) fn moment_of(millis: Option<i64>) -> Result<Timestamp, Damage> {
    let millis = millis.ok_or(Damage::Nonsense("no moment"))?;
    let millis = u64::try_from(millis).map_err(|_| Damage::Nonsense("a moment before 1970"))?;
    Ok(Timestamp::from_millis(millis))
}

fn fence(row: &Row, column: usize) -> Result<Fence, Damage> {
    fence_of(row.try_get(column)?)
}

pub(crate) fn fence_of(number: i64) -> Result<Fence, Damage> {
    u64::try_from(number).ok().and_then(Fence::new).ok_or(Damage::Nonsense("a fence below one"))
}

/// `state, result, reply`, from the column `first` on.
fn settlement(row: &Row, first: usize) -> Result<Settlement, Damage> {
    let reply: Option<&[u8]> = row.try_get(first + 2)?;
    let reply = reply.map(Bytes::copy_from_slice);
    settlement_of(row.try_get(first)?, row.try_get(first + 1)?, reply)
}

pub(crate) fn settlement_of(
    state: i16,
    result: Option<&str>,
    reply: Option<Bytes>,
) -> Result<Settlement, Damage> {
    let reply = || {
        let reply = Reply::new(reply.ok_or(Damage::Nonsense("an outcome without a reply"))?);
        Ok::<_, Damage>(match result.and_then(ResultId::new) {
            Some(result) => reply.with_result(result),
            None => reply,
        })
    };
    match state {
        COMPLETED => Ok(Settlement::Completed(reply()?)),
        FAILED => Ok(Settlement::Failed(reply()?)),
        ABANDONED => Ok(Settlement::Abandoned),
        _ => Err(Damage::Nonsense("an unknown state")),
    }
}

// === impl SettlementParams ===

impl<'a> SettlementParams<'a> {
    pub(crate) fn new(settlement: &'a Settlement) -> Self {
        let state = match settlement {
            Settlement::Completed(_) => COMPLETED,
            Settlement::Failed(_) => FAILED,
            Settlement::Abandoned => ABANDONED,
        };
        let reply = settlement.reply();
        Self {
            state,
            result: reply.and_then(Reply::result).map(ResultId::as_str),
            reply: reply.map(|reply| Hidden(reply.bytes())),
        }
    }
}

// === impl Hidden ===

impl fmt::Debug for Hidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl ToSql for Hidden<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::BYTEA
    }

    to_sql_checked!();
}

// === impl HiddenBytes ===

impl fmt::Debug for HiddenBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hidden(&self.0).fmt(f)
    }
}

impl ToSql for HiddenBytes {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Hidden(&self.0).to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        Hidden::accepts(ty)
    }

    to_sql_checked!();
}

// === impl OwnerParam ===

impl OwnerParam {
    pub(crate) const fn from_bits(bits: u128) -> Self {
        Self(Owner::from_u128(bits))
    }
}

impl ToSql for OwnerParam {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_u128(self.0.as_u128());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for OwnerParam {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Owner::from_u128(u128::from_be_bytes(raw.try_into()?))))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_up_and_can_be_added_to_now() {
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_millis(5)), 5);
        assert!(millis(Duration::MAX).checked_add(1 << 50).is_some());
    }

    #[test]
    fn parameters_do_not_show_what_they_are() {
        let settlement = Settlement::Completed(Reply::new("card 4242"));
        let shown = format!("{:?}", SettlementParams::new(&settlement));
        assert!(shown.contains("9 bytes") && !shown.contains("4242"), "{shown}");
    }
}
