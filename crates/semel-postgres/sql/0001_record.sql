-- The records, and one function per verb.
--
-- `semel migrate` puts the name of the schema in. The rules are those of semel_core (`decide`, `renew`,
-- `settle`, `release`), and a differential test holds these functions to them.
--
-- Each function is one statement of an autocommit session in READ COMMITTED: every query inside it
-- sees what was committed before that query began. Each touches one record and takes one row lock
-- at most, so the verbs cannot deadlock among themselves.

CREATE TABLE {schema}.record (
    id          bytea    NOT NULL PRIMARY KEY,
    fingerprint bytea    NOT NULL,
    owner       uuid     NOT NULL,
    -- Moments are milliseconds since 1970, by this server's clock.
    created     bigint   NOT NULL,
    expires     bigint   NOT NULL,
    fence       bigint   NOT NULL,
    -- When the latest lease runs out, or ran out.
    until       bigint   NOT NULL,
    -- 0 leased, 1 held, 2 released, 3 completed, 4 failed, 5 abandoned (settled: 3 and above)
    state       smallint NOT NULL,
    -- The id of what was made.
    result      text,
    -- Status, headers and body, as the face that wrote them encodes them.
    reply       bytea
) WITH (
    -- A record is written small (its claim) and grows once (its settle). Room in its page lets the
    -- settle stay there, which spares both indexes (a HOT update).
    fillfactor = 40,
    -- The default waits for a fifth of the table to be dead, which is a day's worth of records.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 10000
);

-- Replies are compressed before they get here.
ALTER TABLE {schema}.record ALTER COLUMN reply SET STORAGE EXTERNAL;

-- For the sweep. Neither a settle nor a usual renewal changes `expires`.
CREATE INDEX record_expires ON {schema}.record (expires);

COMMENT ON TABLE {schema}.record IS 'Semel: one row per idempotency key. Written by the functions of this schema only.';

-- The one clock of all nodes. Never that of the transaction: a claim may have waited.
CREATE FUNCTION {schema}.now_ms() RETURNS bigint
LANGUAGE sql VOLATILE
AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- Asks for the right to execute.
--
-- is_there: the caller has seen a record, or none
-- on_abandoned: 0 execute again, 1 fail, 2 hold
-- verdict: 0 execute, 1 replay, 2 in flight, 3 mismatch, 4 unknown
CREATE FUNCTION {schema}.claim(
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
            expires := greatest(seen.expires, until);
        ELSE
            -- Released, or abandoned.
            fence := seen.fence + 1;
            until := now_ms + lease_ms;
            -- A record outlives its lease (I1).
            expires := greatest(seen.expires, until);
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

-- Why a fenced write is refused.
--
-- verdict: 1 settled (with the outcome), 2 superseded, 3 gone; `current`: is it still the asker's?
CREATE FUNCTION {schema}.refusal(
    a_id bytea, a_fingerprint bytea, a_owner uuid, a_fence bigint,
    OUT verdict smallint, OUT current boolean, OUT expires bigint,
    OUT state smallint, OUT result text, OUT reply bytea
)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    seen {schema}.record;
BEGIN
    SELECT r.* INTO seen FROM {schema}.record r WHERE r.id = a_id;
    IF NOT FOUND OR seen.expires <= {schema}.now_ms() OR seen.fingerprint <> a_fingerprint THEN
        verdict := 3;
        current := false;
        RETURN;
    END IF;
    current := seen.owner = a_owner AND seen.fence = a_fence;
    state := seen.state;
    verdict := 2;
    IF seen.state >= 3 THEN
        verdict := 1;
        expires := seen.expires;
        result := seen.result;
        reply := seen.reply;
    END IF;
END
$$;

-- Extends a lease. verdict: 0 done, else that of `refusal`.
CREATE FUNCTION {schema}.renew(
    a_id bytea, a_fingerprint bytea, a_owner uuid, a_fence bigint, lease_ms bigint,
    OUT verdict smallint, OUT until bigint, OUT expires bigint,
    OUT state smallint, OUT result text, OUT reply bytea
)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    why record;
BEGIN
    LOOP
        UPDATE {schema}.record r
        -- Never shorter than its holder knows it to be, and the record outlives it (I1).
        SET until = greatest({schema}.now_ms() + lease_ms, r.until),
            expires = greatest({schema}.now_ms() + lease_ms, r.until, r.expires)
        WHERE r.id = a_id AND r.fence = a_fence AND r.owner = a_owner
          AND r.fingerprint = a_fingerprint AND r.state = 0 AND r.expires > {schema}.now_ms()
        RETURNING r.until, r.expires INTO until, expires;
        IF FOUND THEN
            verdict := 0;
            RETURN;
        END IF;
        SELECT * INTO why FROM {schema}.refusal(a_id, a_fingerprint, a_owner, a_fence);
        -- Between the two looks its own claim, repeated, may have brought it back.
        CONTINUE WHEN why.current AND why.state = 0;
        verdict := why.verdict;
        expires := why.expires;
        state := why.state;
        result := why.result;
        reply := why.reply;
        RETURN;
    END LOOP;
END
$$;

-- Records the outcome. verdict: 0 done (now or by an earlier try), else that of `refusal`.
CREATE FUNCTION {schema}.settle(
    a_id bytea, a_fingerprint bytea, a_owner uuid, a_fence bigint,
    a_state smallint, a_result text, a_reply bytea,
    OUT verdict smallint, OUT expires bigint,
    OUT state smallint, OUT result text, OUT reply bytea
)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    why record;
BEGIN
    LOOP
        UPDATE {schema}.record r
        SET state = a_state, result = a_result, reply = a_reply
        WHERE r.id = a_id AND r.fence = a_fence AND r.owner = a_owner
          AND r.fingerprint = a_fingerprint AND r.state IN (0, 1)
          AND r.expires > {schema}.now_ms();
        IF FOUND THEN
            verdict := 0;
            RETURN;
        END IF;
        SELECT * INTO why FROM {schema}.refusal(a_id, a_fingerprint, a_owner, a_fence);
        CONTINUE WHEN why.current AND why.state IN (0, 1);
        verdict := why.verdict;
        IF why.current AND why.state = a_state AND why.result IS NOT DISTINCT FROM a_result
           AND why.reply IS NOT DISTINCT FROM a_reply THEN
            verdict := 0;
            RETURN;
        END IF;
        expires := why.expires;
        state := why.state;
        result := why.result;
        reply := why.reply;
        RETURN;
    END LOOP;
END
$$;

-- Hands a lease back, as released (2) or held (1). verdict: 0 done (now or by an earlier try), else
-- that of `refusal`.
CREATE FUNCTION {schema}.release(
    a_id bytea, a_fingerprint bytea, a_owner uuid, a_fence bigint, a_state smallint,
    OUT verdict smallint, OUT expires bigint,
    OUT state smallint, OUT result text, OUT reply bytea
)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    why record;
BEGIN
    LOOP
        UPDATE {schema}.record r
        SET state = a_state
        WHERE r.id = a_id AND r.fence = a_fence AND r.owner = a_owner
          AND r.fingerprint = a_fingerprint AND r.state = 0
          AND r.expires > {schema}.now_ms();
        IF FOUND THEN
            verdict := 0;
            RETURN;
        END IF;
        SELECT * INTO why FROM {schema}.refusal(a_id, a_fingerprint, a_owner, a_fence);
        CONTINUE WHEN why.current AND why.state = 0;
        verdict := why.verdict;
        IF why.current AND why.state = a_state THEN
            verdict := 0;
            RETURN;
        END IF;
        expires := why.expires;
        state := why.state;
        result := why.result;
        reply := why.reply;
        RETURN;
    END LOOP;
END
$$;

-- Deletes up to `at_most` expired records: by one node at a time, and without waiting for any lock.
CREATE FUNCTION {schema}.sweep(at_most integer, OUT deleted integer, OUT more boolean)
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    -- A variable: an index cannot be asked for what changes while it is read.
    now_ms bigint := {schema}.now_ms();
BEGIN
    deleted := 0;
    more := false;
    -- 0x53656d65 is "Seme"; the table's id tells schemas apart. Ends with this statement.
    IF NOT pg_try_advisory_xact_lock(1399156069, '{schema}.record'::regclass::oid::integer) THEN
        RETURN;
    END IF;
    WITH expired AS (
        SELECT r.id FROM {schema}.record r
        WHERE r.expires <= now_ms
        ORDER BY r.expires
        LIMIT at_most
        FOR UPDATE SKIP LOCKED
    )
    DELETE FROM {schema}.record r USING expired WHERE r.id = expired.id;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    more := deleted = at_most;
END
$$;

-- The same records for people to read.
CREATE VIEW {schema}.records AS
SELECT encode(r.id, 'hex') AS id,
       (ARRAY['leased', 'held', 'released', 'completed', 'failed', 'abandoned'])[r.state + 1] AS state,
       r.fence AS attempts,
       r.result,
       to_timestamp(r.created / 1000.0) AS created,
       to_timestamp(r.expires / 1000.0) AS expires,
       CASE WHEN r.state = 0 THEN to_timestamp(r.until / 1000.0) END AS leased_until,
       octet_length(r.reply) AS reply_bytes
FROM {schema}.record r;
