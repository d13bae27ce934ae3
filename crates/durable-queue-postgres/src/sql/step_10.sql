-- Version 10: kinds, options and failures, which only workers read, and `cancelled`: a cancel was requested
-- while a handler had the job. Without marked jobs, a look for them costs one lookup in an empty index.

ALTER TABLE SCHEMA.job ADD COLUMN kind text, ADD COLUMN options text, ADD COLUMN failures text,
    ADD COLUMN cancelled boolean NOT NULL DEFAULT false;
ALTER TABLE SCHEMA.dead ADD COLUMN kind text, ADD COLUMN options text, ADD COLUMN failures text;
CREATE INDEX job_cancelled ON SCHEMA.job (queue, id) WHERE cancelled;

-- Done jobs that are kept.
CREATE TABLE SCHEMA.done (
    id bigint PRIMARY KEY,
    queue bigint NOT NULL,
    until bigint NOT NULL,
    finished bigint NOT NULL,
    took bigint NOT NULL,
    attempts integer NOT NULL,
    key bytea,
    kind text,
    result bytea
);
CREATE INDEX done_until ON SCHEMA.done (queue, until);
