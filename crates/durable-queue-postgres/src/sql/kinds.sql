-- Claims that list kinds, and counts by kind: by the index `job_kind`.
--
-- There is no floor, as `turn` has for all jobs: while an open transaction may still see finished jobs, a claim skips those
-- of the kinds that it lists.

-- Returns the first jobs of each kind from each of the ranges, up to the kind's limit, without locks and after a position. Free
-- jobs are due by `p_free`, and leases end by `p_held`. `o_number`: the kind's number in the list.
--
-- The planner inserts this query into that of the caller, so parameters must not contain queries.
CREATE OR REPLACE FUNCTION SCHEMA.of_kinds(
    p_queue bigint, p_kinds text[], p_limits bigint[], p_ranges bigint[], p_free bigint, p_held bigint, p_from bigint,
    p_from_id bigint
) RETURNS TABLE (o_number bigint, o_range bigint, o_due bigint, o_id bigint)
LANGUAGE sql STABLE AS $$
    SELECT k.number, r.range, j.due, j.id
    FROM unnest(p_kinds, p_limits) WITH ORDINALITY AS k(kind, jobs, number), unnest(p_ranges) AS r(range), LATERAL (
        SELECT j.due, j.id FROM SCHEMA.job j
        WHERE SCHEMA.range_of(j.queue, j.urgent, j.token) = p_queue * 4 + r.range AND j.kind = k.kind
            AND j.due <= CASE WHEN r.range IN (0, 2) THEN p_free ELSE p_held END
            AND (j.due, j.id) > (p_from, p_from_id)
        ORDER BY j.due, j.id LIMIT k.jobs
    ) j
    WHERE k.jobs > 0
$$;

-- Returns the ranges that a claim reads: usually there are neither urgent jobs nor leases that have ended.
CREATE OR REPLACE FUNCTION SCHEMA.ranges(p_queue bigint, p_free bigint, p_held bigint) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_any_held boolean;
    v_any_urgent boolean;
BEGIN
    SELECT EXISTS (SELECT FROM SCHEMA.job j WHERE j.queue = p_queue AND j.token IS NOT NULL AND j.due <= p_held),
        EXISTS (SELECT FROM SCHEMA.job j WHERE j.queue = p_queue AND j.urgent AND j.due <= p_free)
    INTO v_any_held, v_any_urgent;
    RETURN CASE WHEN NOT v_any_urgent AND NOT v_any_held THEN '{0}' WHEN NOT v_any_urgent THEN '{0, 1}'
        WHEN v_any_held THEN '{0, 1, 2, 3}' ELSE '{0, 2}' END;
END
$$;

-- Chooses the next jobs in due order, up to `p_left`. Returns how many are from each range of each kind, how much room they
-- leave, and how many more there could be. If there is room for all jobs, none is read, and there may be fewer than chosen.
--
-- At first reads a few jobs of each kind. Whenever a range is used up that may have more jobs, reads on from there: more jobs of
-- those kinds of which jobs were chosen, and one of the others.
CREATE OR REPLACE FUNCTION SCHEMA.choose(
    p_queue bigint, p_kinds text[], p_ranges bigint[], p_free bigint, p_held bigint, p_left bigint,
    INOUT p_rooms bigint[], OUT o_jobs bigint[], OUT o_left bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    c_never CONSTANT bigint := 9223372036854775807;
    v_from bigint := -9223372036854775808;
    v_from_id bigint := -1;
    v_share bigint := 0;
    v_limits bigint[];
    v_rooms bigint[] := p_rooms;
    -- At first, all kinds count as chosen.
    v_before bigint[] := array_fill(c_never, ARRAY[cardinality(p_kinds)]);
    v_read bigint[];
    v_job record;
    v_number bigint;
    v_at bigint;
    v_is_cut boolean;
BEGIN
    o_left := p_left;
    o_jobs := array_fill(0::bigint, ARRAY[4 * cardinality(p_kinds)]);
    IF cardinality(p_ranges) = 1 AND (SELECT sum(least(r.room, p_left)) FROM unnest(p_rooms) AS r(room)) <= p_left THEN
        FOR v_number IN 1..cardinality(p_kinds) LOOP
            v_at := 4 * v_number - 3 + p_ranges[1];
            o_jobs[v_at] := least(p_rooms[v_number], p_left);
            o_left := o_left - o_jobs[v_at];
        END LOOP;
        p_rooms := array_fill(0::bigint, ARRAY[cardinality(p_kinds)]);
        RETURN;
    END IF;
    LOOP
        SELECT greatest(2 * v_share, 1 + 2 * o_left / greatest(count(*), 1)) INTO v_share
        FROM unnest(p_rooms, v_before) AS r(room, before) WHERE r.room < r.before;
        v_limits := ARRAY(
            SELECT least(r.room, o_left, CASE WHEN r.room < r.before THEN v_share ELSE 1 END)
            FROM unnest(p_rooms, v_before) AS r(room, before)
        );
        v_before := v_rooms;
        v_read := array_fill(0::bigint, ARRAY[4 * cardinality(p_kinds)]);
        v_is_cut := false;
        FOR v_job IN
            SELECT f.* FROM SCHEMA.of_kinds(p_queue, p_kinds, v_limits, p_ranges, p_free, p_held, v_from, v_from_id) f
            ORDER BY f.o_due, f.o_id
        LOOP
            v_number := v_job.o_number;
            CONTINUE WHEN p_rooms[v_number] <= 0;
            v_at := 4 * v_number - 3 + v_job.o_range;
            v_read[v_at] := v_read[v_at] + 1;
            o_jobs[v_at] := o_jobs[v_at] + 1;
            p_rooms[v_number] := p_rooms[v_number] - 1;
            o_left := o_left - 1;
            v_from := v_job.o_due;
            v_from_id := v_job.o_id;
            v_is_cut := v_read[v_at] = v_limits[v_number] AND p_rooms[v_number] > 0;
            EXIT WHEN v_is_cut OR o_left = 0;
        END LOOP;
        EXIT WHEN NOT v_is_cut OR o_left = 0;
    END LOOP;
END
$$;

-- Claims and starts up to `p_left` jobs of the listed kinds, which have room for as many each, as far as they are among the
-- first free jobs of all kinds: usually a process lists the kinds of most jobs. Costs as much as a claim of any jobs, and does not
-- depend on the number of kinds. Returns where they are, their kinds, and whether there are no others.
CREATE OR REPLACE FUNCTION SCHEMA.claim_first(
    p_queue bigint, p_now bigint, p_token uuid, p_lease bigint, p_kinds text[], p_left bigint,
    OUT o_places tid[], OUT o_kinds text[], OUT o_is_all boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    -- So many jobs of other kinds may be among them.
    c_others CONSTANT bigint := 30;
    v_last bigint := p_now;
    v_last_id bigint := 9223372036854775807;
    v_next record;
BEGIN
    SELECT j.due, j.id INTO v_next FROM SCHEMA.job j
    WHERE j.queue = p_queue AND j.token IS NULL AND j.due <= p_now
    ORDER BY j.due, j.id OFFSET p_left + c_others LIMIT 1;
    o_is_all := NOT FOUND;
    IF FOUND THEN
        v_last := v_next.due;
        v_last_id := v_next.id;
    END IF;
    WITH claimed AS (
        UPDATE SCHEMA.job j SET token = p_token, due = SCHEMA.after(p_now, p_lease), started = true,
            attempts = j.attempts + 1, run = CASE WHEN j.key IS NULL THEN 0 ELSE j.id END
        WHERE j.ctid = ANY (ARRAY(
            -- `IS TRUE`: not by the index of kinds.
            SELECT j.ctid FROM SCHEMA.job j
            WHERE j.queue = (SELECT q.id FROM SCHEMA.queue q WHERE q.id = p_queue AND NOT q.paused AND NOT q.limited)
                AND j.token IS NULL AND j.due <= p_now AND (j.due, j.id) <= (v_last, v_last_id)
                AND (j.kind = ANY (p_kinds)) IS TRUE
            ORDER BY j.due, j.id LIMIT p_left FOR UPDATE SKIP LOCKED
        ))
        RETURNING j.ctid AS place, j.kind
    )
    SELECT coalesce(array_agg(c.place), '{}'), coalesce(array_agg(c.kind), '{}') INTO o_places, o_kinds FROM claimed c;
END
$$;

-- Claims up to `p_left` jobs in due order: free ones that are due by `p_free`, and ones whose leases have ended by `p_held`.
-- Returns where they are, and how much room is left.
--
-- Chooses the next jobs without locks, and then claims as many from each range. So it locks no more jobs than it claims, and
-- claims at the same time share the jobs. If others have locked jobs of a kind, so that it has fewer than chosen, the other
-- kinds get its share.
CREATE OR REPLACE FUNCTION SCHEMA.claim_next(
    p_queue bigint, p_now bigint, p_token uuid, p_begins boolean, p_ranges bigint[], p_free bigint, p_held bigint,
    p_lease bigint, p_kinds text[], p_left bigint, INOUT p_rooms bigint[], OUT o_places tid[]
)
LANGUAGE plpgsql AS $$
DECLARE
    v_left bigint := p_left;
    -- None for a kind that has no more jobs.
    v_open bigint[] := p_rooms;
    v_chosen record;
    v_claimed record;
BEGIN
    o_places := '{}';
    LOOP
        v_chosen := SCHEMA.choose(p_queue, p_kinds, p_ranges, p_free, p_held, v_left, v_open);
        EXIT WHEN v_chosen.o_left = v_left;
        WITH claimed AS (
            UPDATE SCHEMA.job j SET token = p_token, started = p_begins, attempts = j.attempts + p_begins::integer,
                due = CASE WHEN p_begins THEN SCHEMA.after(p_now, p_lease)
                    ELSE greatest(j.at, SCHEMA.after(p_now, p_lease)) END,
                run = CASE WHEN NOT p_begins THEN j.run WHEN j.key IS NULL THEN 0 ELSE j.id END
            WHERE j.ctid = ANY (ARRAY(
                SELECT n.place
                FROM SCHEMA.queue q, unnest(v_chosen.o_jobs) WITH ORDINALITY AS c(jobs, at), LATERAL (
                    SELECT j.ctid AS place FROM SCHEMA.job j
                    WHERE SCHEMA.range_of(j.queue, j.urgent, j.token) = q.id * 4 + (c.at - 1) % 4
                        AND j.kind = p_kinds[(c.at + 3) / 4]
                        AND j.due <= CASE WHEN c.at % 2 = 1 THEN p_free ELSE p_held END
                    ORDER BY j.due, j.id LIMIT c.jobs FOR UPDATE SKIP LOCKED
                ) n
                WHERE q.id = p_queue AND NOT q.paused AND NOT q.limited AND c.jobs > 0
            ))
            RETURNING j.ctid AS place, j.kind
        )
        SELECT array_agg(c.place) AS places, array_agg(c.kind) AS kinds INTO v_claimed FROM claimed c;
        o_places := o_places || v_claimed.places;
        IF v_open = p_rooms AND cardinality(v_claimed.places) = v_left - v_chosen.o_left THEN
            p_rooms := v_chosen.p_rooms;
            EXIT;
        END IF;
        SELECT array_agg(r.room - r.jobs), array_agg(CASE WHEN r.jobs < r.open - r.rest THEN 0 ELSE r.rest END)
        INTO p_rooms, v_open
        FROM (
            SELECT r.room, r.open, r.rest,
                (SELECT count(*) FROM unnest(v_claimed.kinds) AS c(kind) WHERE c.kind = r.kind) AS jobs
            FROM unnest(p_kinds, p_rooms, v_open, v_chosen.p_rooms) AS r(kind, room, open, rest)
            OFFSET 0
        ) r;
        -- Otherwise all jobs were chosen.
        EXIT WHEN v_chosen.o_left > 0;
        v_left := p_left - cardinality(o_places);
        EXIT WHEN v_left = 0;
    END LOOP;
END
$$;

-- Claims jobs of the listed kinds, like `turn`, without limits. Returns where they are, how many were
-- started and claimed ahead, and how much room is left for each kind. `p_in_order`: few entries are in front of the free jobs
-- in the index of all kinds.
CREATE OR REPLACE FUNCTION SCHEMA.claim_listed(
    p_queue bigint, p_now bigint, p_token uuid, p_urgent boolean, p_max bigint, p_start bigint, p_ahead bigint,
    p_horizon bigint, p_lease bigint, p_kinds text[], p_in_order boolean, INOUT p_rooms bigint[],
    OUT o_places tid[], OUT o_begun bigint, OUT o_ahead bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_start bigint := least(p_start, p_max);
    v_last bigint := SCHEMA.after(p_now, p_horizon);
    v_ranges bigint[] := SCHEMA.ranges(p_queue, v_last, p_now);
    v_urgents bigint[];
    v_is_urgent boolean;
    v_begins boolean;
    v_left bigint;
    v_claimed record;
BEGIN
    o_places := '{}';
    o_begun := 0;
    o_ahead := 0;
    -- The lookup for a single kind costs less.
    IF p_in_order AND v_start > 0 AND cardinality(p_kinds) > 1 AND v_ranges = '{0}' AND v_start <= ALL (p_rooms) THEN
        v_claimed := SCHEMA.claim_first(p_queue, p_now, p_token, p_lease, p_kinds, v_start);
        o_places := v_claimed.o_places;
        o_begun := cardinality(o_places);
        p_rooms := ARRAY(
            SELECT r.room - (SELECT count(*) FROM unnest(v_claimed.o_kinds) AS c(kind) WHERE c.kind = r.kind)
            FROM unnest(p_kinds, p_rooms) AS r(kind, room)
        );
        IF (o_begun = v_start OR v_claimed.o_is_all) AND least(p_ahead, p_max - o_begun) <= 0 THEN
            RETURN;
        END IF;
    END IF;
    v_urgents := ARRAY(SELECT r.range FROM unnest(v_ranges) AS r(range) WHERE r.range >= 2);
    -- Urgent jobs first, to start or, if there may be more of them, ahead.
    FOR v_step IN 1..4 LOOP
        v_is_urgent := v_step < 3;
        v_begins := v_step IN (1, 3);
        v_left := CASE WHEN v_begins THEN v_start - o_begun ELSE least(p_ahead, p_max - o_begun) - o_ahead END;
        CONTINUE WHEN v_left <= 0 OR v_is_urgent AND (NOT p_urgent OR v_urgents = '{}') OR v_step = 2 AND o_begun < v_start;
        v_claimed := SCHEMA.claim_next(p_queue, p_now, p_token, v_begins,
            CASE WHEN v_is_urgent THEN v_urgents ELSE v_ranges END,
            CASE WHEN v_is_urgent OR v_begins THEN p_now ELSE v_last END, p_now, p_lease, p_kinds, v_left, p_rooms);
        p_rooms := v_claimed.p_rooms;
        o_places := o_places || v_claimed.o_places;
        IF v_begins THEN
            o_begun := o_begun + cardinality(v_claimed.o_places);
        ELSE
            o_ahead := o_ahead + cardinality(v_claimed.o_places);
        END IF;
    END LOOP;
END
$$;

-- Returns the next jobs that a claim with limits looks at, in due order: up to `p_most` of the kinds that have room, after a
-- position. Also the numbers of their kinds, and the last position. Null: there is no job.
CREATE OR REPLACE FUNCTION SCHEMA.next_listed(
    p_queue bigint, p_now bigint, p_urgent boolean, p_last bigint, p_listed text[], p_rooms bigint[],
    p_most bigint, p_from bigint, p_from_id bigint,
    OUT o_ids bigint[], OUT o_numbers bigint[], OUT o_from bigint, OUT o_from_id bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    v_ranges bigint[] := CASE WHEN p_urgent THEN '{2, 3}' ELSE SCHEMA.ranges(p_queue, p_last, p_now) END;
    -- Not all of them will be claimed.
    v_limits bigint[] := ARRAY(SELECT CASE WHEN r.room > 0 THEN p_most ELSE 0 END FROM unnest(p_rooms) AS r(room));
BEGIN
    SELECT array_agg(n.o_id), array_agg(n.o_number), (array_agg(n.o_due))[count(*)], (array_agg(n.o_id))[count(*)]
    INTO o_ids, o_numbers, o_from, o_from_id
    FROM (
        SELECT f.*
        FROM SCHEMA.of_kinds(p_queue, p_listed, v_limits, v_ranges, p_last, p_now, p_from, p_from_id) f
        WHERE EXISTS (SELECT FROM SCHEMA.queue q WHERE q.id = p_queue AND NOT q.paused)
        ORDER BY f.o_due, f.o_id LIMIT p_most
    ) n;
END
$$;

-- Like `look`, for kinds that have room. While jobs are due, leases that have not ended are not read. `p_in_order`: see
-- `claim_listed`.
CREATE OR REPLACE FUNCTION SCHEMA.look_listed(
    p_queue bigint, p_now bigint, p_kinds text[], p_rooms bigint[], p_in_order boolean, OUT o_first bigint,
    OUT o_first_free bigint
)
LANGUAGE plpgsql AS $$
DECLARE
    c_never CONSTANT bigint := 9223372036854775807;
    c_start CONSTANT bigint := -9223372036854775808;
    c_others CONSTANT bigint := 30;
    v_ranges bigint[];
    v_limits bigint[];
BEGIN
    IF p_in_order AND cardinality(p_kinds) > 1 THEN
        -- Usually one of the first jobs of all kinds.
        SELECT l.due INTO o_first_free FROM (
            SELECT j.due, j.id, j.kind FROM SCHEMA.job j WHERE j.queue = p_queue AND j.token IS NULL AND j.due <= c_never
            ORDER BY j.due, j.id LIMIT c_others
        ) l WHERE p_rooms[array_position(p_kinds, l.kind)] > 0 ORDER BY l.due, l.id LIMIT 1;
        o_first := o_first_free;
        IF o_first <= p_now THEN
            PERFORM FROM SCHEMA.job j WHERE j.queue = p_queue AND j.token IS NOT NULL AND j.due < o_first LIMIT 1;
            IF NOT FOUND THEN
                RETURN;
            END IF;
        END IF;
    END IF;
    v_ranges := SCHEMA.ranges(p_queue, c_never, p_now);
    v_limits := ARRAY(SELECT least(r.room, 1) FROM unnest(p_rooms) AS r(room));
    IF o_first_free IS NULL THEN
        SELECT coalesce(min(f.o_due), c_never) INTO o_first_free
        FROM SCHEMA.of_kinds(p_queue, p_kinds, v_limits,
            CASE WHEN 2 = ANY (v_ranges) THEN '{0, 2}' ELSE '{0}' END::bigint[], c_never, c_never, c_start, -1) f;
    END IF;
    o_first := o_first_free;
    IF o_first > p_now OR 1 = ANY (v_ranges) THEN
        -- A job that is claimed between these two statements is in one of the results.
        SELECT least(o_first, min(f.o_due)) INTO o_first
        FROM SCHEMA.of_kinds(p_queue, p_kinds, v_limits,
            CASE WHEN 2 = ANY (v_ranges) THEN '{1, 3}' ELSE '{1}' END::bigint[], c_never, c_never, c_start, -1) f;
    END IF;
END
$$;

-- Returns how many jobs of each kind can be claimed, up to `p_limit` of each. Reads one job of each kind in each range, and
-- those that it counts.
CREATE OR REPLACE FUNCTION SCHEMA.due_of_kinds(p_queue bigint, p_now bigint, p_limit bigint)
RETURNS TABLE (o_kind text, o_jobs bigint)
LANGUAGE plpgsql AS $$
DECLARE
    c_never CONSTANT bigint := 9223372036854775807;
    c_start CONSTANT bigint := -9223372036854775808;
BEGIN
    RETURN QUERY
    WITH RECURSIVE kinds AS (
        SELECT r.range, '' COLLATE "C" AS kind, c_start AS due, -1::bigint AS id, false AS is_kind
        FROM generate_series(0, 3) AS r(range)
        UNION ALL
        -- The next kind begins after all positions of this one.
        SELECT k.range, n.kind, c_never, c_never, true FROM kinds k, LATERAL (
            SELECT j.kind FROM SCHEMA.job j
            WHERE SCHEMA.range_of(j.queue, j.urgent, j.token) = p_queue * 4 + k.range AND j.kind IS NOT NULL
                AND (j.kind, j.due, j.id) > (k.kind, k.due, k.id)
            ORDER BY j.kind, j.due, j.id LIMIT 1
        ) n
    )
    SELECT k.kind::text, least(sum(c.jobs), p_limit)::bigint
    FROM kinds k, LATERAL (
        SELECT count(*) AS jobs FROM (
            SELECT FROM SCHEMA.job j
            WHERE SCHEMA.range_of(j.queue, j.urgent, j.token) = p_queue * 4 + k.range AND j.kind = k.kind
                AND j.due <= p_now
            LIMIT p_limit
        ) d
    ) c
    WHERE k.is_kind AND c.jobs > 0 GROUP BY k.kind ORDER BY k.kind;
END
$$;
