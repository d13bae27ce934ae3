-- The functions that insert jobs, and the notifications. `SOON` is a duration: jobs due after it are not
-- announced, because each process makes a claim before then (the pump's `SAFETY_LOOK`).

-- The store's clock: the current time, not the start of the transaction (`now()`), with which a job pushed in
-- a long transaction would be due too early.
CREATE OR REPLACE FUNCTION SCHEMA.clock() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

CREATE OR REPLACE FUNCTION SCHEMA.after(p_time bigint, p_delay bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_delay > 9223372036854775807 - p_time THEN 9223372036854775807
        ELSE p_time + p_delay END
$$;

-- A time given by a client: a delay from now, or a point in time.
CREATE OR REPLACE FUNCTION SCHEMA.resolve(p_now bigint, p_time bigint, p_delay boolean)
RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_delay THEN SCHEMA.after(p_now, p_time) ELSE p_time END
$$;

CREATE OR REPLACE FUNCTION SCHEMA.queue_of(p_name text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_queue bigint;
BEGIN
    SELECT q.id INTO v_queue FROM SCHEMA.queue q WHERE q.name = p_name;
    IF v_queue IS NULL THEN
        INSERT INTO SCHEMA.queue (name) VALUES (p_name) ON CONFLICT (name) DO NOTHING;
        SELECT q.id INTO v_queue FROM SCHEMA.queue q WHERE q.name = p_name;
    END IF;
    RETURN v_queue;
END
$$;

CREATE OR REPLACE FUNCTION SCHEMA.notify(p_queue bigint, p_due bigint, p_origin text) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_notify('CHANNEL', p_queue || ' ' || p_due || ' ' || p_origin)
$$;

-- The last bit of the token says that the holder does not confirm starts.
CREATE OR REPLACE FUNCTION SCHEMA.is_unconfirmed(p_token uuid) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(get_byte(uuid_send(p_token), 15) & 1 = 1, false)
$$;

-- A job is taken from a holder that does not confirm starts. All holders have to confirm from now on,
-- including the caller's, so the notification has no origin. It is sent in the transaction that takes the
-- job, which is rare.
CREATE OR REPLACE FUNCTION SCHEMA.recall(p_queue bigint) RETURNS void
LANGUAGE sql AS $$
    SELECT SCHEMA.notify(p_queue, (-9223372036854775808)::bigint, '')
$$;

-- Notifies listening processes that a job may be due at `p_due`, unless all of them look by then anyway.
--
-- The `head`: no process waits for a later time, or a notification is on its way to it. A process that waits
-- longer raises the head first, and looks at the jobs once more after that commit (`turn`, `look`); it also looks
-- if another process has raised the head during its turn. This function runs after the commit of the job. So
-- either it sees the raised head, or that look sees the job. A notification in the job's own transaction would
-- serialize all commits of the server.
--
-- Not synced: a crash that restores an older head also ends the listening sessions, and each process looks,
-- and raises the head, when it is connected again.
CREATE OR REPLACE FUNCTION SCHEMA.announce(p_queue text, p_due bigint, p_origin text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_queue bigint;
BEGIN
    SELECT q.id INTO v_queue FROM SCHEMA.queue q WHERE q.name = p_queue AND q.head > p_due;
    IF FOUND THEN
        PERFORM set_config('synchronous_commit', 'off', true);
        UPDATE SCHEMA.queue q SET head = p_due WHERE q.id = v_queue AND q.head > p_due;
        IF FOUND THEN
            PERFORM SCHEMA.notify(v_queue, p_due, p_origin);
        END IF;
    END IF;
END
$$;

-- Pushes one job without key and schedule in one round trip: commits it, then announces it. Must be called
-- outside of transactions. An error after the commit must not look as if the job was not pushed, so errors of
-- the announcement are ignored: other processes find the job by their regular looks.
CREATE OR REPLACE PROCEDURE SCHEMA.push_one(
    p_queue text, p_time bigint, p_delay boolean, p_payload bytea, p_urgent boolean, p_kind text,
    p_options text, p_group text, p_origin text, INOUT o_id bigint, INOUT o_due bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := SCHEMA.clock();
    v_queue bigint := (SELECT q.id FROM SCHEMA.queue q WHERE q.name = p_queue);
BEGIN
    IF v_queue IS NULL THEN
        v_queue := SCHEMA.queue_of(p_queue);
    END IF;
    o_due := SCHEMA.resolve(v_now, p_time, p_delay);
    INSERT INTO SCHEMA.job AS j (queue, due, at, payload, urgent, kind, options, job_group)
    VALUES (v_queue, o_due, o_due, p_payload, p_urgent, p_kind, p_options, p_group)
    RETURNING j.id INTO o_id;
    IF o_due < SCHEMA.after(v_now, SOON) THEN
        COMMIT;
        BEGIN
            PERFORM SCHEMA.announce(p_queue, o_due, p_origin);
        EXCEPTION WHEN query_canceled OR OTHERS THEN
            NULL;
        END;
    END IF;
END
$$;

-- A new listener has no knowledge.
CREATE OR REPLACE FUNCTION SCHEMA.listen(p_queue text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_queue bigint := SCHEMA.queue_of(p_queue);
BEGIN
    UPDATE SCHEMA.queue q SET head = 9223372036854775807
    WHERE q.id = v_queue AND q.head < 9223372036854775807;
    RETURN v_queue;
END
$$;

-- Inserts jobs without keys and schedules, in the order of their ids. All or none of them are urgent.
-- `p_kinds`, `p_options`, `p_groups`: null if no job has any.
CREATE OR REPLACE FUNCTION SCHEMA.enqueue_plain(
    p_queue text, p_times bigint[], p_delays boolean[], p_payloads bytea[], p_urgent boolean,
    p_kinds text[], p_options text[], p_groups text[], p_tell boolean
) RETURNS TABLE (o_id bigint, o_put smallint, o_due bigint, o_soon boolean)
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := SCHEMA.clock();
    v_queue bigint := SCHEMA.queue_of(p_queue);
    v_first bigint;
BEGIN
    IF p_tell THEN
        SELECT min(SCHEMA.resolve(v_now, a.time, a.delay)) INTO v_first
        FROM unnest(p_times, p_delays) AS a(time, delay);
        IF v_first < SCHEMA.after(v_now, SOON) THEN
            PERFORM SCHEMA.notify(v_queue, v_first, '');
        END IF;
    END IF;
    RETURN QUERY
    INSERT INTO SCHEMA.job AS j (queue, due, at, payload, urgent, kind, options, job_group)
    SELECT v_queue, t.at, t.at, a.payload, p_urgent, a.kind, a.option, a.job_group
    FROM unnest(p_times, p_delays, p_payloads, p_kinds, p_options, p_groups) WITH ORDINALITY
            AS a(time, delay, payload, kind, option, job_group, ord),
        LATERAL (SELECT SCHEMA.resolve(v_now, a.time, a.delay) AS at) t
    ORDER BY a.ord
    RETURNING j.id, 0::smallint, j.due, j.due < SCHEMA.after(v_now, SOON);
END
$$;

-- Whether a push with a schedule comes after its time.
CREATE OR REPLACE FUNCTION SCHEMA.is_late(p_schedule text, p_delay boolean, p_at bigint) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT p_schedule IS NOT NULL AND NOT p_delay AND p_at <= SCHEMA.clock()
$$;

-- The job that keeps a push from creating another one of its key, if none is open: the first one that was started, or, with
-- `p_done`, the last one that is done and kept. In this order, because a job that ends meanwhile is then seen as done.
CREATE OR REPLACE FUNCTION SCHEMA.kept_by(p_queue bigint, p_key bytea, p_done boolean, p_now bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint;
BEGIN
    SELECT j.id INTO v_id FROM SCHEMA.job j
    WHERE j.queue = p_queue AND j.key = p_key AND j.run <> 0 ORDER BY j.run LIMIT 1;
    IF v_id IS NULL AND p_done THEN
        SELECT d.id INTO v_id FROM SCHEMA.done d
        WHERE d.queue = p_queue AND d.key = p_key AND d.until > p_now ORDER BY d.id DESC LIMIT 1;
    END IF;
    RETURN v_id;
END
$$;

-- Inserts jobs one by one, in the order of their keys: two calls that lock rows of the same keys wait for each other, but
-- never in a circle. Jobs of one key stay in their order, and new ids are in the order of the jobs. `p_merges`: 0 keep, 1
-- earliest, 2 latest, 3 debounce, 4 keep until done, 5 also while a done one is kept. `p_mosts`: the bound of a debounce, or
-- null. A merge without a schedule keeps the job's schedule, and one that is not urgent keeps
-- the job's urgency. A push with a schedule that comes after its time changes no job, because that run may be
-- done already; so the clock is read after the job is locked. `p_tell`: whether to notify; null if the
-- transaction ends with this call, after which the caller announces the jobs. Returns 0 new, 1 merged, 2 kept,
-- and the time that was set.
CREATE OR REPLACE FUNCTION SCHEMA.enqueue(
    p_queue text, p_times bigint[], p_delays boolean[], p_payloads bytea[],
    p_keys bytea[], p_merges smallint[], p_mosts bigint[], p_most_delays boolean[],
    p_schedules text[], p_urgents boolean[], p_kinds text[], p_options text[], p_groups text[], p_tell boolean
) RETURNS TABLE (o_id bigint, o_put smallint, o_due bigint, o_soon boolean)
LANGUAGE plpgsql AS $$
DECLARE
    c_never CONSTANT bigint := 9223372036854775807;
    v_now bigint := SCHEMA.clock();
    v_queue bigint := SCHEMA.queue_of(p_queue);
    v_first bigint := c_never;
    v_at bigint;
    v_most bigint;
    v_new record;
    v_old record;
    v_begun record;
    v_is_begun boolean;
    v_kept bigint;
    -- The results, by the numbers of the jobs.
    v_ids bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(p_times)]);
    v_puts smallint[] := array_fill(NULL::smallint, ARRAY[cardinality(p_times)]);
    v_dues bigint[] := v_ids;
    v_merged boolean := false;
    v_frees_place boolean := false;
BEGIN
    FOR v_new IN
        WITH numbered AS MATERIALIZED (
            -- A job that will be merged needs no id, unless the other one is about to end.
            SELECT a.*, CASE WHEN a.is_new THEN nextval('SCHEMA.job_id_seq') END AS id
            FROM (
                SELECT a.*, a.key IS NULL OR row_number() OVER (PARTITION BY a.key ORDER BY a.ord) = 1
                    AND NOT EXISTS (
                        SELECT FROM SCHEMA.job j WHERE j.queue = v_queue AND j.key = a.key
                            AND (j.run = 0 OR a.schedule IS NOT NULL AND j.schedule IS NOT NULL)
                    ) AS is_new
                FROM unnest(p_times, p_delays, p_payloads, p_keys, p_merges, p_mosts, p_most_delays,
                        p_schedules, p_urgents, p_kinds, p_options, p_groups)
                    WITH ORDINALITY AS a(time, delay, payload, key, merge, most, most_delay, schedule, urgent, kind,
                        options, job_group, ord)
                ORDER BY a.ord
            ) a
        )
        SELECT * FROM numbered n ORDER BY n.key, n.ord
    LOOP
        v_at := SCHEMA.resolve(v_now, v_new.time, v_new.delay);
        v_most := coalesce(SCHEMA.resolve(v_now, v_new.most, v_new.most_delay), c_never);
        v_is_begun := false;
        v_kept := NULL;
        o_id := NULL;
        LOOP
            -- A push with a schedule changes the started repeating job of its key. The last look is made while
            -- the open job of the key is locked or new: none can be opened then, and one that was started in the
            -- meantime is visible.
            IF v_new.schedule IS NOT NULL THEN
                SELECT j.id, j.at, j.token, j.place, j.seat, j.job_group INTO v_begun FROM SCHEMA.job j
                WHERE j.queue = v_queue AND j.key = v_new.key AND j.run <> 0 AND j.schedule IS NOT NULL
                ORDER BY j.run LIMIT 1 FOR UPDATE;
                v_is_begun := FOUND;
            END IF;
            EXIT WHEN v_is_begun OR o_id IS NOT NULL;
            SELECT j.id, j.at, j.most, j.token, j.place, j.seat, j.job_group INTO v_old FROM SCHEMA.job j
            WHERE j.queue = v_queue AND j.key = v_new.key AND j.run = 0 FOR UPDATE;
            IF FOUND THEN
                o_put := 1;
                o_id := v_old.id;
            ELSE
                v_kept := CASE WHEN v_new.merge > 3 THEN SCHEMA.kept_by(v_queue, v_new.key, v_new.merge = 5, v_now) END;
                EXIT WHEN v_kept IS NOT NULL;
                o_put := 0;
                o_due := least(v_at, v_most);
                INSERT INTO SCHEMA.job AS j (id, queue, due, at, most, key, payload, schedule, urgent, kind, options,
                    job_group)
                VALUES (coalesce(v_new.id, nextval('SCHEMA.job_id_seq')), v_queue, o_due, o_due, v_most, v_new.key,
                    v_new.payload, v_new.schedule, v_new.urgent, v_new.kind, v_new.options, v_new.job_group)
                ON CONFLICT (queue, key, run) WHERE key IS NOT NULL DO NOTHING
                RETURNING j.id INTO o_id;
                -- Otherwise another transaction has inserted the key, which is now visible. So is one that was pushed and
                -- started before this one was inserted.
                IF v_new.merge > 3 AND o_id IS NOT NULL THEN
                    v_kept := SCHEMA.kept_by(v_queue, v_new.key, v_new.merge = 5, v_now);
                    EXIT WHEN v_kept IS NOT NULL;
                END IF;
            END IF;
            EXIT WHEN v_new.schedule IS NULL AND o_id IS NOT NULL;
        END LOOP;
        IF (v_is_begun OR v_kept IS NOT NULL) AND o_id IS NOT NULL AND o_put = 0 THEN
            DELETE FROM SCHEMA.job j WHERE j.id = o_id;
        END IF;
        IF v_kept IS NOT NULL THEN
            o_id := v_kept;
            o_put := 2;
        ELSIF v_is_begun OR o_put = 1 THEN
            o_put := CASE WHEN v_new.merge IN (0, 4, 5) OR SCHEMA.is_late(v_new.schedule, v_new.delay, v_at) THEN 2 ELSE 1 END;
            v_merged := v_merged OR o_put = 1;
        END IF;
        IF v_is_begun THEN
            o_id := v_begun.id;
            o_due := c_never;
            IF o_put = 1 AND v_begun.token IS NULL THEN
                -- No process has it: it is due at this time at the latest.
                o_due := least(v_begun.at, v_at);
                v_frees_place := v_frees_place OR v_begun.place > 0;
                PERFORM SCHEMA.leave_seat(v_queue, v_begun.seat, v_begun.job_group);
            END IF;
            UPDATE SCHEMA.job j SET payload = v_new.payload, schedule = v_new.schedule,
                urgent = j.urgent OR v_new.urgent, kind = v_new.kind, options = v_new.options,
                most = CASE WHEN j.token IS NULL THEN j.most ELSE v_at END,
                due = least(j.due, o_due), at = least(j.at, o_due),
                place = CASE WHEN j.token IS NOT NULL THEN j.place END,
                seat = CASE WHEN j.token IS NOT NULL THEN j.seat ELSE 0 END
            WHERE j.id = o_id AND o_put = 1;
        ELSIF o_put = 2 THEN
            o_due := c_never;
        ELSIF o_put = 1 THEN
            o_due := CASE v_new.merge
                WHEN 1 THEN least(v_old.at, v_at)
                WHEN 2 THEN greatest(v_old.at, v_at)
                ELSE least(v_at, v_old.most) END;
            -- Ends a claim ahead.
            UPDATE SCHEMA.job j SET due = o_due, at = o_due, payload = v_new.payload,
                schedule = coalesce(v_new.schedule, j.schedule),
                most = CASE WHEN v_new.schedule IS NULL THEN j.most ELSE c_never END, urgent = j.urgent OR v_new.urgent,
                token = NULL, place = NULL, seat = 0, kind = v_new.kind, options = v_new.options,
                job_group = v_new.job_group
            WHERE j.id = o_id;
            v_frees_place := v_frees_place OR v_old.place > 0;
            PERFORM SCHEMA.leave_seat(v_queue, v_old.seat, v_old.job_group);
            IF SCHEMA.is_unconfirmed(v_old.token) THEN
                PERFORM SCHEMA.recall(v_queue);
            END IF;
        END IF;
        v_ids[v_new.ord] := o_id;
        v_puts[v_new.ord] := o_put;
        v_dues[v_new.ord] := o_due;
        v_first := least(v_first, o_due);
    END LOOP;
    RETURN QUERY
    SELECT r.id, r.put, r.due, r.due < SCHEMA.after(v_now, SOON)
    FROM unnest(v_ids, v_puts, v_dues) AS r(id, put, due);
    IF p_tell AND v_first < SCHEMA.after(v_now, SOON) THEN
        PERFORM SCHEMA.notify(v_queue, v_first, '');
    END IF;
    IF p_tell IS NULL THEN
        IF v_merged AND (SELECT q.limited FROM SCHEMA.queue q WHERE q.id = v_queue) THEN
            PERFORM SCHEMA.call_after(v_queue);
        END IF;
    ELSIF v_frees_place THEN
        -- The next claim calls: see `limits.sql`.
        PERFORM SCHEMA.notify(v_queue, (-9223372036854775808)::bigint, '');
    END IF;
END
$$;

-- `push` with all parameters: a job with a kind, options as text, and a group. The first six have no default values, so that
-- it is not ambiguous with those below.
CREATE OR REPLACE FUNCTION SCHEMA.push(
    p_queue text, p_payload bytea, p_due timestamptz, p_key bytea, p_urgent boolean, p_kind text,
    p_options text DEFAULT NULL, p_group text DEFAULT NULL
) RETURNS bigint
LANGUAGE sql AS $$
    SELECT o_id FROM SCHEMA.enqueue(
        p_queue,
        ARRAY[CASE WHEN p_due > '-infinity'
            THEN least(ceil(extract(epoch FROM p_due) * 1000000), 9223372036854775807)::bigint ELSE 0 END],
        ARRAY[(p_due > '-infinity') IS NOT TRUE],
        ARRAY[p_payload], ARRAY[p_key], ARRAY[0::smallint],
        ARRAY[NULL::bigint], ARRAY[NULL::boolean], ARRAY[NULL::text],
        ARRAY[coalesce(p_urgent, false)], ARRAY[p_kind], ARRAY[p_options], ARRAY[p_group], true)
$$;

-- `SELECT durable.push('mails', 'payload', NULL, NULL, true)` is urgent.
CREATE OR REPLACE FUNCTION SCHEMA.push(
    p_queue text, p_payload bytea, p_due timestamptz, p_key bytea, p_urgent boolean
) RETURNS bigint
LANGUAGE sql AS $$
    SELECT SCHEMA.push(p_queue, p_payload, p_due, p_key, p_urgent, NULL)
$$;

-- For any client in any language, in its own transaction: `SELECT durable.push('mails', 'payload')`. If the
-- key has an open job, that job does not change. Returns the job's id. Due at `infinity` means never, at
-- `-infinity` or null now.
CREATE OR REPLACE FUNCTION SCHEMA.push(
    p_queue text, p_payload bytea, p_due timestamptz DEFAULT NULL, p_key bytea DEFAULT NULL
) RETURNS bigint
LANGUAGE sql AS $$
    SELECT SCHEMA.push(p_queue, p_payload, p_due, p_key, false)
$$;

-- For clients without a binary type: payload and key as UTF-8 text. Not an overload of `push`, because a
-- literal ('\x00ff') or a parameter without a type would then be resolved as text instead of bytes.
CREATE OR REPLACE FUNCTION SCHEMA.push_text(
    p_queue text, p_payload text, p_due timestamptz, p_key text, p_urgent boolean, p_kind text,
    p_options text DEFAULT NULL, p_group text DEFAULT NULL
) RETURNS bigint
LANGUAGE sql AS $$
    SELECT SCHEMA.push(p_queue, convert_to(p_payload, 'UTF8'), p_due, convert_to(p_key, 'UTF8'), p_urgent,
        p_kind, p_options, p_group)
$$;

CREATE OR REPLACE FUNCTION SCHEMA.push_text(
    p_queue text, p_payload text, p_due timestamptz DEFAULT NULL, p_key text DEFAULT NULL,
    p_urgent boolean DEFAULT false
) RETURNS bigint
LANGUAGE sql AS $$
    SELECT SCHEMA.push_text(p_queue, p_payload, p_due, p_key, p_urgent, NULL)
$$;

-- Like `push_text`, with a payload for `Json` of the library.
CREATE OR REPLACE FUNCTION SCHEMA.push_json(
    p_queue text, p_payload jsonb, p_due timestamptz, p_key text, p_urgent boolean, p_kind text,
    p_options text DEFAULT NULL, p_group text DEFAULT NULL
) RETURNS bigint
LANGUAGE sql AS $$
    SELECT SCHEMA.push_text(p_queue, p_payload::text, p_due, p_key, p_urgent, p_kind, p_options, p_group)
$$;

CREATE OR REPLACE FUNCTION SCHEMA.push_json(
    p_queue text, p_payload jsonb, p_due timestamptz DEFAULT NULL, p_key text DEFAULT NULL,
    p_urgent boolean DEFAULT false
) RETURNS bigint
LANGUAGE sql AS $$
    SELECT SCHEMA.push_text(p_queue, p_payload::text, p_due, p_key, p_urgent)
$$;
