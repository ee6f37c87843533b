-- The outbox as a relay needs it, and `stage` for services in any language.
--
-- Nodes of the version before go on writing to it: what they leave out has a default.

ALTER TABLE {schema}.outbox RENAME COLUMN created TO occurred;

-- The kind of event, for its consumers. NULL, from nodes of the version before: the topic.
ALTER TABLE {schema}.outbox ADD COLUMN type text;
UPDATE {schema}.outbox SET type = topic;

-- Not published before that time. Later events of the same key do not wait for it.
ALTER TABLE {schema}.outbox ADD COLUMN not_before timestamptz;

-- An event staged by SQL alone belongs to no record.
ALTER TABLE {schema}.outbox ALTER COLUMN record DROP NOT NULL;
ALTER TABLE {schema}.outbox ALTER COLUMN headers SET DEFAULT '{}';

-- Relays divide the slots among them, and an event stays in its own: all events of one key are in one slot, so that
-- their order is one relay's business. Computed here, so that every writer computes the same.
ALTER TABLE {schema}.outbox ADD COLUMN slot smallint NOT NULL
    GENERATED ALWAYS AS ((hashtextextended(coalesce(key, event::text), 0) & 63)::smallint) STORED;

-- A relay reads slot by slot, in the order of seq. There is no other index: each costs every writer.
ALTER TABLE {schema}.outbox DROP CONSTRAINT outbox_pkey;
ALTER TABLE {schema}.outbox ADD PRIMARY KEY (slot, seq);

COMMENT ON TABLE {schema}.outbox IS 'Semel: events that wait to be published. Written by stage and settle_in_transaction.';

-- Stages an event in the caller's transaction: it is published if and only if that commits. Returns the event's id.
--
-- key: events of one key are published in the order in which they were staged, if their transactions exclude each
-- other (two that update the same row do)
-- headers: an object of texts, such as '{"content-type": "application/json", "traceparent": "00-4bf9.."}'
-- type: the topic, unless it is given
-- event: the id, the same in every delivery; choose it only to make it equal to an id that you have
-- not_before: not published before that time
CREATE FUNCTION {schema}.stage(
    topic text, key text, payload bytea, headers jsonb DEFAULT '{}', type text DEFAULT NULL,
    event uuid DEFAULT gen_random_uuid(), not_before timestamptz DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_variable
BEGIN
    PERFORM {schema}.check_event(topic, headers);
    event := coalesce(event, gen_random_uuid());
    INSERT INTO {schema}.outbox (event, topic, key, type, headers, payload, not_before)
    VALUES (event, topic, key, coalesce(type, topic), coalesce(headers, '{}'),
            coalesce(payload, ''), not_before);
    RETURN event;
END
$$;

-- Fails, with a cure, for an event that no relay could publish.
CREATE FUNCTION {schema}.check_event(topic text, headers jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF coalesce(topic, '') !~ '^[^[:space:][:cntrl:]]{1,255}$' THEN
        RAISE EXCEPTION 'the topic of an event must be 1 to 255 characters without blanks'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Name the stream, subject or queue that the event is for, such as orders.placed.';
    END IF;
    IF jsonb_typeof(coalesce(headers, '{}')) <> 'object' OR EXISTS (
        SELECT FROM jsonb_each(coalesce(headers, '{}')) h WHERE jsonb_typeof(h.value) <> 'string'
    ) THEN
        RAISE EXCEPTION 'the headers of an event must be a JSON object of texts'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Write numbers as texts: {"attempt": "1"}.';
    END IF;
END
$$;

-- Records the outcome and its events in this transaction. Gives until when it is replayed.
--
-- As before, with the type of each event and the time before which it is not published.
CREATE FUNCTION {schema}.settle_in_transaction(
    a_id bytea, a_fingerprint bytea, a_owner uuid, a_fence bigint, a_began bigint,
    ttl_ms bigint, a_state smallint, a_result text, a_reply bytea,
    events uuid[], topics text[], keys text[], headers text[], payloads bytea[],
    types text[], not_befores bigint[], a_replaces bigint,
    OUT expires bigint
)
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    expires := {schema}.settle_in_transaction(
        a_id, a_fingerprint, a_owner, a_fence, a_began, ttl_ms, a_state, a_result, a_reply,
        '{}'::uuid[], '{}'::text[], '{}'::text[], '{}'::text[], '{}'::bytea[], a_replaces);
    IF cardinality(events) > 0 THEN
        INSERT INTO {schema}.outbox (event, topic, key, headers, payload, type, not_before, record)
        SELECT e.event, e.topic, e.key, e.headers::jsonb, e.payload, e.type,
               to_timestamp(e.not_before / 1000.0), a_id
        FROM unnest(events, topics, keys, headers, payloads, types, not_befores)
             WITH ORDINALITY AS e (event, topic, key, headers, payload, type, not_before, place)
        ORDER BY e.place;
    END IF;
END
$$;
