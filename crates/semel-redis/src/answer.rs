//! The replies of the scripts: a verdict and its data.

use bytes::Bytes;
use redis::Value;
use semel_core::{Attempt, Claim, Lease, Record, Refusal, State, Timestamp};
use semel_store::Renewed;

use crate::value::{self, Damage};

/// A verdict with numbers or a record.
#[derive(Debug)]
pub(crate) struct Answer {
    verdict: u64,
    rest: Vec<Value>,
}

const UNEXPECTED: Damage = Damage::Nonsense { what: "an answer that no script gives" };

// === impl Answer ===

impl Answer {
    pub(crate) fn read(answer: Value) -> Result<Self, Damage> {
        match answer {
            Value::Array(mut rest) if !rest.is_empty() => {
                let verdict = number(&rest.remove(0)).ok_or(UNEXPECTED)?;
                Ok(Self { verdict, rest })
            }
            Value::BulkString(_) => Ok(Self { verdict: 0, rest: vec![answer] }),
            verdict => Ok(Self { verdict: number(&verdict).ok_or(UNEXPECTED)?, rest: Vec::new() }),
        }
    }

    /// Whether a new execution would begin but the server's memory is full.
    pub(crate) const fn has_no_room(&self) -> bool {
        self.verdict == 5
    }

    pub(crate) fn claim(self, attempt: &Attempt) -> Result<Claim, Damage> {
        Ok(match self.verdict {
            0 => {
                let granted = value::decode(self.record()?)?;
                let State::Leased { until } = granted.state else {
                    return Err(UNEXPECTED);
                };
                let Record { fingerprint, fence, owner, expires, .. } = granted;
                Claim::Execute(Lease::new(attempt.id(), fingerprint, fence, owner, until, expires))
            }
            1 => {
                let (settlement, expires) = value::settled(self.record()?)?;
                Claim::Replay { settlement, expires }
            }
            2 => {
                let [until] = self.numbers()?;
                Claim::InFlight { until: moment(until) }
            }
            3 => Claim::Mismatch,
            4 => Claim::Unknown,
            _ => return Err(UNEXPECTED),
        })
    }

    pub(crate) fn renewed(self) -> Result<Renewed, Damage> {
        if self.verdict == 0 {
            let [until, expires] = self.numbers()?;
            return Ok(Renewed::Until { until: moment(until), expires: moment(expires) });
        }
        self.refusal()?.map(Renewed::Refused).ok_or(UNEXPECTED)
    }

    /// Why a fenced write was refused; `None` if it was done.
    pub(crate) fn refusal(self) -> Result<Option<Refusal>, Damage> {
        Ok(match self.verdict {
            0 => None,
            1 => {
                let (settlement, expires) = value::settled(self.record()?)?;
                Some(Refusal::Settled { settlement, expires })
            }
            2 => Some(Refusal::Superseded),
            3 => Some(Refusal::Gone),
            _ => return Err(UNEXPECTED),
        })
    }

    /// The record that was inspected.
    pub(crate) fn found(self) -> Result<Option<Record>, Damage> {
        match self.verdict {
            1 => value::decode(self.record()?).map(Some),
            3 => Ok(None),
            _ => Err(UNEXPECTED),
        }
    }

    /// The server's clock.
    pub(crate) fn clock(&self) -> Result<Timestamp, Damage> {
        let [now] = self.numbers()?;
        Ok(moment(now))
    }

    fn numbers<const N: usize>(&self) -> Result<[u64; N], Damage> {
        let mut numbers = [0; N];
        for (at, found) in numbers.iter_mut().enumerate() {
            *found = self.rest.get(at).and_then(number).ok_or(UNEXPECTED)?;
        }
        Ok(numbers)
    }

    fn record(mut self) -> Result<Bytes, Damage> {
        match self.rest.pop() {
            Some(Value::BulkString(bytes)) => Ok(bytes.into()),
            _ => Err(UNEXPECTED),
        }
    }
}

/// Whether an answer depends on a record that was read or written: a lease, an outcome, a write. In
/// flight and refusals need no confirmation by replicas.
pub(crate) fn depends_on_a_record(answer: &Value) -> bool {
    match answer {
        Value::Array(parts) => matches!(parts.first(), Some(Value::Int(0 | 1))),
        Value::Int(verdict) => *verdict == 0,
        Value::BulkString(_) => true,
        _ => false,
    }
}

const fn moment(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}
