-- Claims with limits of keys or kinds: one by one.

-- Claims up to `p_max` jobs in the order of `turn`. `p_floor` is its floor. A job whose kind has no room is parked. A
-- job whose key has no room is postponed; with serial keys also an open one if a job of its key that was started before
-- waits. Such jobs, and those locked by another transaction, make room for later ones. The last row has no id. It says
-- whether the claim has ended because it has parked too many jobs (`o_started`), and whether it has parked one because
-- another transaction has locked an expired lease (`o_cancelled`): that job is called again at once. `p_listed`, `p_rooms`: see
-- `turn`; the last row has the room that is left in its options. The next jobs of a list are found without locks, and the floor
-- does not apply.
--
-- If there are limits of keys, all jobs of the key are locked before one is claimed or postponed, so that a concurrent
-- settle of one of them is either visible here, or sees this change. If another transaction has locked one of them, the
-- job is skipped without waiting.
--
-- `p_kinds`: the lock of the queue's limits is held. So no other claim counts at the same time, and a lease whose row is
-- locked by another transaction counts as live.
CREATE OR REPLACE FUNCTION SCHEMA.claim_limited(
    p_queue bigint, p_now bigint, p_token uuid, p_per_key bigint, p_kinds boolean, p_urgent boolean,
    p_max bigint, p_start bigint, p_ahead bigint, p_horizon bigint, p_lease bigint, p_floor bigint[],
    p_listed text[], p_rooms bigint[]
) RETURNS TABLE (
    o_id bigint, o_at bigint, o_started boolean, o_attempts integer, o_key bytea, o_payload bytea,
    o_schedule text, o_urgent boolean, o_kind text, o_options text, o_failures text, o_cancelled boolean
)
LANGUAGE plpgsql AS $$
DECLARE
    c_never CONSTANT bigint := 9223372036854775807;
    -- Delay until an open job is looked at again.
    c_shortly CONSTANT bigint := 1000;
    c_park_limit CONSTANT bigint := 1000;
    v_start bigint := least(p_start, p_max);
    v_ahead bigint := 0;
    v_started bigint := 0;
    v_parked bigint := 0;
    v_is_urgent boolean;
    v_begins boolean;
    v_room bigint;
    v_last bigint;
    -- Position after which the claim continues, among free or urgent jobs, and among jobs with expired
    -- leases.
    v_from bigint;
    v_from_id bigint;
    v_held_from bigint;
    v_held_id bigint;
    v_job record;
    -- Of a list: the room for each kind, the next jobs with the numbers of their kinds, and how many of them were looked at.
    v_rooms bigint[] := p_rooms;
    v_next bigint[];
    v_numbers bigint[];
    v_at integer;
    v_number bigint;
    v_others bigint;
    v_locked bigint;
    -- Leases of the key, in the order of their ends.
    v_ends bigint[];
    v_ids bigint[];
    v_places bigint[];
    v_needed integer;
    v_begun bigint;
    v_until bigint;
    -- The limits of kinds. Of those with a maximum: the numbers of all leases, and of expired ones.
    v_limits bigint[];
    v_kinds text[];
    v_mosts bigint[];
    v_pauses bigint[];
    v_slacks bigint[];
    v_filled bigint[];
    v_held bigint[];
    v_dead bigint[];
    v_place bigint;
    v_limit integer;
    v_other integer;
    v_time bigint;
    v_over bigint;
    v_ended bigint[];
    v_has_room boolean;
    v_is_blocked boolean := false;
    v_takes_tokens boolean := false;
BEGIN
    IF p_kinds THEN
        PERFORM SCHEMA.count_late(p_queue);
        SELECT array_agg(l.id), array_agg(l.kind), array_agg(l.most), array_agg(l.pause), array_agg(l.slack),
            array_agg(l.filled), array_agg(p.held), array_agg(p.dead)
        INTO v_limits, v_kinds, v_mosts, v_pauses, v_slacks, v_filled, v_held, v_dead
        FROM SCHEMA.kind_limit l, LATERAL (
            SELECT count(*) AS held, count(*) FILTER (WHERE j.due <= p_now) AS dead
            FROM SCHEMA.job j WHERE j.place = l.id AND j.token IS NOT NULL AND l.most IS NOT NULL
        ) p
        WHERE l.queue = p_queue;
    END IF;
    -- Urgent jobs first, to start or, if there may be more of them, ahead.
    FOR v_step IN 1..4 LOOP
        v_is_urgent := v_step < 3;
        v_begins := v_step IN (1, 3);
        CONTINUE WHEN v_is_urgent AND NOT p_urgent OR v_step = 2 AND v_started < v_start;
        v_room := CASE WHEN v_begins THEN v_start - v_started
            ELSE least(p_ahead, p_max - v_started) - v_ahead END;
        v_last := CASE WHEN v_begins OR v_is_urgent THEN p_now ELSE SCHEMA.after(p_now, p_horizon) END;
        v_from := CASE WHEN v_is_urgent THEN p_floor[3] ELSE p_floor[1] END;
        v_from_id := CASE WHEN v_is_urgent THEN p_floor[4] ELSE p_floor[2] END - 1;
        v_held_from := p_floor[5];
        v_held_id := 0;
        v_next := '{}';
        v_at := 0;
        WHILE v_room > 0 AND v_parked < c_park_limit LOOP
            -- The queue may have got its first limit since this turn began. Then the next turn claims.
            IF p_listed IS NOT NULL THEN
                IF v_at = cardinality(v_next) THEN
                    SELECT n.* INTO v_next, v_numbers, v_from, v_from_id FROM SCHEMA.next_listed(p_queue, p_now, p_kinds,
                        v_is_urgent, v_last, p_listed, v_rooms, v_room, v_from, v_from_id) n;
                    EXIT WHEN v_next IS NULL;
                    v_at := 0;
                END IF;
                v_at := v_at + 1;
                v_number := v_numbers[v_at];
                CONTINUE WHEN v_rooms[v_number] <= 0;
                -- `IS TRUE`: not by the index of kinds.
                SELECT j.id, j.due, j.key, j.run, j.at, j.kind, j.token, j.place INTO v_job FROM SCHEMA.job j
                WHERE j.id = v_next[v_at] AND (j.kind = p_listed[v_number]) IS TRUE
                    AND j.due <= CASE WHEN j.token IS NULL THEN v_last ELSE p_now END
                FOR UPDATE SKIP LOCKED;
                CONTINUE WHEN NOT FOUND;
            ELSIF v_is_urgent THEN
                SELECT j.id, j.due, j.key, j.run, j.at, j.kind, j.token, j.place INTO v_job FROM SCHEMA.job j
                WHERE j.queue = (SELECT q.id FROM SCHEMA.queue q WHERE q.id = p_queue AND NOT q.paused
                        AND (p_kinds OR NOT q.kind_limits))
                    AND j.urgent AND j.due <= p_now AND (j.due, j.id) > (v_from, v_from_id)
                ORDER BY j.due, j.id LIMIT 1 FOR UPDATE SKIP LOCKED;
            ELSE
                SELECT c.* INTO v_job FROM SCHEMA.queue q, LATERAL (
                    SELECT * FROM (
                        SELECT j.id, j.due, j.key, j.run, j.at, j.kind, j.token, j.place FROM SCHEMA.job j
                        WHERE j.queue = q.id AND j.token IS NULL AND j.due <= v_last
                            AND (j.due, j.id) > (v_from, v_from_id)
                        ORDER BY j.due, j.id LIMIT 1 FOR UPDATE SKIP LOCKED
                    ) free
                    UNION ALL
                    SELECT * FROM (
                        SELECT j.id, j.due, j.key, j.run, j.at, j.kind, j.token, j.place FROM SCHEMA.job j
                        WHERE j.queue = q.id AND j.token IS NOT NULL AND j.due <= p_now
                            AND (j.due, j.id) > (v_held_from, v_held_id)
                        ORDER BY j.due, j.id LIMIT 1 FOR UPDATE SKIP LOCKED
                    ) ended
                ) c
                WHERE q.id = p_queue AND NOT q.paused AND (p_kinds OR NOT q.kind_limits)
                ORDER BY c.due, c.id LIMIT 1;
            END IF;
            EXIT WHEN NOT FOUND;
            IF (v_job.due, v_job.id) > (v_from, v_from_id) THEN
                v_from := v_job.due;
                v_from_id := v_job.id;
            END IF;
            IF (v_job.due, v_job.id) > (v_held_from, v_held_id) THEN
                v_held_from := v_job.due;
                v_held_id := v_job.id;
            END IF;
            v_ids := NULL;
            v_needed := 0;
            v_until := NULL;
            IF v_job.key IS NOT NULL AND p_per_key > 0 THEN
                SELECT count(*), array_agg(o.due ORDER BY o.due, o.id) FILTER (WHERE o.token IS NOT NULL),
                    array_agg(o.id ORDER BY o.due, o.id) FILTER (WHERE o.token IS NOT NULL),
                    array_agg(o.place ORDER BY o.due, o.id) FILTER (WHERE o.token IS NOT NULL),
                    max(o.due) FILTER (WHERE o.run <> 0 AND v_job.run = 0 AND NOT o.is_between_runs)
                INTO v_locked, v_ends, v_ids, v_places, v_begun
                FROM (
                    SELECT j.id, j.due, j.token, j.run, j.place,
                        j.schedule IS NOT NULL AND j.attempts = 0 AND j.at > p_now AS is_between_runs
                    FROM SCHEMA.job j
                    WHERE j.queue = p_queue AND j.key = v_job.key AND j.id <> v_job.id
                    FOR UPDATE SKIP LOCKED
                ) o;
                SELECT count(*) INTO v_others FROM SCHEMA.job j
                WHERE j.queue = p_queue AND j.key = v_job.key AND j.id <> v_job.id;
                CONTINUE WHEN v_locked <> v_others;
                -- So many leases have to end first.
                v_needed := greatest(coalesce(cardinality(v_ids), 0) + 1 - p_per_key, 0);
                v_until := CASE WHEN v_ends[v_needed] > p_now THEN v_ends[v_needed]
                    WHEN p_per_key > 1 THEN NULL
                    -- A parked job has no time.
                    WHEN v_begun = c_never THEN SCHEMA.after(p_now, p_lease)
                    WHEN v_begun IS NOT NULL THEN greatest(v_begun, SCHEMA.after(p_now, c_shortly)) END;
            END IF;
            -- Its own lease has expired, and leaves its place in any case.
            v_other := CASE WHEN v_job.token IS NOT NULL THEN array_position(v_limits, v_job.place) END;
            IF v_other IS NOT NULL THEN
                v_held[v_other] := v_held[v_other] - 1;
                v_dead[v_other] := v_dead[v_other] - 1;
            END IF;
            v_limit := array_position(v_kinds, v_job.kind);
            v_ended := '{}';
            IF v_limit IS NOT NULL THEN
                v_time := greatest(v_job.at, p_now);
                v_has_room := (greatest(v_filled[v_limit], v_time) - v_slacks[v_limit] <= v_time) IS NOT FALSE;
                v_over := v_held[v_limit] + 1 - v_mosts[v_limit];
                IF v_has_room AND v_over > 0 THEN
                    -- `IS TRUE`: not by the index of all leases.
                    IF v_dead[v_limit] >= v_over THEN
                        v_ended := ARRAY(
                            SELECT j.id FROM SCHEMA.job j
                            WHERE j.place = v_limits[v_limit] AND j.token IS NOT NULL AND (j.due <= p_now) IS TRUE
                                AND j.id <> v_job.id
                            ORDER BY j.due, j.id LIMIT v_over FOR UPDATE SKIP LOCKED
                        );
                        v_is_blocked := v_is_blocked OR cardinality(v_ended) < v_over;
                    END IF;
                    v_has_room := cardinality(v_ended) = v_over;
                END IF;
                IF NOT v_has_room THEN
                    UPDATE SCHEMA.job j SET due = c_never, token = NULL, started = false, place = -v_limits[v_limit]
                    WHERE j.id = v_job.id;
                    v_parked := v_parked + 1;
                    CONTINUE;
                END IF;
            END IF;
            IF v_until IS NOT NULL THEN
                -- A claim may take it the horizon before `due`, so this delays it until then and no longer.
                UPDATE SCHEMA.job j SET token = NULL, started = false, place = NULL,
                    due = greatest(j.at, SCHEMA.after(v_until, p_horizon))
                WHERE j.id = v_job.id;
                CONTINUE;
            END IF;
            IF v_needed > 0 THEN
                UPDATE SCHEMA.job j SET token = NULL, started = false, place = NULL
                WHERE j.id = ANY (v_ids[1:v_needed]);
                FOREACH v_place IN ARRAY v_places[1:v_needed] LOOP
                    v_other := array_position(v_limits, v_place);
                    IF v_other IS NOT NULL THEN
                        v_held[v_other] := v_held[v_other] - 1;
                        v_dead[v_other] := v_dead[v_other] - 1;
                    END IF;
                END LOOP;
            END IF;
            IF cardinality(v_ended) > 0 THEN
                -- Those that are still needed.
                v_over := greatest(v_held[v_limit] + 1 - v_mosts[v_limit], 0);
                UPDATE SCHEMA.job j SET token = NULL, started = false, place = NULL
                WHERE j.id = ANY (ARRAY(
                    SELECT e.id FROM unnest(v_ended) WITH ORDINALITY AS e(id, ord)
                    WHERE e.id <> ALL (coalesce(v_ids[1:v_needed], '{}')) ORDER BY e.ord LIMIT v_over
                ));
                v_held[v_limit] := v_held[v_limit] - v_over;
                v_dead[v_limit] := v_dead[v_limit] - v_over;
            END IF;
            IF v_limit IS NOT NULL THEN
                v_held[v_limit] := v_held[v_limit] + 1;
                IF v_pauses[v_limit] IS NOT NULL THEN
                    v_filled[v_limit] := SCHEMA.after(greatest(v_filled[v_limit], v_time), v_pauses[v_limit]);
                    v_takes_tokens := true;
                END IF;
            END IF;
            IF p_listed IS NOT NULL THEN
                v_rooms[v_number] := v_rooms[v_number] - 1;
            END IF;
            IF v_begins THEN
                v_started := v_started + 1;
                RETURN QUERY
                UPDATE SCHEMA.job j SET token = p_token, due = SCHEMA.after(p_now, p_lease),
                    started = true, attempts = j.attempts + 1, place = v_limits[v_limit],
                    run = CASE WHEN j.key IS NULL THEN 0 ELSE j.id END
                WHERE j.id = v_job.id
                RETURNING j.id, j.at, true, j.attempts, j.key, j.payload, j.schedule, j.urgent, j.kind, j.options,
                    j.failures, j.cancelled;
            ELSE
                v_ahead := v_ahead + 1;
                RETURN QUERY
                UPDATE SCHEMA.job j SET token = p_token, started = false, place = v_limits[v_limit],
                    due = greatest(j.at, SCHEMA.after(p_now, p_lease))
                WHERE j.id = v_job.id
                RETURNING j.id, j.at, false, j.attempts, j.key, j.payload, j.schedule, j.urgent, j.kind, j.options,
                    j.failures, j.cancelled;
            END IF;
            v_room := v_room - 1;
        END LOOP;
    END LOOP;
    IF v_takes_tokens THEN
        UPDATE SCHEMA.kind_limit l SET filled = v_filled[array_position(v_limits, l.id)]
        WHERE l.queue = p_queue AND l.filled IS DISTINCT FROM v_filled[array_position(v_limits, l.id)];
    END IF;
    o_started := v_parked >= c_park_limit;
    o_cancelled := v_is_blocked;
    o_options := v_rooms::text;
    RETURN NEXT;
END
$$;
