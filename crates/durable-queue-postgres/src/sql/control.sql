-- Calls about single jobs, queues and dead letters.

-- A handler has the job, or may have it because its holder does not confirm starts.
CREATE OR REPLACE FUNCTION SCHEMA.is_taken(p_started boolean, p_token uuid, p_at bigint, p_due bigint, p_now bigint)
RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT (p_started OR SCHEMA.is_unconfirmed(p_token) AND p_at <= p_now) AND p_due > p_now
$$;

-- Locks and returns the identified job: by its id, or by its key: the open one, or else one that waits for
-- its next attempt, or else a running one. `o_taken`: see `is_taken`. `o_unconfirmed`: its holder does not
-- confirm starts. `o_seat`, `o_group`: for `leave_seat`.
CREATE OR REPLACE FUNCTION SCHEMA.named(p_queue text, p_id bigint, p_key bytea)
RETURNS TABLE (
    o_id bigint, o_taken boolean, o_attempts integer, o_payload bytea, o_queue bigint,
    o_unconfirmed boolean, o_seat bigint, o_group text
)
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := SCHEMA.clock();
    v_queue bigint := (SELECT q.id FROM SCHEMA.queue q WHERE q.name = p_queue);
    v_job record;
BEGIN
    IF p_key IS NULL THEN
        SELECT j.id, j.started, j.token, j.at, j.due, j.attempts, j.payload, j.seat, j.job_group INTO v_job
        FROM SCHEMA.job j
        WHERE j.id = p_id AND j.queue = v_queue FOR UPDATE;
    ELSE
        SELECT j.id, j.started, j.token, j.at, j.due, j.attempts, j.payload, j.seat, j.job_group INTO v_job
        FROM SCHEMA.job j
        WHERE j.queue = v_queue AND j.key = p_key
        ORDER BY j.run <> 0, SCHEMA.is_taken(j.started, j.token, j.at, j.due, v_now),
            j.run
        LIMIT 1 FOR UPDATE;
    END IF;
    IF FOUND THEN
        -- The clock is read again, because the job may have become due while another transaction had locked it.
        RETURN QUERY SELECT v_job.id,
            SCHEMA.is_taken(v_job.started, v_job.token, v_job.at, v_job.due, SCHEMA.clock()),
            v_job.attempts, v_job.payload, v_queue, SCHEMA.is_unconfirmed(v_job.token), v_job.seat, v_job.job_group;
    END IF;
END
$$;

-- Returns no row if there is no such job. A job that a handler has is marked, is no longer open, and loses its
-- schedule; by a key, all such jobs of the key. `o_marked`: any job was marked, and all processes are notified.
CREATE OR REPLACE FUNCTION SCHEMA.cancel(p_queue text, p_id bigint, p_key bytea)
RETURNS TABLE (o_taken boolean, o_attempts integer, o_payload bytea, o_marked boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint;
    v_found record;
BEGIN
    SELECT * INTO v_found FROM SCHEMA.named(p_queue, p_id, p_key);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_now := SCHEMA.clock();
    o_taken := v_found.o_taken;
    o_attempts := v_found.o_attempts;
    o_payload := v_found.o_payload;
    IF NOT o_taken THEN
        DELETE FROM SCHEMA.job j WHERE j.id = v_found.o_id;
        PERFORM SCHEMA.leave_seat(v_found.o_queue, v_found.o_seat, v_found.o_group);
    END IF;
    IF p_key IS NOT NULL THEN
        -- Another open job was pushed after this cancel.
        UPDATE SCHEMA.job j SET schedule = NULL
        WHERE j.queue = v_found.o_queue AND j.key = p_key AND j.schedule IS NOT NULL
            AND (j.run <> 0 OR j.id = v_found.o_id);
        UPDATE SCHEMA.job j SET cancelled = true, schedule = NULL, run = j.id
        WHERE j.queue = v_found.o_queue AND j.key = p_key
            AND (SCHEMA.is_taken(j.started, j.token, j.at, j.due, v_now) OR o_taken AND j.id = v_found.o_id);
        o_marked := FOUND;
    ELSE
        UPDATE SCHEMA.job j SET cancelled = true, schedule = NULL,
            run = CASE WHEN j.key IS NULL THEN 0 ELSE j.id END
        WHERE o_taken AND j.id = v_found.o_id;
        o_marked := FOUND;
    END IF;
    IF o_marked OR NOT o_taken AND v_found.o_unconfirmed THEN
        PERFORM SCHEMA.recall(v_found.o_queue);
    END IF;
    -- At the end, because it takes the lock of the limits.
    IF NOT o_taken AND (SELECT q.limited FROM SCHEMA.queue q WHERE q.id = v_found.o_queue) THEN
        PERFORM SCHEMA.call_after(v_found.o_queue);
    END IF;
    RETURN NEXT;
END
$$;

-- Returns the marked jobs that are held, up to `p_most`, with their tokens.
CREATE OR REPLACE FUNCTION SCHEMA.cancel_requests(p_queue text, p_most bigint)
RETURNS TABLE (o_id bigint, o_token bytea)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT j.id, uuid_send(j.token) FROM SCHEMA.job j
    WHERE j.queue = (SELECT q.id FROM SCHEMA.queue q WHERE q.name = p_queue) AND j.cancelled
        AND j.token IS NOT NULL
    ORDER BY j.id LIMIT p_most;
END
$$;

-- Returns no row if there is no such job.
CREATE OR REPLACE FUNCTION SCHEMA.reset(
    p_queue text, p_id bigint, p_key bytea, p_time bigint, p_delay boolean
) RETURNS TABLE (o_taken boolean, o_due bigint, o_soon boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := SCHEMA.clock();
    v_found record;
BEGIN
    SELECT * INTO v_found FROM SCHEMA.named(p_queue, p_id, p_key);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    o_taken := v_found.o_taken;
    o_due := SCHEMA.resolve(v_now, p_time, p_delay);
    o_soon := o_due < SCHEMA.after(v_now, SOON);
    IF NOT o_taken THEN
        UPDATE SCHEMA.job j SET due = o_due, at = o_due, most = greatest(j.most, o_due), token = NULL,
            started = false, place = NULL, seat = 0, cancelled = false
        WHERE j.id = v_found.o_id;
        PERFORM SCHEMA.reopen(v_found.o_id);
        PERFORM SCHEMA.leave_seat(v_found.o_queue, v_found.o_seat, v_found.o_group);
        IF v_found.o_unconfirmed THEN
            PERFORM SCHEMA.recall(v_found.o_queue);
        END IF;
        IF (SELECT q.limited FROM SCHEMA.queue q WHERE q.id = v_found.o_queue) THEN
            PERFORM SCHEMA.call_after(v_found.o_queue);
        END IF;
    END IF;
    RETURN NEXT;
END
$$;

CREATE OR REPLACE FUNCTION SCHEMA.pause(p_queue text, p_paused boolean, p_origin text)
RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_queue bigint := SCHEMA.queue_of(p_queue);
BEGIN
    UPDATE SCHEMA.queue q SET paused = p_paused WHERE q.id = v_queue;
    PERFORM SCHEMA.notify(v_queue, (-9223372036854775808)::bigint, p_origin);
END
$$;

CREATE OR REPLACE FUNCTION SCHEMA.stats(p_queue text, p_limit bigint)
RETURNS TABLE (
    o_jobs bigint, o_due bigint, o_dead bigint, o_paused boolean, o_kinds text[], o_due_of_kinds bigint[]
)
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := SCHEMA.clock();
    v_queue bigint;
BEGIN
    SELECT q.id, q.paused INTO v_queue, o_paused FROM SCHEMA.queue q WHERE q.name = p_queue;
    o_paused := coalesce(o_paused, false);
    SELECT count(*) INTO o_jobs
    FROM (
        SELECT FROM SCHEMA.job j WHERE j.queue = v_queue AND j.token IS NULL AND j.due <= 9223372036854775807
        UNION ALL
        SELECT FROM SCHEMA.job j WHERE j.queue = v_queue AND j.token IS NOT NULL AND j.due <= 9223372036854775807
        LIMIT p_limit
    ) c;
    SELECT count(*) INTO o_due
    FROM (
        SELECT FROM SCHEMA.job j WHERE j.queue = v_queue AND j.token IS NULL AND j.due <= v_now
        UNION ALL
        SELECT FROM SCHEMA.job j WHERE j.queue = v_queue AND j.token IS NOT NULL AND j.due <= v_now
        LIMIT p_limit
    ) c;
    SELECT count(*) INTO o_dead
    FROM (SELECT FROM SCHEMA.dead d WHERE d.queue = v_queue LIMIT p_limit) c;
    SELECT coalesce(array_agg(d.o_kind), '{}'), coalesce(array_agg(d.o_jobs), '{}') INTO o_kinds, o_due_of_kinds
    FROM SCHEMA.due_of_kinds(v_queue, v_now, p_limit) d;
    RETURN NEXT;
END
$$;

-- Starts at a position in the hot indexes. `o_now`: decides which leases have expired.
CREATE OR REPLACE FUNCTION SCHEMA.list(p_queue text, p_due bigint, p_id bigint, p_most bigint)
RETURNS TABLE (
    o_id bigint, o_due bigint, o_at bigint, o_held boolean, o_started boolean, o_attempts integer,
    o_key bytea, o_schedule text, o_now bigint, o_urgent boolean, o_kind text,
    o_failures text, o_cancelled boolean, o_group text
)
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := SCHEMA.clock();
BEGIN
    RETURN QUERY
    SELECT c.* FROM (SELECT q.id FROM SCHEMA.queue q WHERE q.name = p_queue) q, LATERAL (
        (SELECT j.id, j.due, j.at, false, j.started, j.attempts, j.key, j.schedule, v_now, j.urgent,
            j.kind, j.failures, j.cancelled, j.job_group
        FROM SCHEMA.job j
        WHERE j.queue = q.id AND j.token IS NULL AND j.due >= p_due AND (j.due, j.id) > (p_due, p_id)
        ORDER BY j.due, j.id LIMIT p_most)
        UNION ALL
        (SELECT j.id, j.due, j.at, true, j.started, j.attempts, j.key, j.schedule, v_now, j.urgent,
            j.kind, j.failures, j.cancelled, j.job_group
        FROM SCHEMA.job j
        WHERE j.queue = q.id AND j.token IS NOT NULL AND j.due >= p_due AND (j.due, j.id) > (p_due, p_id)
        ORDER BY j.due, j.id LIMIT p_most)
    ) c
    ORDER BY c.due, c.id LIMIT p_most;
END
$$;

CREATE OR REPLACE FUNCTION SCHEMA.dead_letters(p_queue text, p_after bigint, p_most bigint)
RETURNS TABLE (
    o_id bigint, o_key bytea, o_payload bytea, o_attempts integer, o_buried bigint, o_error text,
    o_schedule text, o_urgent boolean, o_kind text, o_options text, o_failures text, o_group text
)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT d.id, d.key, d.payload, d.attempts, d.buried, d.error, d.schedule, d.urgent, d.kind, d.options,
        d.failures, d.job_group
    FROM SCHEMA.dead d
    WHERE d.queue = (SELECT q.id FROM SCHEMA.queue q WHERE q.name = p_queue) AND d.id > p_after
    ORDER BY d.id LIMIT p_most;
END
$$;

-- Skips letters whose key has an open job, and repeating ones whose key has a repeating job.
CREATE OR REPLACE FUNCTION SCHEMA.redrive(p_queue text, p_ids bigint[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := SCHEMA.clock();
    v_queue bigint := SCHEMA.queue_of(p_queue);
    v_id bigint;
    v_count bigint := 0;
BEGIN
    FOREACH v_id IN ARRAY p_ids LOOP
        INSERT INTO SCHEMA.job (id, queue, due, at, key, payload, schedule, urgent, kind, options, failures, job_group)
        SELECT d.id, d.queue, v_now, v_now, d.key, d.payload, d.schedule, d.urgent, d.kind, d.options, d.failures,
            d.job_group
        FROM SCHEMA.dead d
        WHERE d.id = v_id AND d.queue = v_queue FOR UPDATE
        ON CONFLICT DO NOTHING;
        CONTINUE WHEN NOT FOUND;
        -- Only now can no other job of the key be opened.
        DELETE FROM SCHEMA.job n WHERE n.id = v_id AND n.schedule IS NOT NULL AND EXISTS (
            SELECT FROM SCHEMA.job j
            WHERE j.queue = v_queue AND j.key = n.key AND j.schedule IS NOT NULL AND j.id <> v_id);
        IF NOT FOUND THEN
            DELETE FROM SCHEMA.dead d WHERE d.id = v_id;
            v_count := v_count + 1;
        END IF;
    END LOOP;
    RETURN v_count;
END
$$;

CREATE OR REPLACE FUNCTION SCHEMA.delete_dead(p_queue text, p_ids bigint[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_count bigint;
BEGIN
    DELETE FROM SCHEMA.dead d WHERE d.id = ANY (p_ids)
        AND d.queue = (SELECT q.id FROM SCHEMA.queue q WHERE q.name = p_queue);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;

-- Returns the state of a job: 0 it does not exist, 1 open, 2 done and kept, 3 a dead letter.
CREATE OR REPLACE FUNCTION SCHEMA.fate(p_queue text, p_id bigint)
RETURNS TABLE (
    o_state integer, o_error text, o_key bytea, o_kind text, o_attempts integer, o_finished bigint,
    o_took bigint, o_until bigint, o_result bytea
)
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := SCHEMA.clock();
BEGIN
    -- One statement, because each has its own snapshot.
    RETURN QUERY
    SELECT CASE WHEN j.id IS NOT NULL THEN 1 WHEN d.id IS NOT NULL THEN 2 WHEN e.id IS NOT NULL THEN 3 ELSE 0 END,
        e.error, d.key, d.kind, d.attempts, d.finished, d.took, d.until, d.result
    FROM (SELECT q.id FROM SCHEMA.queue q WHERE q.name = p_queue) q
    LEFT JOIN SCHEMA.job j ON j.id = p_id AND j.queue = q.id
    LEFT JOIN SCHEMA.done d ON d.id = p_id AND d.queue = q.id AND d.until > v_now
    LEFT JOIN SCHEMA.dead e ON e.id = p_id AND e.queue = q.id;
END
$$;

-- Deletes done jobs whose time is over, at most `p_most`. Skips those that another process deletes.
CREATE OR REPLACE FUNCTION SCHEMA.delete_done(p_queue text, p_most bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := SCHEMA.clock();
    v_count bigint;
BEGIN
    -- Rows that a crash brings back are deleted again.
    PERFORM set_config('synchronous_commit', 'off', true);
    DELETE FROM SCHEMA.done d WHERE d.id = ANY (ARRAY(
        SELECT o.id FROM SCHEMA.done o
        WHERE o.queue = (SELECT q.id FROM SCHEMA.queue q WHERE q.name = p_queue) AND o.until <= v_now
        ORDER BY o.until LIMIT p_most FOR UPDATE SKIP LOCKED
    ));
    GET DIAGNOSTICS v_count = ROW_COUNT;
    RETURN v_count;
END
$$;
