//! Transactions of tokio-postgres.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row, Transaction};

use super::session::{ClaimReply, ClaimRequest, Session, SettleRequest};
use crate::row::{self, Hidden, HiddenBytes, OwnerParam, SettlementParams};

type Param<'a> = (&'a (dyn ToSql + Sync), Type);

const CLAIM_TYPES: [Type; 5] = [Type::BYTEA, Type::BYTEA, Type::INT8, Type::INT8, Type::INT2];

/// The first nine are the record's, the next seven those of its events.
pub(super) const SETTLE_TYPES: [Type; 17] = [
    Type::BYTEA,
    Type::BYTEA,
    Type::UUID,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT2,
    Type::TEXT,
    Type::BYTEA,
    Type::UUID_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::BYTEA_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::INT8,
];

/// Without prepared statements: they would not help the next transaction of a pool, and cost a round trip
/// of their own.
impl Session for Transaction<'_> {
    type Error = Error;

    async fn claim(&mut self, sql: &str, request: &ClaimRequest) -> Result<ClaimReply, Error> {
        let values = ClaimValues::new(request);
        let params: Vec<Param<'_>> = values.params().into_iter().zip(CLAIM_TYPES).collect();
        found(&self.query_typed_one(sql, &params).await?)
    }

    async fn settle(&mut self, sql: &str, request: &SettleRequest<'_>) -> Result<i64, Error> {
        let values = SettleValues::new(request);
        let params: Vec<Param<'_>> = values.params().into_iter().zip(SETTLE_TYPES).collect();
        self.query_typed_one(sql, &params).await?.try_get(0)
    }
}

/// The columns of a claim's answer.
pub(super) fn found(row: &Row) -> Result<ClaimReply, Error> {
    let reply: Option<&[u8]> = row.try_get(7)?;
    Ok(ClaimReply {
        verdict: row.try_get(0)?,
        fence: row.try_get(1)?,
        replaces: row.try_get(2)?,
        now_ms: row.try_get(3)?,
        expires: row.try_get(4)?,
        state: row.try_get(5)?,
        result: row.try_get(6)?,
        reply: reply.map(bytes::Bytes::copy_from_slice),
        began: row.try_get(8)?,
    })
}

/// The parameters of a claim, in the driver's types.
pub(super) struct ClaimValues<'a> {
    id: Hidden<'a>,
    fingerprint: Hidden<'a>,
    request: &'a ClaimRequest,
}

/// The parameters of a settle, in the driver's types.
pub(super) struct SettleValues<'a> {
    id: Hidden<'a>,
    fingerprint: Hidden<'a>,
    owner: OwnerParam,
    fence: i64,
    ttl_ms: i64,
    outcome: SettlementParams<'a>,
    events: Vec<OwnerParam>,
    payloads: Vec<HiddenBytes>,
    request: &'a SettleRequest<'a>,
}

// === impl ClaimValues ===

impl<'a> ClaimValues<'a> {
    pub(super) fn new(request: &'a ClaimRequest) -> Self {
        let (id, fingerprint) = (request.id.as_bytes(), request.fingerprint.as_bytes());
        Self { id: Hidden(id), fingerprint: Hidden(fingerprint), request }
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 5] {
        let ClaimRequest { lock, wait_ms, on_abandoned, .. } = self.request;
        [&self.id, &self.fingerprint, lock, wait_ms, on_abandoned]
    }
}

// === impl SettleValues ===

impl<'a> SettleValues<'a> {
    pub(super) fn new(request: &'a SettleRequest<'a>) -> Self {
        let events = &request.events;
        Self {
            id: Hidden(request.id.as_bytes()),
            fingerprint: Hidden(request.fingerprint.as_bytes()),
            owner: OwnerParam(request.owner),
            fence: row::fence_param(request.fence),
            ttl_ms: row::millis(request.ttl),
            outcome: SettlementParams::new(request.settlement),
            events: events.ids.iter().map(|id| OwnerParam::from_bits(*id)).collect(),
            payloads: events.payloads.iter().cloned().map(HiddenBytes).collect(),
            request,
        }
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 17] {
        let SettleRequest { replaces, began, events, .. } = self.request;
        [
            &self.id,
            &self.fingerprint,
            &self.owner,
            &self.fence,
            began,
            &self.ttl_ms,
            &self.outcome.state,
            &self.outcome.result,
            &self.outcome.reply,
            &self.events,
            &events.topics,
            &events.keys,
            &events.headers,
            &self.payloads,
            &events.types,
            &events.not_befores,
            replaces,
        ]
    }
}
