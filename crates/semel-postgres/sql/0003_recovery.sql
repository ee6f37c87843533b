-- Recovery: what a claim is answered that comes late, and how long a record is kept that was claimed again.
--
-- The functions keep their parameters and columns, so that nodes of the version before call them as they
-- did: what they are answered is what this version decides.

-- Asks for the right to execute.
--
-- is_there: the caller has seen a record, or none
-- on_abandoned: 0 execute again, 1 fail, 2 hold
-- verdict: 0 execute, 1 replay, 2 in flight, 3 mismatch, 4 unknown
CREATE OR REPLACE FUNCTION {schema}.claim(
    a_id bytea, a_fingerprint bytea, a_owner uuid, lease_ms bigint, ttl_ms bigint,
    on_abandoned smallint, is_there boolean,
    OUT verdict smallint, OUT fence bigint, OUT until bigint, OUT expires bigint,
    OUT state smallint, OUT result text, OUT reply bytea
)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    seen   {schema}.record;
    -- Most repeats only look. A claim that has something to write looks again, under the row's lock.
    locked boolean := false;
    now_ms bigint;
BEGIN
    LOOP
        IF is_there THEN
            -- Before the look: a lease that is renewed meanwhile must not seem to have run out.
            now_ms := {schema}.now_ms();
            IF locked THEN
                SELECT r.* INTO seen FROM {schema}.record r WHERE r.id = a_id FOR UPDATE;
                -- Waiting for the lock took time.
                now_ms := {schema}.now_ms();
            ELSE
                SELECT r.* INTO seen FROM {schema}.record r WHERE r.id = a_id;
            END IF;
            is_there := FOUND;
        END IF;

        IF NOT is_there THEN
            now_ms := {schema}.now_ms();
            fence := 1;
            until := now_ms + lease_ms;
            expires := greatest(now_ms + ttl_ms, until);
            INSERT INTO {schema}.record
                    (id, fingerprint, owner, created, expires, fence, until, state)
            VALUES (a_id, a_fingerprint, a_owner, now_ms, expires, fence, until, 0)
            ON CONFLICT (id) DO NOTHING;
            IF FOUND THEN
                verdict := 0;
                RETURN;
            END IF;
            -- Another transaction was first, and has committed: look again.
            is_there := true;
            locked := false;
            CONTINUE;
        END IF;

        IF seen.expires > now_ms THEN
            -- Before anything else, in every state (I8).
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
            ELSIF seen.state = 1 THEN
                verdict := 4;
                RETURN;
            ELSIF seen.state = 2 AND seen.owner = a_owner THEN
                -- A copy of the claim that the network delayed: its owner has released, and its
                -- attempt is over.
                verdict := 2;
                until := now_ms;
                RETURN;
            ELSIF seen.state = 0 AND seen.owner <> a_owner THEN
                IF now_ms < seen.until THEN
                    verdict := 2;
                    until := seen.until;
                    RETURN;
                ELSIF on_abandoned = 2 THEN
                    verdict := 4;
                    RETURN;
                END IF;
            END IF;
        END IF;

        -- All that is left writes.
        IF NOT locked THEN
            locked := true;
            CONTINUE;
        END IF;

        IF seen.expires <= now_ms THEN
            -- A new life.
            fence := 1;
            until := now_ms + lease_ms;
            expires := greatest(now_ms + ttl_ms, until);
            seen.created := now_ms;
        ELSIF seen.state = 0 AND seen.owner <> a_owner AND on_abandoned = 1 THEN
            UPDATE {schema}.record r SET state = 5 WHERE r.id = a_id;
            verdict := 1;
            expires := seen.expires;
            state := 5;
            RETURN;
        ELSIF seen.state = 0 AND seen.owner = a_owner THEN
            -- The same claim, repeated: its lease never gets shorter.
            fence := seen.fence;
            until := greatest(now_ms + lease_ms, seen.until);
            expires := greatest(seen.expires, now_ms + ttl_ms, until);
        ELSE
            -- Released, or abandoned.
            fence := seen.fence + 1;
            until := now_ms + lease_ms;
            -- Retention counts from the latest grant, and a record outlives its lease (I1).
            expires := greatest(seen.expires, now_ms + ttl_ms, until);
        END IF;
        UPDATE {schema}.record r
        SET fingerprint = a_fingerprint, owner = a_owner, created = seen.created,
            expires = claim.expires, fence = claim.fence, until = claim.until,
            state = 0, result = NULL, reply = NULL
        WHERE r.id = a_id;
        verdict := 0;
        RETURN;
    END LOOP;
END
$$;

-- Records the outcome and its events in this transaction. Gives until when it is replayed.
--
-- a_replaces: as the claim gave it. The lock on that version is gone if the claim was in a savepoint that
-- was rolled back, so whatever has come since is not overwritten. The clock is not asked: it may have
-- stepped back since the claim, which has found the old row to be expired if the fence is the first.
-- Retention counts from the latest claim that was granted, which is this transaction's.
CREATE OR REPLACE FUNCTION {schema}.settle_in_transaction(
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
                           THEN now_ms + ttl_ms ELSE greatest(r.expires, now_ms + ttl_ms) END,
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
