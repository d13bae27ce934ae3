-- Limits of kinds, for all processes. Requirements 13 to 19 of `durable_queue::store` define the terms.
--
-- A queue is limited while it has limits of kinds or a rule of groups, and until no job waits under a former rule.
-- Concurrent turns of a limited queue decide about places, tokens and seats one after the other: a transaction that
-- claims its jobs, or that calls parked or waiting ones, holds the lock of `lock_limits`. Locks are taken in this
-- order:
-- 1. rows of jobs that a call settles, moves or deletes;
-- 2. the lock of the queue's limits;
-- 3. the row of the queue.
-- With the lock, a transaction does not wait for rows of jobs: it skips those that other transactions have locked, which
-- may wait for this lock. Pushes never take it, because they may be part of long transactions of the application. A
-- merge that makes room in such a transaction only notifies, and the next claim calls the parked jobs. For seats, see
-- `leave_seat`.

CREATE OR REPLACE FUNCTION SCHEMA.lock_limits(p_queue bigint) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtextextended('CHANNEL', p_queue))
$$;

CREATE OR REPLACE FUNCTION SCHEMA.end_limits(p_queue bigint) RETURNS void
LANGUAGE sql AS $$
    UPDATE SCHEMA.queue q SET limited = false
    WHERE q.id = p_queue AND q.limited AND q.group_most = 0 AND q.group_renewed
        AND NOT EXISTS (SELECT FROM SCHEMA.kind_limit l WHERE l.queue = p_queue)
        AND NOT EXISTS (SELECT FROM SCHEMA.group_left l WHERE l.queue = p_queue)
$$;

-- Returns a number that is greater than those of all transactions that have begun to write.
--
-- `pg_snapshot_xmax` is one more than the newest transaction that has *ended*, so older ones may run that it does not
-- cover. A subtransaction that is rolled back is newer than each of them, and has ended. Its error is one of its own, so
-- that a cancel of the statement is not taken for it.
CREATE OR REPLACE FUNCTION SCHEMA.newest_transaction(p_queue bigint) RETURNS xid8
LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        INSERT INTO SCHEMA.group_left (queue, job_group) VALUES (p_queue, '');
        RAISE EXCEPTION USING ERRCODE = 'AN001';
    EXCEPTION WHEN SQLSTATE 'AN001' THEN
        NULL;
    END;
    RETURN pg_snapshot_xmax(pg_current_snapshot());
END
$$;

-- A job that was held or called when its limit was removed keeps the number, which is never used again.
CREATE OR REPLACE FUNCTION SCHEMA.has_no_place(p_place bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT p_place IS NULL OR NOT EXISTS (SELECT FROM SCHEMA.kind_limit l WHERE l.id = p_place)
$$;

-- Gives places to held jobs of a kind that have none. Returns whether all have one: it skips locked jobs. `p_all`: the
-- limit is new, so places under limits of other kinds do not count. Otherwise, a push during the run may have changed
-- the kind of a repeating job, which keeps the place that it has. `IS TRUE`: by the index of all leases, and not by that of
-- kinds, of which all jobs of the kind would be read.
CREATE OR REPLACE FUNCTION SCHEMA.place_held(p_queue bigint, p_limit bigint, p_kind text, p_all boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    c_never CONSTANT bigint := 9223372036854775807;
    v_missed bigint;
BEGIN
    UPDATE SCHEMA.job j SET place = p_limit
    WHERE j.id = ANY (ARRAY(
        SELECT h.id FROM SCHEMA.job h
        WHERE h.queue = p_queue AND h.token IS NOT NULL AND h.due <= c_never AND (h.kind = p_kind) IS TRUE
            AND (p_all AND h.place IS DISTINCT FROM p_limit
                OR SCHEMA.has_no_place(h.place) AND (h.schedule IS NULL OR h.most = c_never))
        FOR UPDATE SKIP LOCKED
    ));
    SELECT count(*) INTO v_missed FROM SCHEMA.job h
    WHERE h.queue = p_queue AND h.token IS NOT NULL AND h.due <= c_never AND (h.kind = p_kind) IS TRUE
        AND SCHEMA.has_no_place(h.place) AND (h.schedule IS NULL OR h.most = c_never);
    RETURN v_missed = 0;
END
$$;

-- Counts jobs that were claimed by turns which began before the limit was set, and committed later: looks for them
-- until all transactions of that time have ended. The first claim after the limit notes how long that is.
CREATE OR REPLACE FUNCTION SCHEMA.count_late(p_queue bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_limit record;
    v_oldest xid8;
    v_all boolean;
BEGIN
    FOR v_limit IN
        SELECT l.id, l.kind, l.counted FROM SCHEMA.kind_limit l WHERE l.queue = p_queue AND l.counted IS NOT NULL
    LOOP
        -- Before the search, which therefore sees all that these transactions have done.
        v_oldest := pg_snapshot_xmin(pg_current_snapshot());
        v_all := SCHEMA.place_held(p_queue, v_limit.id, v_limit.kind, false);
        IF v_limit.counted = '18446744073709551615' THEN
            UPDATE SCHEMA.kind_limit l SET counted = SCHEMA.newest_transaction(p_queue) WHERE l.id = v_limit.id;
        ELSIF v_all AND v_oldest > v_limit.counted THEN
            UPDATE SCHEMA.kind_limit l SET counted = NULL WHERE l.id = v_limit.id;
        END IF;
    END LOOP;
END
$$;

-- Calls as many parked jobs as there is room for. Called with the lock of the queue's limits. Returns the earliest due
-- time of a called job, and whether there is room for a job that another transaction has locked. Calls all jobs of a
-- removed limit, and deletes it then.
CREATE OR REPLACE FUNCTION SCHEMA.call_parked(p_queue bigint, p_now bigint, OUT o_back bigint, OUT o_missed boolean)
LANGUAGE plpgsql AS $$
DECLARE
    c_park_limit CONSTANT bigint := 1000;
    v_limit record;
    v_room bigint;
    v_called bigint;
    v_removed boolean := false;
BEGIN
    o_missed := false;
    FOR v_limit IN
        SELECT l.id, l.most, l.pause, l.most IS NULL AND l.jobs IS NULL AS removed,
            greatest(l.filled, p_now) - l.slack AS next
        FROM SCHEMA.kind_limit l WHERE l.queue = p_queue
    LOOP
        v_removed := v_removed OR v_limit.removed;
        CONTINUE WHEN NOT EXISTS (SELECT FROM SCHEMA.job j WHERE j.place = -v_limit.id);
        v_room := NULL;
        IF NOT v_limit.removed THEN
            -- Called jobs have reserved their places and tokens.
            SELECT least(c_park_limit, least(
                v_limit.most - count(*) FILTER (WHERE j.token IS NOT NULL AND j.due > p_now),
                CASE WHEN v_limit.next > p_now THEN 0 ELSE (p_now - v_limit.next) / v_limit.pause + 1 END
            ) - count(*) FILTER (WHERE j.token IS NULL))
            INTO v_room
            FROM SCHEMA.job j WHERE j.place = v_limit.id;
            CONTINUE WHEN v_room <= 0;
        END IF;
        WITH called AS (
            UPDATE SCHEMA.job j SET due = j.at, place = CASE WHEN NOT v_limit.removed THEN -j.place END,
                seat = SCHEMA.seat_of_free(j.seat)
            WHERE j.id = ANY (ARRAY(
                SELECT p.id FROM SCHEMA.job p WHERE p.place = -v_limit.id
                ORDER BY p.urgent DESC, p.at, p.id LIMIT v_room FOR UPDATE SKIP LOCKED
            ))
            RETURNING j.due
        )
        SELECT least(o_back, min(c.due)), count(*) INTO o_back, v_called FROM called c;
        o_missed := o_missed OR (v_called < v_room) IS NOT FALSE
            AND EXISTS (SELECT FROM SCHEMA.job j WHERE j.place = -v_limit.id);
    END LOOP;
    IF v_removed AND NOT o_missed THEN
        DELETE FROM SCHEMA.kind_limit l WHERE l.queue = p_queue AND l.most IS NULL AND l.jobs IS NULL;
        PERFORM SCHEMA.end_limits(p_queue);
    END IF;
END
$$;

-- Like `call_parked`, for calls that may have made room and whose transaction ends with them. Notifies all processes
-- if there is a job to claim.
CREATE OR REPLACE FUNCTION SCHEMA.call_after(p_queue bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_called record;
BEGIN
    IF NOT EXISTS (SELECT FROM SCHEMA.kind_limit l WHERE l.queue = p_queue) THEN
        RETURN;
    END IF;
    PERFORM SCHEMA.lock_limits(p_queue);
    SELECT * INTO v_called FROM SCHEMA.call_parked(p_queue, SCHEMA.clock()) c;
    IF v_called.o_back IS NOT NULL OR v_called.o_missed THEN
        PERFORM SCHEMA.notify(p_queue, (-9223372036854775808)::bigint, '');
    END IF;
END
$$;

-- Returns the next token of a rate whose kind has parked jobs, if it comes after `p_now`. Also if they lack a place as well:
-- a settle that makes room is not announced while there is no token. With a list: of the kinds that have room. The subquery is
-- evaluated per limit: as a join it could read all parked jobs.
CREATE OR REPLACE FUNCTION SCHEMA.next_token(p_queue bigint, p_now bigint, p_listed text[], p_rooms bigint[])
RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT min(n.next) FROM (
            SELECT l.id, greatest(l.filled, p_now) - l.slack AS next FROM SCHEMA.kind_limit l
            WHERE l.queue = p_queue AND l.jobs IS NOT NULL
                AND (p_listed IS NULL OR p_rooms[array_position(p_listed, l.kind)] > 0)
        ) n
        WHERE n.next > p_now
            AND (SELECT j.id FROM SCHEMA.job j WHERE j.place = -n.id LIMIT 1) IS NOT NULL
    );
END
$$;

-- Sets the maximum or the rate of a kind. `p_most`: the maximum, or the number of jobs per `p_per`; null removes it. A
-- changed rate has no more tokens than before, and no debt.
CREATE OR REPLACE FUNCTION SCHEMA.limit_kind(
    p_queue text, p_kind text, p_is_rate boolean, p_most bigint, p_per bigint
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    c_never CONSTANT bigint := 9223372036854775807;
    v_queue bigint := SCHEMA.queue_of(p_queue);
    v_now bigint;
    v_new bigint;
    v_pause bigint;
BEGIN
    PERFORM SCHEMA.lock_limits(v_queue);
    v_now := SCHEMA.clock();
    IF p_most IS NOT NULL THEN
        INSERT INTO SCHEMA.kind_limit AS l (queue, kind) VALUES (v_queue, p_kind)
        ON CONFLICT (queue, kind) DO NOTHING RETURNING l.id INTO v_new;
    END IF;
    IF p_is_rate THEN
        v_pause := p_per / p_most + (p_per % p_most > 0)::integer;
        UPDATE SCHEMA.kind_limit l SET jobs = p_most, per = p_per, pause = v_pause,
            slack = least(v_pause::numeric * (p_most - 1), c_never)::bigint,
            filled = CASE WHEN p_most IS NULL OR (l.jobs, l.per) IS NOT DISTINCT FROM (p_most, p_per) THEN l.filled
                ELSE least(l.filled, SCHEMA.after(v_now, least(v_pause::numeric * p_most, c_never)::bigint)) END
        WHERE l.queue = v_queue AND l.kind = p_kind;
    ELSE
        UPDATE SCHEMA.kind_limit l SET most = p_most WHERE l.queue = v_queue AND l.kind = p_kind;
    END IF;
    IF v_new IS NOT NULL THEN
        PERFORM SCHEMA.place_held(v_queue, v_new, p_kind, true);
        UPDATE SCHEMA.queue q SET limited = true WHERE q.id = v_queue AND NOT q.limited;
    END IF;
    PERFORM SCHEMA.call_parked(v_queue, v_now);
END
$$;

-- The rule of groups comes first, without a kind: its sort, and the seats of each group.
CREATE OR REPLACE FUNCTION SCHEMA.limits(p_queue text)
RETURNS TABLE (o_kind text, o_most bigint, o_jobs bigint, o_per bigint)
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    SELECT NULL::text, q.group_mode::bigint, q.group_most, NULL::bigint
    FROM SCHEMA.queue q WHERE q.name = p_queue AND q.group_most > 0;
    RETURN QUERY
    SELECT l.kind, l.most, l.jobs, l.per FROM SCHEMA.kind_limit l
    WHERE l.queue = (SELECT q.id FROM SCHEMA.queue q WHERE q.name = p_queue)
        AND (l.most IS NOT NULL OR l.jobs IS NOT NULL)
    ORDER BY l.kind;
END
$$;
