-- Version 11: limits of kinds, and of keys above one. `place` is the number of the limit under which a job is held, or
-- was called; negative while it is parked. The index is in the order in which parked jobs are called; jobs without limits
-- are not in it. The new columns have constant defaults, so no table is rewritten. `claim_serially_10` is not dropped,
-- because turns in progress may call it.

ALTER TABLE SCHEMA.job ADD COLUMN place bigint;
CREATE INDEX job_place ON SCHEMA.job (place, urgent DESC, at, id) WHERE place IS NOT NULL;

-- `per_key`: a maximum above one. A maximum of one is `serial_keys`.
ALTER TABLE SCHEMA.queue ADD COLUMN per_key bigint NOT NULL DEFAULT 0,
    ADD COLUMN kind_limits boolean NOT NULL DEFAULT false;

-- `pause` is the time of a token, `slack` that of all tokens but one, and `filled` the time at which the bucket is full.
-- `counted`: null as soon as all jobs that were held when the limit was set have a place; see `count_late`.
CREATE TABLE SCHEMA.kind_limit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    most bigint,
    jobs bigint,
    per bigint,
    pause bigint,
    slack bigint,
    filled bigint NOT NULL DEFAULT -9223372036854775808,
    counted xid8 DEFAULT '18446744073709551615',
    UNIQUE (queue, kind)
) WITH (fillfactor = 50);
