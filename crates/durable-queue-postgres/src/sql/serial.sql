-- Claims with serial keys: at most one job of each key runs at a time.

-- Claims up to `p_room` jobs, one by one: due jobs, or jobs that fall due by the horizon if they are not
-- started. `p_from`, `p_from_id` and `p_held` are the floor of `turn_10`. A job whose key is held is
-- postponed, and so is an open one if a job of its key that was started before waits. Jobs that are
-- postponed, or locked by another transaction, make room for later ones.
--
-- All jobs of the key are locked before one is claimed or postponed, so that a concurrent settle of one of
-- them is either visible here, or sees this change. If another transaction has locked one of them, the job is
-- skipped without waiting.
CREATE OR REPLACE FUNCTION SCHEMA.claim_serially_10(
    p_queue bigint, p_now bigint, p_token uuid, p_begins boolean, p_urgent boolean, p_room bigint,
    p_horizon bigint, p_lease bigint, p_from bigint, p_from_id bigint, p_held bigint
) RETURNS TABLE (
    o_id bigint, o_at bigint, o_started boolean, o_attempts integer, o_key bytea, o_payload bytea,
    o_schedule text, o_urgent boolean, o_kind text, o_options text, o_failures text, o_cancelled boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    v_last CONSTANT bigint := CASE WHEN p_begins OR p_urgent THEN p_now
        ELSE SCHEMA.after(p_now, p_horizon) END;
    -- Delay until an open job is looked at again.
    c_shortly CONSTANT bigint := 1000;
    v_room bigint := p_room;
    -- Position after which the claim continues, among free or urgent jobs, and among jobs with expired
    -- leases.
    v_from bigint := p_from;
    v_from_id bigint := p_from_id - 1;
    v_held_from bigint := p_held;
    v_held_id bigint := 0;
    v_due bigint;
    v_id bigint;
    v_key bytea;
    v_run bigint;
    v_others bigint;
    v_locked bigint;
    v_held bigint;
    v_begun bigint;
BEGIN
    WHILE v_room > 0 LOOP
        IF p_urgent THEN
            SELECT j.id, j.due, j.key, j.run INTO v_id, v_due, v_key, v_run FROM SCHEMA.job j
            WHERE j.queue = (SELECT q.id FROM SCHEMA.queue q WHERE q.id = p_queue AND NOT q.paused)
                AND j.urgent AND j.due <= p_now AND (j.due, j.id) > (v_from, v_from_id)
            ORDER BY j.due, j.id LIMIT 1 FOR UPDATE SKIP LOCKED;
        ELSE
            SELECT c.* INTO v_id, v_due, v_key, v_run FROM SCHEMA.queue q, LATERAL (
                SELECT * FROM (
                    SELECT j.id, j.due, j.key, j.run FROM SCHEMA.job j
                    WHERE j.queue = q.id AND j.token IS NULL AND j.due <= v_last
                        AND (j.due, j.id) > (v_from, v_from_id)
                    ORDER BY j.due, j.id LIMIT 1 FOR UPDATE SKIP LOCKED
                ) free
                UNION ALL
                SELECT * FROM (
                    SELECT j.id, j.due, j.key, j.run FROM SCHEMA.job j
                    WHERE j.queue = q.id AND j.token IS NOT NULL AND j.due <= p_now
                        AND (j.due, j.id) > (v_held_from, v_held_id)
                    ORDER BY j.due, j.id LIMIT 1 FOR UPDATE SKIP LOCKED
                ) ended
            ) c
            WHERE q.id = p_queue AND NOT q.paused
            ORDER BY c.due, c.id LIMIT 1;
        END IF;
        EXIT WHEN NOT FOUND;
        IF (v_due, v_id) > (v_from, v_from_id) THEN
            v_from := v_due;
            v_from_id := v_id;
        END IF;
        IF (v_due, v_id) > (v_held_from, v_held_id) THEN
            v_held_from := v_due;
            v_held_id := v_id;
        END IF;
        IF v_key IS NOT NULL THEN
            SELECT count(*), max(o.due) FILTER (WHERE o.token IS NOT NULL),
                max(o.due) FILTER (WHERE o.run <> 0 AND v_run = 0)
            INTO v_locked, v_held, v_begun
            FROM (
                SELECT j.due, j.token, j.run FROM SCHEMA.job j
                WHERE j.queue = p_queue AND j.key = v_key AND j.id <> v_id
                FOR UPDATE SKIP LOCKED
            ) o;
            SELECT count(*) INTO v_others FROM SCHEMA.job j
            WHERE j.queue = p_queue AND j.key = v_key AND j.id <> v_id;
            CONTINUE WHEN v_locked <> v_others;
            v_begun := CASE WHEN v_held > p_now THEN v_held
                WHEN v_begun IS NOT NULL THEN greatest(v_begun, SCHEMA.after(p_now, c_shortly)) END;
            IF v_begun IS NOT NULL THEN
                -- A claim may take it the horizon before `due`, so this delays it until then and no longer.
                UPDATE SCHEMA.job j SET token = NULL, started = false,
                    due = greatest(j.at, SCHEMA.after(v_begun, p_horizon))
                WHERE j.id = v_id;
                CONTINUE;
            END IF;
            IF v_held IS NOT NULL THEN
                UPDATE SCHEMA.job j SET token = NULL, started = false
                WHERE j.queue = p_queue AND j.key = v_key AND j.id <> v_id AND j.token IS NOT NULL;
            END IF;
        END IF;
        IF p_begins THEN
            RETURN QUERY
            UPDATE SCHEMA.job j SET token = p_token, due = SCHEMA.after(p_now, p_lease),
                started = true, attempts = j.attempts + 1,
                run = CASE WHEN j.key IS NULL THEN 0 ELSE j.id END
            WHERE j.id = v_id
            RETURNING j.id, j.at, true, j.attempts, j.key, j.payload, j.schedule, j.urgent, j.kind, j.options,
                j.failures, j.cancelled;
        ELSE
            RETURN QUERY
            UPDATE SCHEMA.job j SET token = p_token, started = false,
                due = greatest(j.at, SCHEMA.after(p_now, p_lease))
            WHERE j.id = v_id
            RETURNING j.id, j.at, false, j.attempts, j.key, j.payload, j.schedule, j.urgent, j.kind, j.options,
                j.failures, j.cancelled;
        END IF;
        v_room := v_room - 1;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION SCHEMA.serialize_keys(p_queue text, p_serial boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_queue bigint := SCHEMA.queue_of(p_queue);
BEGIN
    UPDATE SCHEMA.queue q SET serial_keys = p_serial WHERE q.id = v_queue;
END
$$;
