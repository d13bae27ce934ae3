-- The hot path: settles and claims in one statement, one round trip and one commit.

-- Opens a job that was started and is no longer held, unless another job of its key is open. If a concurrent
-- transaction has inserted one, waits for it briefly, and then assumes that it commits: otherwise all jobs
-- that this process has claimed would wait, too.
CREATE OR REPLACE FUNCTION SCHEMA.reopen(p_id bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_limit text;
BEGIN
    PERFORM FROM SCHEMA.job j WHERE j.id = p_id AND j.run <> 0 AND NOT EXISTS (
        SELECT FROM SCHEMA.job o WHERE o.queue = j.queue AND o.key = j.key AND o.run = 0);
    IF FOUND THEN
        v_limit := current_setting('lock_timeout');
        BEGIN
            PERFORM set_config('lock_timeout', '1ms', true);
            UPDATE SCHEMA.job j SET run = 0 WHERE j.id = p_id;
            PERFORM set_config('lock_timeout', v_limit, true);
        EXCEPTION WHEN unique_violation OR lock_not_available THEN
            NULL; -- The block is rolled back, so `lock_timeout` is as before.
        END;
    END IF;
END
$$;

-- A settle that is carried out separately. Acts: 3 retry, 4 bury (the number of uncounted attempts is in its
-- time), 5 release, 6 again, 7 retry without counting the attempt, 8 keep until a time (the result is in its error, in
-- hexadecimal, and the duration of the attempt in its failures). A marked job is not returned but deleted.
--
-- Returns whether it was carried out. `o_seats`, `o_groups`: the seat that the job has left, and its group, if it
-- had one. A job that is retried or released keeps the seat `p_kept`. The seat is returned by the statement that
-- changes the row, because a change of the rule may have given it since the turn began.
CREATE OR REPLACE FUNCTION SCHEMA.settle(
    p_now bigint, p_act smallint, p_id bigint, p_token uuid, p_time bigint, p_delay boolean, p_error text,
    p_failures text, p_kept bigint, OUT o_done boolean, OUT o_groups text[], OUT o_seats bigint[]
)
LANGUAGE plpgsql AS $$
DECLARE
    v_at bigint := SCHEMA.resolve(p_now, p_time, p_delay);
    v_group text;
    v_seat bigint;
    v_is_gone boolean := true;
BEGIN
    IF p_act = 4 THEN
        WITH gone AS (
            DELETE FROM SCHEMA.job j WHERE j.id = p_id AND j.token = p_token AND j.started RETURNING j.*
        ), buried AS (
            INSERT INTO SCHEMA.dead (id, queue, attempts, buried, key, payload, error, schedule, urgent, kind, options,
                failures, job_group)
            SELECT g.id, g.queue, g.attempts - p_time, p_now, g.key, g.payload, p_error, g.schedule, g.urgent,
                g.kind, g.options, coalesce(p_failures, g.failures), g.job_group
            FROM gone g
        )
        SELECT g.job_group, g.seat INTO v_group, v_seat FROM gone g;
    ELSIF p_act = 8 THEN
        WITH gone AS (
            DELETE FROM SCHEMA.job j WHERE j.id = p_id AND j.token = p_token AND j.started RETURNING j.*
        ), kept AS (
            INSERT INTO SCHEMA.done (id, queue, until, finished, took, attempts, key, kind, result)
            SELECT g.id, g.queue, v_at, p_now, p_failures::bigint, g.attempts, g.key, g.kind, decode(p_error, 'hex')
            FROM gone g
        )
        SELECT g.job_group, g.seat INTO v_group, v_seat FROM gone g;
    ELSIF p_act = 6 THEN
        -- Only if it still has a schedule, which a cancel may have removed. A push during the run may have
        -- set an earlier time.
        UPDATE SCHEMA.job j SET due = least(v_at, j.most), at = least(v_at, j.most),
            most = 9223372036854775807, attempts = 0, failures = NULL,
            token = NULL, started = false, place = NULL
        WHERE j.id = p_id AND j.token = p_token AND j.started AND j.schedule IS NOT NULL AND NOT j.cancelled
        RETURNING j.job_group, j.seat INTO v_group, v_seat;
    ELSIF p_act IN (3, 7) THEN
        UPDATE SCHEMA.job j SET due = v_at, at = v_at, most = greatest(j.most, v_at), token = NULL,
            started = false, place = NULL, failures = coalesce(p_failures, j.failures),
            attempts = j.attempts - (p_act = 7)::integer
        WHERE j.id = p_id AND j.token = p_token AND j.started AND NOT j.cancelled
        RETURNING j.job_group, j.seat INTO v_group, v_seat;
    ELSE
        UPDATE SCHEMA.job j SET due = j.at, attempts = j.attempts - j.started::integer, token = NULL,
            started = false, place = NULL
        WHERE j.id = p_id AND j.token = p_token AND NOT j.cancelled
        RETURNING j.job_group, j.seat INTO v_group, v_seat;
    END IF;
    o_done := FOUND;
    IF p_act NOT IN (4, 8) THEN
        v_is_gone := NOT o_done;
        IF NOT o_done THEN
            DELETE FROM SCHEMA.job j
            WHERE j.id = p_id AND j.token = p_token AND (j.started OR p_act = 5) AND (j.cancelled OR p_act = 6)
            RETURNING j.job_group, j.seat INTO v_group, v_seat;
            o_done := FOUND;
        ELSE
            PERFORM SCHEMA.reopen(p_id);
        END IF;
    END IF;
    IF v_seat <> 0 AND (v_is_gone OR p_act = 6 OR v_seat <> p_kept) THEN
        IF NOT v_is_gone THEN
            UPDATE SCHEMA.job j SET seat = 0 WHERE j.id = p_id;
        END IF;
        IF SCHEMA.is_seat(v_seat) THEN
            o_groups := ARRAY[v_group];
            o_seats := ARRAY[v_seat];
        END IF;
    END IF;
END
$$;

-- The frequent settles of a turn, one statement per act. Acts: 0 start, 1 extend, 2 ack. Returns which are
-- done, and the groups and seats of acknowledged jobs.
--
-- `= ANY (ARRAY[a.id])` is equivalent to `= a.id`, but prevents a plan that reads all jobs in the order of
-- their ids and compares each, which the planner would choose for a small table.
CREATE OR REPLACE FUNCTION SCHEMA.settle_many(
    p_queue bigint, p_now bigint, p_acts smallint[], p_ids bigint[], p_tokens uuid[], p_times bigint[],
    OUT o_done integer[], OUT o_groups text[], OUT o_seats bigint[]
)
LANGUAGE plpgsql AS $$
DECLARE
    v_more integer[];
    v_free bigint[];
BEGIN
    o_done := '{}';
    IF 0 = ANY (p_acts) THEN
        -- Skips jobs locked by another transaction: one that has merged a push, and commits later, must not
        -- block all jobs of this process. They are retried.
        v_free := ARRAY(
            SELECT j.id FROM SCHEMA.job j
            WHERE j.id = ANY (ARRAY(
                SELECT a.id FROM unnest(p_acts, p_ids) AS a(act, id) WHERE a.act = 0
            ))
            FOR UPDATE SKIP LOCKED
        );
        -- Only the first start of a claim counts, so it can be repeated.
        WITH begun AS (
            UPDATE SCHEMA.job j SET due = SCHEMA.after(p_now, a.time),
                attempts = j.attempts + (NOT j.started)::integer, started = true,
                run = CASE WHEN j.key IS NULL THEN 0 ELSE j.id END
            FROM unnest(p_acts, p_ids, p_tokens, p_times) WITH ORDINALITY AS a(act, id, token, time, ord)
            WHERE a.act = 0 AND a.id = ANY (v_free) AND j.id = ANY (ARRAY[a.id]) AND j.token = a.token
                AND (j.started OR j.at <= p_now)
                AND NOT (SELECT q.paused FROM SCHEMA.queue q WHERE q.id = p_queue)
            RETURNING a.ord
        )
        SELECT array_agg(b.ord::integer) INTO v_more FROM begun b;
        o_done := o_done || v_more;
    END IF;
    IF 1 = ANY (p_acts) THEN
        WITH extended AS (
            UPDATE SCHEMA.job j SET due = SCHEMA.after(p_now, a.time)
            FROM unnest(p_acts, p_ids, p_tokens, p_times) WITH ORDINALITY AS a(act, id, token, time, ord)
            WHERE a.act = 1 AND j.id = ANY (ARRAY[a.id]) AND j.token = a.token AND j.started
            RETURNING a.ord
        )
        SELECT array_agg(e.ord::integer) INTO v_more FROM extended e;
        o_done := o_done || v_more;
    END IF;
    IF 2 = ANY (p_acts) THEN
        WITH acked AS (
            DELETE FROM SCHEMA.job j
            USING unnest(p_acts, p_ids, p_tokens) WITH ORDINALITY AS a(act, id, token, ord)
            WHERE a.act = 2 AND j.id = ANY (ARRAY[a.id]) AND j.token = a.token AND j.started
            RETURNING a.ord, j.job_group, j.seat
        )
        SELECT array_agg(d.ord::integer), array_agg(d.job_group) FILTER (WHERE SCHEMA.is_seat(d.seat)),
            array_agg(d.seat) FILTER (WHERE SCHEMA.is_seat(d.seat))
        INTO v_more, o_groups, o_seats FROM acked d;
        o_done := o_done || v_more;
    END IF;
END
$$;

-- Carries out, in order, those settles of a turn that `settle_many` has not. Adds to what it has returned. `o_early`: failed
-- starts that are only early. `o_back`: the earliest time at which a returned job can be claimed. `o_calls`: see `turn`.
CREATE OR REPLACE FUNCTION SCHEMA.settle_each(
    p_queue bigint, p_now bigint, p_kept bigint, p_apart boolean, p_acts smallint[], p_ids bigint[], p_tokens uuid[],
    p_times bigint[], p_delays boolean[], p_errors text[], p_failures text[],
    INOUT p_done integer[], INOUT p_groups text[], INOUT p_seats bigint[],
    OUT o_early integer[], OUT o_back bigint, OUT o_calls boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    v_each record;
    v_is_done boolean;
    v_groups text[];
    v_seats bigint[];
BEGIN
    o_early := '{}';
    o_back := 9223372036854775807;
    o_calls := false;
    FOR v_each IN
        SELECT * FROM unnest(p_acts, p_ids, p_tokens, p_times, p_delays, p_errors, p_failures) WITH ORDINALITY
            AS a(act, id, token, time, delay, error, failures, ord)
        WHERE a.ord <> ALL (p_done)
        ORDER BY a.ord
    LOOP
        v_is_done := false;
        IF v_each.act > 2 THEN
            SELECT s.* INTO v_is_done, v_groups, v_seats
            FROM SCHEMA.settle(p_now, v_each.act, v_each.id, v_each.token, v_each.time, v_each.delay, v_each.error,
                v_each.failures, p_kept) s;
        ELSIF NOT p_apart THEN
            SELECT cardinality(s.o_done) > 0, s.o_groups, s.o_seats INTO v_is_done, v_groups, v_seats
            FROM SCHEMA.settle_many(p_queue, p_now, ARRAY[v_each.act], ARRAY[v_each.id], ARRAY[v_each.token],
                ARRAY[v_each.time]) s;
        END IF;
        IF v_is_done THEN
            p_done := p_done || v_each.ord::integer;
            p_groups := p_groups || v_groups;
            p_seats := p_seats || v_seats;
            IF v_each.act > 2 THEN
                SELECT least(o_back, min(j.due)),
                    -- A push during the run has set an earlier time than the holder knows.
                    o_calls OR coalesce(v_each.act = 6
                        AND min(j.due) < SCHEMA.resolve(p_now, v_each.time, v_each.delay), false)
                INTO o_back, o_calls
                FROM SCHEMA.job j WHERE j.id = v_each.id;
            END IF;
        ELSIF v_each.act = 0 AND EXISTS (
            SELECT FROM SCHEMA.job j WHERE j.id = v_each.id AND j.token = v_each.token)
        THEN
            o_early := o_early || v_each.ord::integer;
        END IF;
    END LOOP;
END
$$;

-- Returns the first job of each index from the floor on: see `turn`. Locks no rows. For free and urgent
-- jobs, also the ids.
CREATE OR REPLACE FUNCTION SCHEMA.firsts(
    p_queue bigint, p_free bigint, p_free_id bigint, p_urgent bigint, p_urgent_id bigint, p_held bigint
) RETURNS TABLE (o_free bigint, o_free_id bigint, o_urgent bigint, o_urgent_id bigint, o_held bigint)
LANGUAGE plpgsql AS $$
DECLARE
    c_never CONSTANT bigint := 9223372036854775807;
BEGIN
    SELECT coalesce(f.due, c_never), coalesce(f.id, 0), coalesce(u.due, c_never), coalesce(u.id, 0),
        coalesce(h.due, c_never)
    INTO o_free, o_free_id, o_urgent, o_urgent_id, o_held
    FROM (SELECT) one
    LEFT JOIN (
        SELECT j.due, j.id FROM SCHEMA.job j
        WHERE j.queue = p_queue AND j.token IS NULL AND j.due <= c_never AND (j.due, j.id) >= (p_free, p_free_id)
        ORDER BY j.due, j.id LIMIT 1
    ) f ON true
    LEFT JOIN (
        SELECT j.due, j.id FROM SCHEMA.job j
        WHERE j.queue = p_queue AND j.urgent AND (j.due, j.id) >= (p_urgent, p_urgent_id)
        ORDER BY j.due, j.id LIMIT 1
    ) u ON true
    LEFT JOIN (
        SELECT j.due FROM SCHEMA.job j
        WHERE j.queue = p_queue AND j.token IS NOT NULL AND j.due >= p_held
        ORDER BY j.due, j.id LIMIT 1
    ) h ON true;
    RETURN NEXT;
END
$$;

-- Returns the earliest time at which any job can be claimed, and the earliest job without a lease, from the
-- floor on, if there is one. With a list: of the kinds that have room.
CREATE OR REPLACE FUNCTION SCHEMA.look(p_queue text, p_floor bigint[], p_listed text[], p_rooms bigint[])
RETURNS TABLE (o_first bigint, o_first_free bigint)
LANGUAGE plpgsql AS $$
DECLARE
    c_start CONSTANT bigint := -9223372036854775808;
BEGIN
    IF p_listed IS NOT NULL THEN
        RETURN QUERY
        SELECT l.* FROM SCHEMA.queue q, SCHEMA.look_listed(q.id, SCHEMA.clock(), p_listed, p_rooms, p_floor IS NULL) l
        WHERE q.name = p_queue;
        RETURN;
    END IF;
    SELECT least(f.o_free, f.o_held), f.o_free INTO o_first, o_first_free
    FROM SCHEMA.firsts((SELECT q.id FROM SCHEMA.queue q WHERE q.name = p_queue), coalesce(p_floor[1], c_start),
        coalesce(p_floor[2], 0), coalesce(p_floor[3], c_start), coalesce(p_floor[4], 0),
        coalesce(p_floor[5], c_start)) f;
    RETURN NEXT;
END
$$;

-- Returns how many entries of the claims' indexes this session has read. The entry of a finished job exists
-- until no transaction can see the job any more.
CREATE OR REPLACE FUNCTION SCHEMA.entries_read() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT pg_stat_get_xact_tuples_returned('SCHEMA.job_free'::regclass)
        + pg_stat_get_xact_tuples_returned('SCHEMA.job_held'::regclass)
        + pg_stat_get_xact_tuples_returned('SCHEMA.job_urgent'::regclass)
$$;

-- The claim of `turn` if leases have expired: returns the first of their jobs and of the free ones up to
-- `p_last`. It locks more jobs than it returns.
CREATE OR REPLACE FUNCTION SCHEMA.claim_ended(
    p_queue bigint, p_now bigint, p_token uuid, p_begins boolean, p_room bigint, p_last bigint, p_lease bigint,
    p_free bigint, p_free_id bigint, p_held bigint
) RETURNS TABLE (
    o_id bigint, o_at bigint, o_started boolean, o_attempts integer, o_key bytea, o_payload bytea,
    o_schedule text, o_urgent boolean, o_kind text, o_options text, o_failures text, o_cancelled boolean
)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    UPDATE SCHEMA.job j SET token = p_token, started = p_begins, attempts = j.attempts + p_begins::integer,
        due = CASE WHEN p_begins THEN SCHEMA.after(p_now, p_lease)
            ELSE greatest(j.at, SCHEMA.after(p_now, p_lease)) END,
        run = CASE WHEN NOT p_begins THEN j.run WHEN j.key IS NULL THEN 0 ELSE j.id END
    WHERE j.ctid = ANY (ARRAY(
        SELECT c.place FROM SCHEMA.queue q, LATERAL (
            SELECT * FROM (
                SELECT j.ctid AS place, j.due, j.id FROM SCHEMA.job j
                WHERE j.queue = q.id AND j.token IS NULL AND j.due <= p_last
                    AND (j.due, j.id) >= (p_free, p_free_id)
                ORDER BY j.due, j.id LIMIT p_room FOR UPDATE SKIP LOCKED
            ) free
            UNION ALL
            SELECT * FROM (
                SELECT j.ctid, j.due, j.id FROM SCHEMA.job j
                WHERE j.queue = q.id AND j.token IS NOT NULL AND j.due BETWEEN p_held AND p_now
                ORDER BY j.due, j.id LIMIT p_room FOR UPDATE SKIP LOCKED
            ) ended
        ) c
        WHERE q.id = p_queue AND NOT q.paused AND NOT q.limited
        ORDER BY c.due, c.id LIMIT p_room
    ))
    RETURNING j.id, j.at, j.started, j.attempts, j.key, j.payload, j.schedule, j.urgent, j.kind, j.options,
        j.failures, j.cancelled;
END
$$;

-- `p_sync`: the commit waits for the disk. `p_apart`: the settles are independent, so the frequent ones
-- (starts, extensions, acknowledgements) may be carried out together, in any order. `p_token` null: no claim.
-- `p_urgent`: due urgent jobs come first. `p_listed`: only jobs of these kinds, at most as many of each as `p_rooms`
-- says; null: all jobs.
--
-- Returns a row per lease, then a row without an id: the clock, whether the queue is paused, which settles
-- are done, which starts are early, and the result of `look`. `o_raised`: look once more, see `announce`.
-- `o_calls`: a job that has waited can now be claimed, because of the settles.
--
-- While an open transaction may still see finished jobs, their index entries remain, and a claim from the
-- beginning skips all of them. Therefore there is a floor, which the caller passes back as it was returned,
-- or lowered: free and urgent jobs are claimed from a time and an id on, expired leases from a time on, and
-- the last element is the time at which the floor was found by reading from the beginning (a seek). After
-- `c_seek`, or if the floor was lowered to the beginning, the next turn seeks again. Null: few entries are in
-- front, and there is no floor. With a list, the floor only says that many entries are in front: then jobs are not looked
-- for in the order of all jobs.
CREATE OR REPLACE FUNCTION SCHEMA.turn(
    p_queue text, p_sync boolean, p_apart boolean,
    p_acts smallint[], p_ids bigint[], p_tokens uuid[], p_times bigint[], p_delays boolean[],
    p_errors text[], p_failures text[],
    p_token uuid, p_max bigint, p_start bigint, p_ahead bigint, p_horizon bigint, p_lease bigint,
    p_urgent boolean, p_floor bigint[], p_listed text[], p_rooms bigint[]
) RETURNS TABLE (
    o_id bigint, o_at bigint, o_started boolean, o_attempts integer, o_key bytea, o_payload bytea,
    o_schedule text, o_urgent boolean, o_kind text, o_options text, o_failures text, o_cancelled boolean,
    o_done integer[], o_early integer[], o_first bigint, o_first_free bigint, o_raised boolean,
    o_calls boolean, o_floor bigint[]
)
LANGUAGE plpgsql AS $$
DECLARE
    -- The head is raised this far beyond the necessary time, because otherwise every turn would raise it.
    c_step CONSTANT bigint := 1000000;
    -- Delay until a claim looks again for due jobs that were locked by another transaction.
    c_again CONSTANT bigint := 2000;
    c_never CONSTANT bigint := 9223372036854775807;
    c_start CONSTANT bigint := -9223372036854775808;
    -- How long a floor is valid.
    c_seek CONSTANT bigint := 1000000;
    -- The floor is at most this far behind the present: a transaction may commit a job this long after the
    -- job's time.
    c_slack CONSTANT bigint := 100000;
    -- Without a floor, up to this many entries may be in front, and a claim with its look may skip twice as
    -- many.
    c_few CONSTANT bigint := 1000;
    v_now bigint := SCHEMA.clock();
    v_queue bigint;
    v_paused boolean;
    v_limited boolean;
    -- See `settle`.
    v_kept bigint;
    v_head bigint;
    v_called record;
    -- Groups of which settled jobs have left seats, and the seats.
    v_groups text[] := '{}';
    v_seats bigint[] := '{}';
    v_missed boolean := false;
    v_more_waits boolean := false;
    v_done integer[] := '{}';
    v_early integer[] := '{}';
    v_each record;
    v_begun bigint := 0;
    v_ahead bigint := 0;
    v_rooms bigint[] := p_rooms;
    v_until bigint;
    v_begins boolean;
    v_room bigint;
    v_more bigint;
    v_short boolean := false;
    v_back bigint := c_never;
    v_read bigint;
    v_first_held bigint;
    v_floor record;
    v_sought bigint;
    v_in_order boolean;
    v_free bigint := c_start;
    v_free_id bigint := 0;
    v_urgent bigint := c_start;
    v_urgent_id bigint := 0;
    v_held bigint := c_start;
BEGIN
    IF NOT p_sync THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    SELECT q.id, q.paused, q.limited, q.head,
        CASE WHEN q.group_most > 0 AND q.group_mode = 0 THEN q.group_rule ELSE 0 END
    INTO v_queue, v_paused, v_limited, v_head, v_kept
    FROM SCHEMA.queue q WHERE q.name = p_queue;
    IF v_queue IS NULL THEN
        v_queue := SCHEMA.queue_of(p_queue);
        v_paused := false;
        v_limited := false;
        v_kept := 0;
        v_head := c_start;
    END IF;
    o_calls := false;
    IF p_apart AND cardinality(p_acts) > 0 THEN
        v_each := SCHEMA.settle_many(v_queue, v_now, p_acts, p_ids, p_tokens, p_times);
        v_done := v_each.o_done;
        v_groups := v_each.o_groups;
        v_seats := v_each.o_seats;
    END IF;
    IF cardinality(v_done) < cardinality(p_acts) THEN
        v_each := SCHEMA.settle_each(v_queue, v_now, v_kept, p_apart, p_acts, p_ids, p_tokens, p_times, p_delays, p_errors,
            p_failures, v_done, v_groups, v_seats);
        v_done := v_each.p_done;
        v_groups := v_each.p_groups;
        v_seats := v_each.p_seats;
        v_early := v_each.o_early;
        v_back := v_each.o_back;
        o_calls := v_each.o_calls;
    END IF;
    -- Jobs may have left seats of the first rule, which has been set since this turn began.
    v_limited := v_limited OR (cardinality(v_groups) > 0) IS TRUE;
    IF v_limited AND (p_token IS NOT NULL OR 2 <= ANY (p_acts)) THEN
        PERFORM SCHEMA.lock_limits(v_queue);
        -- Leases that other turns have ended in the meantime end before this claim.
        v_now := SCHEMA.clock();
        SELECT * INTO v_called FROM SCHEMA.call_waiting(v_queue, v_now, v_groups, v_seats) c;
        v_back := least(v_back, v_called.o_back);
        v_missed := v_called.o_missed;
        o_calls := o_calls OR 2 <= ANY (p_acts) AND (v_called.o_back IS NOT NULL OR v_missed);
        IF p_token IS NOT NULL THEN
            SELECT * INTO v_called FROM SCHEMA.renew_groups(v_queue, v_now) r;
            v_back := least(v_back, v_called.o_back);
            v_missed := v_missed OR v_called.o_missed;
            v_more_waits := v_called.o_more;
        END IF;
    END IF;
    IF p_floor IS NOT NULL THEN
        -- Jobs returned by these settles lower the floor.
        v_free := p_floor[1];
        v_free_id := p_floor[2];
        v_urgent := p_floor[3];
        v_urgent_id := p_floor[4];
        v_held := p_floor[5];
        v_sought := p_floor[6];
        IF v_back <= v_free THEN
            v_free := v_back;
            v_free_id := 0;
        END IF;
        IF v_back <= v_urgent THEN
            v_urgent := v_back;
            v_urgent_id := 0;
        END IF;
        o_floor := ARRAY[v_free, v_free_id, v_urgent, v_urgent_id, v_held, v_sought];
    END IF;
    IF p_token IS NOT NULL THEN
        v_read := SCHEMA.entries_read();
        v_in_order := (p_floor IS NULL OR v_sought NOT BETWEEN v_now - c_seek + 1 AND v_now);
    END IF;
    IF p_token IS NOT NULL AND p_listed IS NULL THEN
        IF p_floor IS NOT NULL AND (v_free = c_start OR v_sought NOT BETWEEN v_now - c_seek + 1 AND v_now) THEN
            SELECT f.o_free, f.o_free_id, f.o_urgent, f.o_urgent_id, f.o_held
            INTO v_free, v_free_id, v_urgent, v_urgent_id, v_held
            FROM SCHEMA.firsts(v_queue, c_start, 0, c_start, 0, c_start) f;
            v_sought := v_now;
            IF SCHEMA.entries_read() - v_read <= c_few THEN
                o_floor := NULL;
            END IF;
        END IF;
        SELECT j.due INTO v_first_held FROM SCHEMA.job j
        WHERE j.queue = v_queue AND j.token IS NOT NULL AND j.due >= v_held ORDER BY j.due, j.id LIMIT 1;
        v_first_held := coalesce(v_first_held, c_never);
    END IF;
    IF p_token IS NOT NULL AND v_limited THEN
        v_each := SCHEMA.claim_limited(v_queue, v_now, p_token, p_urgent, p_max, p_start, p_ahead, p_horizon, p_lease,
            ARRAY[v_free, v_free_id, v_urgent, v_urgent_id, v_held], p_listed, p_rooms);
        v_rooms := v_each.p_rooms;
        v_begun := v_each.o_begun;
        v_ahead := v_each.o_ahead;
        v_short := v_each.o_short;
        v_missed := v_missed OR v_each.o_missed;
        o_calls := o_calls OR v_each.o_calls;
        v_back := v_each.o_back;
        IF v_back <= v_free THEN
            v_free := v_back;
            v_free_id := 0;
        END IF;
        IF v_back <= v_urgent THEN
            v_urgent := v_back;
            v_urgent_id := 0;
        END IF;
    ELSIF p_token IS NOT NULL AND p_listed IS NOT NULL THEN
        v_each := SCHEMA.claim_listed(v_queue, v_now, p_token, p_urgent, p_max, p_start, p_ahead, p_horizon, p_lease,
            p_listed, v_in_order, p_rooms);
        v_rooms := v_each.p_rooms;
        v_begun := v_each.o_begun;
        v_ahead := v_each.o_ahead;
        v_short := v_begun < least(p_start, p_max) OR p_start = 0 AND v_ahead < least(p_ahead, p_max);
    ELSIF p_token IS NOT NULL THEN
        -- Urgent jobs first, to start or, if there may be more of them, ahead. Then free ones, and those whose leases have ended.
        -- The same snapshot shows that the
        -- queue is not paused, so no job pushed after a pause is claimed. Rows are locked where they are
        -- found, and updated in place, without a search by id. A row that was updated since the snapshot has
        -- moved: it is locked but not claimed, and the claim returns fewer jobs.
        v_until := SCHEMA.after(v_now, p_lease);
        FOR v_step IN 1..4 LOOP
            v_begins := v_step IN (1, 3);
            v_room := CASE WHEN v_step < 3 AND NOT p_urgent OR v_step = 2 AND v_begun < least(p_start, p_max) THEN 0
                WHEN v_begins THEN least(p_start, p_max) - v_begun ELSE least(p_ahead, p_max - v_begun) - v_ahead END;
            CONTINUE WHEN v_room <= 0;
            IF v_step < 3 THEN
                RETURN QUERY
                UPDATE SCHEMA.job j SET token = p_token, started = v_begins, attempts = j.attempts + v_begins::integer,
                    due = CASE WHEN v_begins THEN v_until ELSE greatest(j.at, v_until) END,
                    run = CASE WHEN v_begins AND j.key IS NOT NULL THEN j.id ELSE j.run END
                WHERE j.ctid = ANY (ARRAY(
                    SELECT j.ctid FROM SCHEMA.job j
                    WHERE j.queue = (SELECT q.id FROM SCHEMA.queue q WHERE q.id = v_queue AND NOT q.paused AND NOT q.limited)
                        AND j.urgent AND j.due <= v_now AND (j.due, j.id) >= (v_urgent, v_urgent_id)
                    ORDER BY j.due, j.id LIMIT v_room FOR UPDATE SKIP LOCKED
                ))
                RETURNING j.id, j.at, j.started, j.attempts, j.key, j.payload, j.schedule, j.urgent, j.kind, j.options,
                    j.failures, j.cancelled, NULL::integer[], NULL::integer[], NULL::bigint, NULL::bigint,
                    NULL::boolean, NULL::boolean, NULL::bigint[];
            ELSIF v_first_held <= v_now THEN
                RETURN QUERY
                SELECT c.*, NULL::integer[], NULL::integer[], NULL::bigint, NULL::bigint, NULL::boolean,
                    NULL::boolean, NULL::bigint[]
                FROM SCHEMA.claim_ended(v_queue, v_now, p_token, v_begins, v_room, CASE WHEN v_begins THEN v_now ELSE SCHEMA.after(v_now, p_horizon) END,
                    p_lease, v_free, v_free_id, v_held) c;
            ELSE
                RETURN QUERY
                UPDATE SCHEMA.job j SET token = p_token, started = v_begins, attempts = j.attempts + v_begins::integer,
                    due = CASE WHEN v_begins THEN v_until ELSE greatest(j.at, v_until) END,
                    run = CASE WHEN v_begins AND j.key IS NOT NULL THEN j.id ELSE j.run END
                WHERE j.ctid = ANY (ARRAY(
                    SELECT j.ctid FROM SCHEMA.job j
                    WHERE j.queue = (SELECT q.id FROM SCHEMA.queue q WHERE q.id = v_queue AND NOT q.paused AND NOT q.limited)
                        AND j.token IS NULL AND j.due <= CASE WHEN v_begins THEN v_now ELSE SCHEMA.after(v_now, p_horizon) END
                        AND (j.due, j.id) >= (v_free, v_free_id)
                    ORDER BY j.due, j.id LIMIT v_room FOR UPDATE SKIP LOCKED
                ))
                RETURNING j.id, j.at, j.started, j.attempts, j.key, j.payload, j.schedule, j.urgent, j.kind, j.options,
                    j.failures, j.cancelled, NULL::integer[], NULL::integer[], NULL::bigint, NULL::bigint,
                    NULL::boolean, NULL::boolean, NULL::bigint[];
            END IF;
            GET DIAGNOSTICS v_more = ROW_COUNT;
            IF v_begins THEN
                v_begun := v_begun + v_more;
            ELSE
                v_ahead := v_ahead + v_more;
            END IF;
        END LOOP;
        v_short := v_begun < least(p_start, p_max) OR p_start = 0 AND v_ahead < least(p_ahead, p_max);
    END IF;
    IF p_token IS NOT NULL AND (v_limited OR p_listed IS NOT NULL) THEN
        RETURN QUERY
        SELECT j.id, j.at, j.started, j.attempts, j.key, j.payload, j.schedule, j.urgent, j.kind, j.options,
            j.failures, j.cancelled, NULL::integer[], NULL::integer[], NULL::bigint, NULL::bigint, NULL::boolean,
            NULL::boolean, NULL::bigint[]
        FROM SCHEMA.job j WHERE j.ctid = ANY (v_each.o_places);
    END IF;
    IF p_token IS NOT NULL THEN
        IF p_floor IS NULL AND NOT v_limited AND v_ahead = 0 AND v_first_held > v_now THEN
            SELECT j.due INTO o_first_free FROM SCHEMA.job j
            WHERE j.queue = v_queue AND j.token IS NULL AND j.due <= c_never ORDER BY j.due, j.id LIMIT 1;
            o_first_free := coalesce(o_first_free, c_never);
            -- Of leases made since, only those of this turn are known, and they end at the same time. Without any, this
            -- process may sleep until the lease of another one ends, which may have died. A job that is claimed between
            -- these two statements is in one of the results.
            IF v_begun = 0 THEN
                SELECT j.due INTO v_first_held FROM SCHEMA.job j
                WHERE j.queue = v_queue AND j.token IS NOT NULL AND j.due <= c_never ORDER BY j.due, j.id LIMIT 1;
                v_first_held := coalesce(v_first_held, c_never);
            END IF;
            o_first := least(o_first_free, v_first_held,
                CASE WHEN v_begun > 0 THEN SCHEMA.after(v_now, p_lease) END);
        ELSIF p_listed IS NOT NULL THEN
            SELECT l.o_first, l.o_first_free INTO o_first, o_first_free
            FROM SCHEMA.look_listed(v_queue, v_now, p_listed, v_rooms, v_in_order) l;
        ELSE
            SELECT * INTO v_floor
            FROM SCHEMA.firsts(v_queue, v_free, v_free_id, v_urgent, v_urgent_id, v_held) f;
            o_first := least(v_floor.o_free, v_floor.o_held);
            o_first_free := v_floor.o_free;
        END IF;
        IF p_listed IS NOT NULL THEN
            -- With a floor, the order of all jobs is not read until the next seek.
            IF v_in_order THEN
                o_floor := CASE WHEN SCHEMA.entries_read() - v_read > 2 * c_few + v_begun + v_ahead
                    THEN ARRAY[c_start, 0, c_start, 0, c_start, v_now] END;
            END IF;
        ELSIF p_floor IS NULL THEN
            IF SCHEMA.entries_read() - v_read > 2 * c_few + v_begun + v_ahead THEN
                o_floor := ARRAY[c_start, 0, c_start, 0, c_start, c_start];
            END IF;
        ELSIF o_floor IS NOT NULL THEN
            -- Only jobs pushed from now on can be below it. If this process is not notified of such a job, its
            -- next seek finds it.
            v_more := v_now - c_slack;
            o_floor := ARRAY[
                least(v_floor.o_free, v_more), CASE WHEN v_floor.o_free <= v_more THEN v_floor.o_free_id ELSE 0 END,
                least(v_floor.o_urgent, v_more), CASE WHEN v_floor.o_urgent <= v_more THEN v_floor.o_urgent_id ELSE 0 END,
                least(v_floor.o_held, SCHEMA.after(v_now, p_lease)), v_sought];
            o_first := least(o_first, v_sought + c_seek);
        END IF;
        IF v_limited THEN
            o_first := least(o_first, SCHEMA.next_token(v_queue, v_now, p_listed, v_rooms),
                CASE WHEN v_missed THEN v_now + c_again END);
        END IF;
        o_raised := false;
        IF o_first > v_now THEN
            -- The caller may wait until then, or until the horizon before it.
            UPDATE SCHEMA.queue q SET head = SCHEMA.after(SCHEMA.after(o_first, p_horizon), c_step)
            WHERE q.id = v_queue AND q.head < SCHEMA.after(o_first, p_horizon);
            -- If another process has raised it since this turn began, a push may have read the former head.
            o_raised := FOUND OR v_head < SCHEMA.after(o_first, p_horizon);
        ELSIF v_short AND NOT v_paused THEN
            -- There is such a job, but it is locked. With "now" as the result, the caller would retry
            -- continuously until that transaction ends.
            o_first := v_now + c_again;
        END IF;
        IF v_more_waits THEN
            o_first := v_now;
        END IF;
    END IF;
    o_id := NULL;
    o_at := v_now;
    o_started := v_paused;
    o_done := v_done;
    o_early := v_early;
    RETURN NEXT;
END
$$;

-- Called after a response was lost: returns the jobs that this claim holds, all of whose leases end within
-- `p_lease`.
CREATE OR REPLACE FUNCTION SCHEMA.held_by(p_queue text, p_token uuid, p_lease bigint)
RETURNS TABLE (
    o_id bigint, o_at bigint, o_started boolean, o_attempts integer, o_key bytea, o_payload bytea,
    o_schedule text, o_urgent boolean, o_kind text, o_options text, o_failures text, o_cancelled boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    v_end bigint := SCHEMA.after(SCHEMA.clock(), p_lease);
BEGIN
    RETURN QUERY
    SELECT j.id, j.at, j.started, j.attempts, j.key, j.payload, j.schedule, j.urgent, j.kind, j.options,
        j.failures, j.cancelled
    FROM SCHEMA.job j
    WHERE j.queue = (SELECT q.id FROM SCHEMA.queue q WHERE q.name = p_queue)
        AND j.due <= v_end AND j.token = p_token
    ORDER BY j.due, j.id;
END
$$;
