-- Groups: the rule of a queue, and the seats of its groups. Requirements 16 to 23 of `durable_queue::store`
-- define the terms.
--
-- All functions but `leave_seat` are called with the lock of the queue's limits, so that no other transaction
-- gives seats at the same time: see `limits.sql`. Jobs wait only while their group has no free seat. So whoever
-- makes a seat free has to call the next job: a settle does so when it has the lock, and all others leave that
-- to the next claim, by `group_left`.
--
-- Queries by a group use the index `job_seat`, and no other suits them. Rows that are found otherwise are
-- compared by `IS TRUE`, from which the condition of that index does not follow.
--
-- There is no floor, as `turn` has for all jobs: while an open transaction may still see the former rows of a group's
-- jobs, the calls of that group skip those.

-- Whether it is the number of a rule: neither fresh, waiting nor apart.
CREATE OR REPLACE FUNCTION SCHEMA.is_seat(p_seat bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_seat > 0 AND p_seat < 9223372036854775807
$$;

-- The seat of a job that is no longer held or parked: if it was apart, it is fresh.
CREATE OR REPLACE FUNCTION SCHEMA.seat_of_free(p_seat bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(nullif(p_seat, 9223372036854775807), 0)
$$;

-- A push, a cancel or a reset has taken a job from its seat. Notifies all processes, of which one calls the
-- next job. May be part of a long transaction of the application, so it takes no lock.
CREATE OR REPLACE FUNCTION SCHEMA.leave_seat(p_queue bigint, p_seat bigint, p_group text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF SCHEMA.is_seat(p_seat) THEN
        INSERT INTO SCHEMA.group_left (queue, job_group)
        SELECT q.id, p_group FROM SCHEMA.queue q WHERE q.id = p_queue AND q.group_rule = p_seat;
        IF FOUND THEN
            PERFORM SCHEMA.notify(p_queue, (-9223372036854775808)::bigint, '');
        END IF;
    END IF;
END
$$;

-- Returns how many seats of a group are free. Without a rule, there are none.
CREATE OR REPLACE FUNCTION SCHEMA.free_seats(p_rule SCHEMA.queue, p_group text) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN p_rule.group_most - (
        SELECT count(*) FROM (
            SELECT FROM SCHEMA.job j
            WHERE j.queue = p_rule.id AND j.seat = p_rule.group_rule AND j.job_group = p_group
            LIMIT p_rule.group_most
        ) s
    );
END
$$;

-- Returns a group's first fresh job that is due by a time, without a lock. Looks for urgent jobs and for others
-- separately, each in the order of the index, so that it reads no job that is due later.
CREATE OR REPLACE FUNCTION SCHEMA.first_fresh(p_queue bigint, p_group text, p_due bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_first bigint;
    v_urgent boolean;
BEGIN
    FOREACH v_urgent IN ARRAY ARRAY[true, false] LOOP
        SELECT j.id INTO v_first FROM SCHEMA.job j
        WHERE j.queue = p_queue AND j.seat = 0 AND j.job_group = p_group AND j.urgent = v_urgent AND j.at <= p_due
            AND j.token IS NULL
        ORDER BY j.at, j.id LIMIT 1;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN v_first;
END
$$;

-- Gives a seat to a fresh job that `first_fresh` has returned. Returns false if another transaction has locked
-- or changed it.
CREATE OR REPLACE FUNCTION SCHEMA.seat_fresh(
    p_rule SCHEMA.queue, p_now bigint, p_job bigint, p_group text, p_due bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE SCHEMA.job j SET seat = p_rule.group_rule,
        due = CASE WHEN p_rule.group_mode = 2 THEN greatest(j.at, p_now) ELSE j.due END
    WHERE j.id = ANY (ARRAY(
        SELECT f.id FROM SCHEMA.job f
        WHERE f.id = p_job AND f.seat = 0 AND (f.job_group = p_group) IS TRUE AND f.at <= p_due AND f.token IS NULL
        FOR UPDATE SKIP LOCKED
    ));
    RETURN FOUND;
END
$$;

-- Returns the first job of a group that waits, without a lock.
CREATE OR REPLACE FUNCTION SCHEMA.first_waiting(p_rule SCHEMA.queue, p_group text) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT j.id FROM SCHEMA.job j
        WHERE j.queue = p_rule.id AND j.seat = -p_rule.group_rule AND j.job_group = p_group
        ORDER BY j.urgent DESC, j.at, j.id LIMIT 1
    );
END
$$;

-- Decides whether a claim may take a job that it has locked. If not, the job waits. If so, the caller gives it
-- its seat. In an ordered group, the job waits behind those that wait, for which a call has missed the seat, and if
-- another transaction has locked the job that goes first: then the next claim tries again. `p_due`: in an ordered group,
-- jobs that are due later do not go before this one.
CREATE OR REPLACE FUNCTION SCHEMA.has_seat(
    p_rule SCHEMA.queue, p_now bigint, p_job bigint, p_seat bigint, p_group text, p_is_held boolean, p_due bigint
) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_first bigint := p_job;
BEGIN
    IF p_rule.group_most = 0 OR p_group IS NULL OR p_seat = p_rule.group_rule
        OR p_rule.group_mode = 2 AND p_is_held
    THEN
        RETURN true;
    END IF;
    IF SCHEMA.free_seats(p_rule, p_group) > 0 THEN
        IF p_rule.group_mode = 0 THEN
            v_first := CASE WHEN SCHEMA.first_waiting(p_rule, p_group) IS NULL
                THEN coalesce(SCHEMA.first_fresh(p_rule.id, p_group, p_due), p_job) END;
        END IF;
        IF v_first = p_job THEN
            RETURN true;
        END IF;
        IF v_first IS NOT NULL AND NOT SCHEMA.seat_fresh(p_rule, p_now, v_first, p_group, p_due) THEN
            INSERT INTO SCHEMA.group_left (queue, job_group) VALUES (p_rule.id, p_group);
        END IF;
    END IF;
    UPDATE SCHEMA.job j SET due = 9223372036854775807, token = NULL, started = false, place = NULL,
        seat = -p_rule.group_rule
    WHERE j.id = p_job;
    RETURN false;
END
$$;

-- Gives the free seats of a group to the jobs that wait, and in a fair group, if none waits, to the first fresh
-- job that is due; in an ordered group, to the first of both. Returns the earliest time at which one of them can be claimed, and those that can be claimed
-- at another time than before.
--
-- Does not wait for jobs that other transactions have locked: in an ordered group none is called instead,
-- otherwise the next one. If a seat remains free because of that, the next claim tries again.
CREATE OR REPLACE FUNCTION SCHEMA.call_group(
    p_rule SCHEMA.queue, p_now bigint, p_group text, OUT o_back bigint, OUT o_ids bigint[], OUT o_missed boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    v_free bigint := SCHEMA.free_seats(p_rule, p_group);
    v_first bigint;
    v_both bigint[];
    v_at bigint;
BEGIN
    o_ids := '{}';
    o_missed := false;
    IF v_free <= 0 THEN
        RETURN;
    END IF;
    IF p_rule.group_mode = 0 THEN
        -- A fresh job may come before those that wait.
        v_both := ARRAY[SCHEMA.first_waiting(p_rule, p_group), SCHEMA.first_fresh(p_rule.id, p_group, p_now)];
        SELECT j.id INTO v_first FROM SCHEMA.job j WHERE j.id = ANY (v_both)
        ORDER BY j.urgent DESC, j.at, j.id LIMIT 1;
        o_ids := ARRAY(
            SELECT j.id FROM SCHEMA.job j
            WHERE j.id = v_first AND (j.seat IN (0, -p_rule.group_rule)) IS TRUE AND (j.job_group = p_group) IS TRUE
                AND j.token IS NULL
            FOR UPDATE SKIP LOCKED
        );
    ELSE
        o_ids := ARRAY(
            SELECT j.id FROM SCHEMA.job j
            WHERE j.queue = p_rule.id AND j.seat = -p_rule.group_rule AND j.job_group = p_group
            ORDER BY j.urgent DESC, j.at, j.id LIMIT v_free FOR UPDATE SKIP LOCKED
        );
    END IF;
    WITH called AS (
        UPDATE SCHEMA.job j SET seat = p_rule.group_rule,
            due = CASE WHEN p_rule.group_mode = 2 THEN greatest(j.at, p_now) ELSE j.at END
        WHERE j.id = ANY (o_ids)
        RETURNING j.due
    )
    SELECT min(c.due) INTO o_back FROM called c;
    IF o_back IS NULL AND p_rule.group_mode = 2 THEN
        -- If it is locked, claims find another one.
        v_first := SCHEMA.first_fresh(p_rule.id, p_group, p_now);
        IF SCHEMA.seat_fresh(p_rule, p_now, v_first, p_group, p_now) THEN
            SELECT j.at INTO v_at FROM SCHEMA.job j WHERE j.id = v_first;
            o_back := p_now;
            o_ids := CASE WHEN v_at < p_now THEN ARRAY[v_first] ELSE '{}' END;
            RETURN;
        END IF;
    END IF;
    o_missed := cardinality(o_ids) < v_free
        AND (SCHEMA.first_waiting(p_rule, p_group) IS NOT NULL OR p_rule.group_mode = 0 AND v_first IS NOT NULL);
    IF o_missed THEN
        INSERT INTO SCHEMA.group_left (queue, job_group) VALUES (p_rule.id, p_group);
    END IF;
END
$$;

-- Calls the waiting jobs of several groups. Returns the earliest time at which one of them can be claimed, and
-- whether a job that another transaction has locked could be called.
CREATE OR REPLACE FUNCTION SCHEMA.call_groups(
    p_rule SCHEMA.queue, p_now bigint, p_groups text[], OUT o_back bigint, OUT o_missed boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    v_group text;
    v_called record;
BEGIN
    o_missed := false;
    FOR v_group IN SELECT DISTINCT g.name FROM unnest(p_groups) AS g(name) LOOP
        v_called := SCHEMA.call_group(p_rule, p_now, v_group);
        o_back := least(o_back, v_called.o_back);
        o_missed := o_missed OR v_called.o_missed;
    END LOOP;
END
$$;

-- After settles: calls the waiting jobs of those groups of which jobs have left seats of the current rule, and
-- as many parked jobs as there is room for. Returns the same as `call_groups`.
CREATE OR REPLACE FUNCTION SCHEMA.call_waiting(
    p_queue bigint, p_now bigint, p_groups text[], p_seats bigint[], OUT o_back bigint, OUT o_missed boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    v_rule SCHEMA.queue;
    v_called record;
BEGIN
    o_missed := false;
    IF cardinality(p_groups) > 0 THEN
        SELECT q.* INTO v_rule FROM SCHEMA.queue q WHERE q.id = p_queue;
        SELECT c.* INTO o_back, o_missed FROM SCHEMA.call_groups(v_rule, p_now, ARRAY(
            SELECT g.name FROM unnest(p_groups, p_seats) AS g(name, seat) WHERE g.seat = v_rule.group_rule
        )) c;
    END IF;
    v_called := SCHEMA.call_parked(p_queue, p_now);
    o_back := least(o_back, v_called.o_back);
    o_missed := o_missed OR v_called.o_missed;
END
$$;

-- Makes jobs fresh that wait, or have a seat, under a former rule. Returns the same as `call_groups`, and
-- whether there may be more of them. A held job is apart.
CREATE OR REPLACE FUNCTION SCHEMA.free_former(
    p_rule SCHEMA.queue, p_most bigint, OUT o_back bigint, OUT o_missed boolean, OUT o_more boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    v_freed bigint;
BEGIN
    WITH freed AS (
        UPDATE SCHEMA.job j SET due = CASE WHEN j.seat < 0 THEN j.at ELSE j.due END,
            seat = CASE WHEN j.token IS NULL AND (j.place < 0) IS NOT TRUE THEN 0 ELSE 9223372036854775807 END
        WHERE j.id = ANY (ARRAY(
            SELECT * FROM (
                SELECT w.id FROM SCHEMA.job w
                WHERE w.queue = p_rule.id AND w.seat > -p_rule.group_rule AND w.seat < 0 AND w.job_group IS NOT NULL
                LIMIT p_most FOR UPDATE SKIP LOCKED
            ) waiting
            UNION ALL
            SELECT * FROM (
                SELECT s.id FROM SCHEMA.job s
                WHERE s.queue = p_rule.id AND s.seat > 0 AND s.seat < p_rule.group_rule AND s.job_group IS NOT NULL
                LIMIT p_most FOR UPDATE SKIP LOCKED
            ) seated
            LIMIT p_most
        ))
        RETURNING j.due
    )
    SELECT min(f.due), count(*) INTO o_back, v_freed FROM freed f;
    o_more := v_freed >= p_most;
    o_missed := NOT o_more AND (
        EXISTS (
            SELECT FROM SCHEMA.job w
            WHERE w.queue = p_rule.id AND w.seat > -p_rule.group_rule AND w.seat < 0 AND w.job_group IS NOT NULL
        ) OR EXISTS (
            SELECT FROM SCHEMA.job s
            WHERE s.queue = p_rule.id AND s.seat > 0 AND s.seat < p_rule.group_rule AND s.job_group IS NOT NULL
        )
    );
    IF NOT o_more AND NOT o_missed THEN
        UPDATE SCHEMA.queue q SET group_renewed = true WHERE q.id = p_rule.id;
    END IF;
END
$$;

-- At the start of a claim: see `free_former`, and gives away the seats that were left otherwise than by settles.
CREATE OR REPLACE FUNCTION SCHEMA.renew_groups(
    p_queue bigint, p_now bigint, OUT o_back bigint, OUT o_missed boolean, OUT o_more boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    c_park_limit CONSTANT bigint := 1000;
    v_rule SCHEMA.queue;
    v_groups text[];
    v_called record;
BEGIN
    o_missed := false;
    o_more := false;
    SELECT q.* INTO v_rule FROM SCHEMA.queue q WHERE q.id = p_queue;
    IF NOT v_rule.group_renewed THEN
        SELECT f.* INTO o_back, o_missed, o_more FROM SCHEMA.free_former(v_rule, c_park_limit) f;
    END IF;
    WITH gone AS (
        DELETE FROM SCHEMA.group_left l WHERE l.ctid = ANY (ARRAY(
            SELECT g.ctid FROM SCHEMA.group_left g WHERE g.queue = p_queue LIMIT c_park_limit FOR UPDATE SKIP LOCKED
        ))
        RETURNING l.job_group
    )
    SELECT array_agg(g.job_group) INTO v_groups FROM gone g;
    IF v_groups IS NOT NULL THEN
        o_more := o_more OR cardinality(v_groups) >= c_park_limit;
        v_called := SCHEMA.call_groups(v_rule, p_now, v_groups);
        o_back := least(o_back, v_called.o_back);
        o_missed := o_missed OR v_called.o_missed;
    END IF;
    IF v_rule.group_most = 0 AND (v_groups IS NOT NULL OR NOT v_rule.group_renewed) THEN
        PERFORM SCHEMA.end_limits(p_queue);
    END IF;
END
$$;

-- Gives seats to held jobs, or in a fair queue, makes them apart. Returns whether none is left: it skips locked
-- jobs. `IS TRUE`: by the index of all leases.
CREATE OR REPLACE FUNCTION SCHEMA.seat_held(p_rule SCHEMA.queue) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    c_never CONSTANT bigint := 9223372036854775807;
    v_seat bigint := CASE WHEN p_rule.group_mode = 2 THEN c_never ELSE p_rule.group_rule END;
BEGIN
    UPDATE SCHEMA.job j SET seat = v_seat
    WHERE j.id = ANY (ARRAY(
        SELECT h.id FROM SCHEMA.job h
        WHERE h.queue = p_rule.id AND h.token IS NOT NULL AND h.due <= c_never AND (h.job_group >= '') IS TRUE
            AND (h.seat <> v_seat) IS TRUE
        FOR UPDATE SKIP LOCKED
    ));
    RETURN NOT EXISTS (
        SELECT FROM SCHEMA.job h
        WHERE h.queue = p_rule.id AND h.token IS NOT NULL AND h.due <= c_never AND (h.job_group >= '') IS TRUE
            AND (h.seat <> v_seat) IS TRUE
    );
END
$$;

-- Like `count_late`, for jobs of groups.
CREATE OR REPLACE FUNCTION SCHEMA.seat_late(p_rule SCHEMA.queue) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    -- Before the search, which therefore sees all that these transactions have done.
    v_oldest xid8 := pg_snapshot_xmin(pg_current_snapshot());
    v_all boolean := SCHEMA.seat_held(p_rule);
BEGIN
    IF p_rule.group_counted = '18446744073709551615' THEN
        UPDATE SCHEMA.queue q SET group_counted = SCHEMA.newest_transaction(p_rule.id) WHERE q.id = p_rule.id;
    ELSIF v_all AND v_oldest > p_rule.group_counted THEN
        UPDATE SCHEMA.queue q SET group_counted = NULL WHERE q.id = p_rule.id;
    END IF;
END
$$;

-- Sets the rule of groups. `p_most`: the seats of each group; zero removes the rule. The next claims make fresh
-- the jobs that wait under the former rule.
CREATE OR REPLACE FUNCTION SCHEMA.limit_groups(p_queue text, p_mode bigint, p_most bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_queue bigint := SCHEMA.queue_of(p_queue);
    v_rule SCHEMA.queue;
BEGIN
    PERFORM SCHEMA.lock_limits(v_queue);
    UPDATE SCHEMA.queue q SET group_most = p_most, group_mode = p_mode, group_rule = q.group_rule + 1,
        group_renewed = false, limited = true,
        group_counted = CASE WHEN p_most > 0 THEN '18446744073709551615'::xid8 END
    WHERE q.id = v_queue AND (q.group_most, q.group_mode) IS DISTINCT FROM (p_most, p_mode)
        AND (q.group_most > 0 OR p_most > 0)
    RETURNING q.* INTO v_rule;
    IF FOUND AND p_most > 0 THEN
        PERFORM SCHEMA.seat_held(v_rule);
    END IF;
END
$$;
