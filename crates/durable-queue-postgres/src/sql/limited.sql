-- Claims of limited queues: one by one. All functions are called with the lock of the queue's limits, see
-- `limits.sql`.

-- Locks and returns the next job that is due by `p_last`, after two positions: one among urgent or free jobs,
-- and one among those with expired leases. Skips jobs that other transactions have locked.
CREATE OR REPLACE FUNCTION SCHEMA.next_due(
    p_queue bigint, p_now bigint, p_urgent boolean, p_last bigint, p_from bigint, p_from_id bigint, p_held bigint,
    p_held_id bigint
) RETURNS TABLE (id bigint, due bigint, at bigint, kind text, token uuid, place bigint, seat bigint, job_group text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF p_urgent THEN
        RETURN QUERY
        SELECT j.id, j.due, j.at, j.kind, j.token, j.place, j.seat, j.job_group FROM SCHEMA.job j
        WHERE j.queue = (SELECT q.id FROM SCHEMA.queue q WHERE q.id = p_queue AND NOT q.paused)
            AND j.urgent AND j.due <= p_now AND (j.due, j.id) > (p_from, p_from_id)
        ORDER BY j.due, j.id LIMIT 1 FOR UPDATE SKIP LOCKED;
    ELSE
        RETURN QUERY
        SELECT c.* FROM SCHEMA.queue q, LATERAL (
            SELECT * FROM (
                SELECT j.id, j.due, j.at, j.kind, j.token, j.place, j.seat, j.job_group FROM SCHEMA.job j
                WHERE j.queue = q.id AND j.token IS NULL AND j.due <= p_last
                    AND (j.due, j.id) > (p_from, p_from_id)
                ORDER BY j.due, j.id LIMIT 1 FOR UPDATE SKIP LOCKED
            ) free
            UNION ALL
            SELECT * FROM (
                SELECT j.id, j.due, j.at, j.kind, j.token, j.place, j.seat, j.job_group FROM SCHEMA.job j
                WHERE j.queue = q.id AND j.token IS NOT NULL AND j.due <= p_now
                    AND (j.due, j.id) > (p_held, p_held_id)
                ORDER BY j.due, j.id LIMIT 1 FOR UPDATE SKIP LOCKED
            ) ended
        ) c
        WHERE q.id = p_queue AND NOT q.paused
        ORDER BY c.due, c.id LIMIT 1;
    END IF;
END
$$;

-- Returns those of the called jobs that a claim may take, in its order. They are locked by this transaction.
CREATE OR REPLACE FUNCTION SCHEMA.in_order(p_queue bigint, p_now bigint, p_urgent boolean, p_end bigint, p_ids bigint[])
RETURNS bigint[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT j.id FROM SCHEMA.job j
        WHERE j.id = ANY (p_ids) AND (j.due <= p_end) IS TRUE
            AND EXISTS (SELECT FROM SCHEMA.queue q WHERE q.id = p_queue AND NOT q.paused)
        ORDER BY NOT (p_urgent AND j.urgent AND (j.due <= p_now) IS TRUE), j.due, j.id
    );
END
$$;

-- Returns the limits of a queue's kinds.
CREATE OR REPLACE FUNCTION SCHEMA.read_limits(p_queue bigint, p_now bigint) RETURNS SCHEMA.limiter
LANGUAGE plpgsql AS $$
DECLARE
    v_limits SCHEMA.limiter;
BEGIN
    SELECT array_agg(l.id), array_agg(l.kind), array_agg(l.most), array_agg(l.pause), array_agg(l.slack),
        array_agg(l.filled), array_agg(p.held), array_agg(p.dead)
    INTO v_limits
    FROM SCHEMA.kind_limit l, LATERAL (
        SELECT count(*) AS held, count(*) FILTER (WHERE j.due <= p_now) AS dead
        FROM SCHEMA.job j WHERE j.place = l.id AND j.token IS NOT NULL AND l.most IS NOT NULL
    ) p
    WHERE l.queue = p_queue;
    RETURN v_limits;
END
$$;

-- Takes a place and a token of the limit with the number `p_limit` for a job that may start at `p_time`, if there are any. If it
-- needs the places of expired leases, fences off their holders. `o_is_blocked`: another transaction has locked an expired lease,
-- which counts as live.
CREATE OR REPLACE FUNCTION SCHEMA.take_place(
    INOUT p_limits SCHEMA.limiter, p_now bigint, p_time bigint, p_job bigint, p_limit integer, OUT o_has_room boolean,
    OUT o_is_blocked boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    v_filled bigint := greatest(p_limits.filled[p_limit], p_time);
    v_over bigint := p_limits.held[p_limit] + 1 - p_limits.mosts[p_limit];
    v_ended bigint[] := '{}';
BEGIN
    o_is_blocked := false;
    o_has_room := (v_filled - p_limits.slacks[p_limit] <= p_time) IS NOT FALSE;
    IF o_has_room AND v_over > 0 THEN
        -- `IS TRUE`: not by the index of all leases.
        IF p_limits.dead[p_limit] >= v_over THEN
            v_ended := ARRAY(
                SELECT j.id FROM SCHEMA.job j
                WHERE j.place = p_limits.ids[p_limit] AND j.token IS NOT NULL AND (j.due <= p_now) IS TRUE AND j.id <> p_job
                ORDER BY j.due, j.id LIMIT v_over FOR UPDATE SKIP LOCKED
            );
            o_is_blocked := cardinality(v_ended) < v_over;
        END IF;
        o_has_room := cardinality(v_ended) = v_over;
        IF o_has_room THEN
            UPDATE SCHEMA.job j SET token = NULL, started = false, place = NULL, seat = SCHEMA.seat_of_free(j.seat)
            WHERE j.id = ANY (v_ended);
            p_limits.held[p_limit] := p_limits.held[p_limit] - v_over;
            p_limits.dead[p_limit] := p_limits.dead[p_limit] - v_over;
        END IF;
    END IF;
    IF o_has_room THEN
        p_limits.held[p_limit] := p_limits.held[p_limit] + 1;
        p_limits.filled[p_limit] := coalesce(SCHEMA.after(v_filled, p_limits.pauses[p_limit]), p_limits.filled[p_limit]);
    END IF;
END
$$;

-- Returns the seat of a job that a claim takes, or parks for its kind.
CREATE OR REPLACE FUNCTION SCHEMA.seat_after(p_rule SCHEMA.queue, p_seat bigint, p_group text, p_has_room boolean)
RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE
        WHEN p_group IS NULL THEN 0
        WHEN p_rule.group_most > 0 AND (p_rule.group_mode = 0 OR p_rule.group_mode = 1 AND p_has_room)
            THEN p_rule.group_rule
        WHEN p_rule.group_most > 0 OR NOT p_has_room THEN 9223372036854775807
        ELSE p_seat
    END;
END
$$;

-- Claims up to `p_max` jobs in the order of `turn`. `p_floor` is its floor. A job whose group has no free seat
-- waits, and one whose kind has no room is parked. Such jobs, and those locked by another transaction, make
-- room for later ones. In a fair group, and if a job is parked, the next one of its group is called: the claim
-- takes these jobs when it has looked at all others, until it calls no more of them.
--
-- Returns where the jobs are, how many were started and claimed ahead, and the room that is left. `o_short`: fewer than asked
-- for. `o_back`: the earliest time of a job that it has called. `o_missed`: a seat or a place remains free because another
-- transaction has locked the next job. `o_calls`: other processes may take jobs that it has called. `p_listed`, `p_rooms`: see
-- `turn`. The next jobs of a list are found without locks, and the floor does not apply.
CREATE OR REPLACE FUNCTION SCHEMA.claim_limited(
    p_queue bigint, p_now bigint, p_token uuid, p_urgent boolean, p_max bigint, p_start bigint, p_ahead bigint,
    p_horizon bigint, p_lease bigint, p_floor bigint[], p_listed text[], INOUT p_rooms bigint[],
    OUT o_places tid[], OUT o_begun bigint, OUT o_ahead bigint, OUT o_short boolean, OUT o_back bigint,
    OUT o_missed boolean, OUT o_calls boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    c_never CONSTANT bigint := 9223372036854775807;
    c_park_limit CONSTANT bigint := 1000;
    v_start bigint := least(p_start, p_max);
    v_end bigint := SCHEMA.after(p_now, p_horizon);
    v_parked bigint := 0;
    v_step integer := 0;
    v_is_urgent boolean;
    v_begins boolean;
    v_start_room bigint;
    v_ahead_room bigint;
    v_last bigint;
    -- Position after which the claim continues, among free or urgent jobs, and among jobs with expired
    -- leases.
    v_from bigint;
    v_from_id bigint;
    v_held_from bigint;
    v_held_id bigint;
    v_job record;
    -- The next jobs of a list, or called ones, and how many of them were looked at.
    v_next bigint[];
    v_at integer;
    -- Of a list: the room for each kind, the numbers of the next jobs' kinds, and that of the job's.
    v_numbers bigint[];
    v_number bigint;
    v_rule SCHEMA.queue;
    v_has_seat boolean;
    -- Jobs that were called since all others were looked at.
    v_called bigint[] := '{}';
    v_all_called bigint[] := '{}';
    v_call record;
    v_at_place tid;
    v_limits SCHEMA.limiter;
    v_filled bigint[];
    v_limit integer;
    v_other integer;
    v_place record;
    v_has_room boolean;
    v_is_blocked boolean := false;
BEGIN
    o_places := '{}';
    o_begun := 0;
    o_ahead := 0;
    o_missed := false;
    PERFORM SCHEMA.count_late(p_queue);
    SELECT q.* INTO v_rule FROM SCHEMA.queue q WHERE q.id = p_queue;
    IF v_rule.group_counted IS NOT NULL THEN
        PERFORM SCHEMA.seat_late(v_rule);
    END IF;
    v_limits := SCHEMA.read_limits(p_queue, p_now);
    v_filled := v_limits.filled;
    -- Urgent jobs first, to start or, if there may be more of them, ahead. Then called ones.
    LOOP
        v_step := v_step + 1;
        v_next := '{}';
        v_at := 0;
        IF v_step > 4 THEN
            EXIT WHEN cardinality(v_called) = 0;
            v_next := SCHEMA.in_order(p_queue, p_now, p_urgent, v_end, v_called);
            v_called := '{}';
        ELSE
            v_is_urgent := v_step < 3;
            CONTINUE WHEN v_is_urgent AND NOT p_urgent OR v_step = 2 AND o_begun < v_start;
            v_last := CASE WHEN v_step < 4 THEN p_now ELSE v_end END;
            v_from := CASE WHEN v_is_urgent THEN p_floor[3] ELSE p_floor[1] END;
            v_from_id := CASE WHEN v_is_urgent THEN p_floor[4] ELSE p_floor[2] END - 1;
            v_held_from := p_floor[5];
            v_held_id := 0;
        END IF;
        WHILE v_parked < c_park_limit LOOP
            v_start_room := least(v_start - o_begun, p_max - o_begun - o_ahead);
            v_ahead_room := least(p_ahead - o_ahead, p_max - o_begun - o_ahead);
            EXIT WHEN v_step IN (1, 3) AND v_start_room <= 0 OR v_step IN (2, 4) AND v_ahead_room <= 0
                OR v_start_room <= 0 AND v_ahead_room <= 0;
            IF v_step > 4 THEN
                v_at := v_at + 1;
                EXIT WHEN v_at > cardinality(v_next);
                SELECT j.id, j.due, j.at, j.kind, j.token, j.place, j.seat, j.job_group INTO v_job FROM SCHEMA.job j
                WHERE j.id = v_next[v_at];
            ELSIF p_listed IS NOT NULL THEN
                IF v_at = cardinality(v_next) THEN
                    SELECT n.* INTO v_next, v_numbers, v_from, v_from_id
                    FROM SCHEMA.next_listed(p_queue, p_now, v_is_urgent, v_last, p_listed, p_rooms,
                        CASE WHEN v_step IN (1, 3) THEN v_start_room ELSE v_ahead_room END, v_from, v_from_id) n;
                    EXIT WHEN v_next IS NULL;
                    v_at := 0;
                END IF;
                v_at := v_at + 1;
                v_number := v_numbers[v_at];
                CONTINUE WHEN p_rooms[v_number] <= 0;
                -- `IS TRUE`: not by the index of kinds.
                SELECT j.id, j.due, j.at, j.kind, j.token, j.place, j.seat, j.job_group INTO v_job FROM SCHEMA.job j
                WHERE j.id = v_next[v_at] AND (j.kind = p_listed[v_number]) IS TRUE
                    AND j.due <= CASE WHEN j.token IS NULL THEN v_last ELSE p_now END
                FOR UPDATE SKIP LOCKED;
                CONTINUE WHEN NOT FOUND;
            ELSE
                SELECT n.* INTO v_job
                FROM SCHEMA.next_due(p_queue, p_now, v_is_urgent, v_last, v_from, v_from_id, v_held_from, v_held_id) n;
                EXIT WHEN NOT FOUND;
                IF (v_job.due, v_job.id) > (v_from, v_from_id) THEN
                    v_from := v_job.due;
                    v_from_id := v_job.id;
                END IF;
                IF (v_job.due, v_job.id) > (v_held_from, v_held_id) THEN
                    v_held_from := v_job.due;
                    v_held_id := v_job.id;
                END IF;
            END IF;
            v_begins := v_job.due <= p_now AND v_start_room > 0;
            v_number := array_position(p_listed, v_job.kind);
            CONTINUE WHEN NOT v_begins AND v_ahead_room <= 0 OR v_job.id = ANY (v_called)
                OR p_listed IS NOT NULL AND coalesce(p_rooms[v_number], 0) <= 0;
            v_has_seat := SCHEMA.has_seat(v_rule, p_now, v_job.id, v_job.seat, v_job.job_group, v_job.token IS NOT NULL,
                greatest(p_now, v_job.at));
            -- Its own lease has expired, and leaves its place in any case.
            v_other := CASE WHEN v_job.token IS NOT NULL THEN array_position(v_limits.ids, v_job.place) END;
            IF v_other IS NOT NULL THEN
                v_limits.held[v_other] := v_limits.held[v_other] - 1;
                v_limits.dead[v_other] := v_limits.dead[v_other] - 1;
            END IF;
            IF NOT v_has_seat THEN
                v_parked := v_parked + 1;
                CONTINUE;
            END IF;
            v_limit := array_position(v_limits.kinds, v_job.kind);
            v_has_room := true;
            IF v_limit IS NOT NULL THEN
                v_place := SCHEMA.take_place(v_limits, p_now, greatest(v_job.at, p_now), v_job.id, v_limit);
                v_limits := v_place.p_limits;
                v_has_room := v_place.o_has_room;
                v_is_blocked := v_is_blocked OR v_place.o_is_blocked;
            END IF;
            v_job.seat := SCHEMA.seat_after(v_rule, v_job.seat, v_job.job_group, v_has_room);
            IF v_has_room THEN
                UPDATE SCHEMA.job j SET token = p_token, started = v_begins, attempts = j.attempts + v_begins::integer,
                    due = CASE WHEN v_begins THEN SCHEMA.after(p_now, p_lease)
                        ELSE greatest(j.at, SCHEMA.after(p_now, p_lease)) END,
                    run = CASE WHEN NOT v_begins THEN j.run WHEN j.key IS NULL THEN 0 ELSE j.id END,
                    place = v_limits.ids[v_limit], seat = v_job.seat
                WHERE j.id = v_job.id
                RETURNING j.ctid INTO v_at_place;
                o_places := o_places || v_at_place;
                o_begun := o_begun + v_begins::integer;
                o_ahead := o_ahead + (NOT v_begins)::integer;
                IF p_listed IS NOT NULL THEN
                    p_rooms[v_number] := p_rooms[v_number] - 1;
                END IF;
            ELSE
                UPDATE SCHEMA.job j SET due = c_never, token = NULL, started = false, place = -v_limits.ids[v_limit],
                    seat = v_job.seat
                WHERE j.id = v_job.id;
                v_parked := v_parked + 1;
            END IF;
            IF v_job.seat = c_never AND v_rule.group_most > 0 THEN
                -- It has left its seat.
                v_call := SCHEMA.call_group(v_rule, p_now, v_job.job_group);
                v_called := v_called || v_call.o_ids;
                v_all_called := v_all_called || v_call.o_ids;
                o_back := least(o_back, v_call.o_back);
                o_missed := o_missed OR v_call.o_missed;
            END IF;
        END LOOP;
    END LOOP;
    IF v_limits.filled <> v_filled THEN
        UPDATE SCHEMA.kind_limit l SET filled = v_limits.filled[array_position(v_limits.ids, l.id)]
        WHERE l.queue = p_queue AND l.filled IS DISTINCT FROM v_limits.filled[array_position(v_limits.ids, l.id)];
    END IF;
    -- Jobs that it has called and cannot take, although other processes may.
    o_calls := p_listed IS NOT NULL AND EXISTS (
        SELECT FROM SCHEMA.job j
        WHERE j.id = ANY (v_all_called) AND j.token IS NULL
            AND coalesce(p_rooms[array_position(p_listed, j.kind)], 0) <= 0
    );
    v_call := SCHEMA.call_parked(p_queue, p_now);
    o_back := least(o_back, v_call.o_back);
    o_missed := o_missed OR v_call.o_missed OR EXISTS (SELECT FROM SCHEMA.group_left l WHERE l.queue = p_queue);
    -- A claim that has parked too many jobs has not seen the later ones. A job that was parked because another transaction
    -- has locked an expired lease is called again at once.
    o_short := v_parked < c_park_limit AND (o_begun < v_start OR p_start = 0 AND o_ahead < least(p_ahead, p_max))
        AND (v_call.o_back IS NULL OR v_is_blocked);
END
$$;
