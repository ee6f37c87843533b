-- Same transaction: the claim, the work and the settle commit together, or none of them does.
--
-- No lease is written: an advisory lock, which ends with the transaction, keeps duplicates out while
-- the work runs, and the record appears settled, in the moment of the commit. The primary key of the
-- table is the last word: even if the lock failed, two transactions could not both settle.

-- Events that are to be published because a transaction committed.
CREATE TABLE {schema}.outbox (
    seq     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Chosen once, so an event that is published twice has the same id both times.
    event   uuid        NOT NULL,
    topic   text        NOT NULL,
    -- Events of one key are published in order.
    key     text,
    headers jsonb       NOT NULL,
    payload bytea       NOT NULL,
    record  bytea       NOT NULL,
    created timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE {schema}.outbox IS 'Semel: events that wait to be published. Written by settle_in_transaction.';

-- When this transaction began, to the microsecond.
CREATE FUNCTION {schema}.transaction_began() RETURNS bigint
LANGUAGE sql STABLE
AS $$ SELECT (extract(epoch FROM transaction_timestamp()) * 1000000)::bigint $$;

-- Asks for the right to work in this transaction. Writes nothing, except that an abandoned lease is
-- failed where the policy says so.
--
-- wait_ms: how long to wait for another transaction with the same key; 0 does not wait.
-- verdict: as for `claim`; with 0 comes `replaces`: which version of an old row is to be overwritten,
-- named by the transaction that wrote it; NULL if there is none.
-- began: names this transaction. The permit is of no use in another.
CREATE FUNCTION {schema}.claim_in_transaction(
    a_id bytea, a_fingerprint bytea, a_lock bigint, wait_ms bigint, on_abandoned smallint,
    OUT verdict smallint, OUT fence bigint, OUT replaces bigint, OUT now_ms bigint,
    OUT expires bigint, OUT state smallint, OUT result text, OUT reply bytea, OUT began bigint
)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    seen     {schema}.record;
    -- Such a transaction sees nothing that was committed after it began, not even under the lock.
    is_still boolean := current_setting('transaction_isolation')
                        IN ('repeatable read', 'serializable');
    is_alone boolean;
    is_there boolean;
    -- Only who is alone and finds an old row looks at it under its lock.
    locks    boolean := false;
    lock_timeout_before text;
BEGIN
    began := {schema}.transaction_began();
    -- An outcome must not be returned before it is durable (I6).
    IF current_setting('synchronous_commit') IN ('off', 'local') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    -- Before it looks: what is seen then stays so. (And SERIALIZABLE takes a look at a new key for a
    -- conflict with a transaction that writes another key beside it.)
    is_alone := pg_try_advisory_xact_lock(a_lock);
    LOOP
        IF is_alone AND is_still THEN
            -- An insert meets what a look cannot see: it fails if there is something, as a
            -- serialization failure, before any work was done. It is undone if there is nothing.
            now_ms := {schema}.now_ms();
            BEGIN
                INSERT INTO {schema}.record
                        (id, fingerprint, owner, created, expires, fence, until, state)
                VALUES (a_id, a_fingerprint, '00000000-0000-0000-0000-000000000000',
                        now_ms, now_ms, 1, now_ms, 2)
                ON CONFLICT (id) DO NOTHING;
                IF FOUND THEN
                    RAISE EXCEPTION 'nothing is there' USING ERRCODE = 'SEM00';
                END IF;
            EXCEPTION WHEN SQLSTATE 'SEM00' THEN
                verdict := 0;
                fence := 1;
                RETURN;
            END;
        END IF;

        IF locks THEN
            SELECT r.* INTO seen FROM {schema}.record r WHERE r.id = a_id FOR UPDATE;
        ELSE
            SELECT r.* INTO seen FROM {schema}.record r WHERE r.id = a_id;
        END IF;
        is_there := FOUND;
        now_ms := {schema}.now_ms();
        fence := 1;

        IF is_there AND seen.expires > now_ms THEN
            IF seen.fingerprint <> a_fingerprint THEN
                verdict := 3;
                RETURN;
            ELSIF seen.state >= 3 THEN
                verdict := 1;
                expires := seen.expires;
                state := seen.state;
                result := seen.result;
                reply := seen.reply;
                RETURN;
            ELSIF seen.state = 1 OR (seen.state = 0 AND now_ms >= seen.until AND on_abandoned = 2) THEN
                verdict := 4;
                RETURN;
            ELSIF seen.state = 0 AND now_ms < seen.until THEN
                verdict := 2;
                RETURN;
            END IF;
            fence := seen.fence + 1;
        END IF;

        EXIT WHEN is_alone AND (locks OR NOT is_there);
        IF is_alone THEN
            locks := true;
        ELSIF wait_ms > 0 THEN
            lock_timeout_before := current_setting('lock_timeout');
            BEGIN
                PERFORM set_config('lock_timeout', wait_ms::text, true);
                PERFORM pg_advisory_xact_lock(a_lock);
                is_alone := true;
            EXCEPTION WHEN lock_not_available THEN
                -- The setting went back with what was undone.
            END;
            IF is_alone THEN
                PERFORM set_config('lock_timeout', lock_timeout_before, true);
            END IF;
        END IF;
        IF NOT is_alone THEN
            verdict := 2;
            RETURN;
        END IF;
        -- The transaction that had the lock may have committed: look again.
    END LOOP;

    verdict := 0;
    IF is_there AND seen.expires > now_ms AND seen.state = 0 AND on_abandoned = 1 THEN
        UPDATE {schema}.record r SET state = 5 WHERE r.id = a_id;
        verdict := 1;
        expires := seen.expires;
        state := 5;
    ELSIF is_there THEN
        -- It is locked: this is what was looked at.
        SELECT r.xmin::text::bigint INTO replaces FROM {schema}.record r WHERE r.id = a_id;
    END IF;
END
$$;

-- These two only fail: statements that come to them must not be committed.

-- The permit is settled without its lock, and without the rows of its work, which may have been rolled
-- back.
CREATE FUNCTION {schema}.permit_ended() RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RAISE EXCEPTION 'the transaction of this permit has ended'
        USING ERRCODE = 'invalid_transaction_state';
END
$$;

-- Claimed by other means meanwhile. All of this transaction must go; a new one will see it.
CREATE FUNCTION {schema}.claimed_elsewhere() RETURNS smallint
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RAISE EXCEPTION 'the record was claimed outside of this transaction'
        USING ERRCODE = 'serialization_failure';
END
$$;

-- Records the outcome and its events in this transaction. Gives until when it is replayed.
--
-- a_replaces: as the claim gave it. The lock on that version is gone if the claim was in a savepoint that
-- was rolled back, so whatever has come since is not overwritten. The clock is not asked: it may have
-- stepped back since the claim, which has found the old row to be expired if the fence is the first.
CREATE FUNCTION {schema}.settle_in_transaction(
    a_id bytea, a_fingerprint bytea, a_owner uuid, a_fence bigint, a_began bigint,
    ttl_ms bigint, a_state smallint, a_result text, a_reply bytea,
    events uuid[], topics text[], keys text[], headers text[], payloads bytea[],
    a_replaces bigint,
    OUT expires bigint
)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    now_ms bigint := {schema}.now_ms();
BEGIN
    IF a_began <> {schema}.transaction_began() THEN
        PERFORM {schema}.permit_ended();
    END IF;
    expires := now_ms + ttl_ms;
    IF a_replaces IS NOT NULL THEN
        UPDATE {schema}.record r
        SET fingerprint = a_fingerprint, owner = a_owner, fence = a_fence, until = now_ms,
            created = CASE WHEN a_fence = 1 OR r.expires <= now_ms
                           THEN now_ms ELSE r.created END,
            expires = CASE WHEN a_fence = 1 OR r.expires <= now_ms
                           THEN now_ms + ttl_ms ELSE r.expires END,
            state = a_state, result = a_result, reply = a_reply
        WHERE r.id = a_id AND r.xmin::text::bigint = a_replaces
        RETURNING r.expires INTO expires;
    ELSE
        INSERT INTO {schema}.record
                (id, fingerprint, owner, created, expires, fence, until, state, result, reply)
        VALUES (a_id, a_fingerprint, a_owner, now_ms, expires, a_fence, now_ms,
                a_state, a_result, a_reply)
        ON CONFLICT (id) DO NOTHING;
    END IF;
    IF NOT FOUND THEN
        PERFORM {schema}.claimed_elsewhere();
    END IF;
    IF cardinality(events) > 0 THEN
        INSERT INTO {schema}.outbox (event, topic, key, headers, payload, record)
        SELECT e.event, e.topic, e.key, e.headers::jsonb, e.payload, a_id
        FROM unnest(events, topics, keys, headers, payloads)
             WITH ORDINALITY AS e (event, topic, key, headers, payload, place)
        ORDER BY e.place;
    END IF;
END
$$;
