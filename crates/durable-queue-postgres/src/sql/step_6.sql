-- Version 6: urgent jobs. Without urgent jobs, each claim costs one lookup in an empty index.

ALTER TABLE SCHEMA.job ADD COLUMN urgent boolean NOT NULL DEFAULT false;
ALTER TABLE SCHEMA.dead ADD COLUMN urgent boolean NOT NULL DEFAULT false;
CREATE INDEX job_urgent ON SCHEMA.job (queue, due, id) WHERE urgent;

-- Queries by time imply the condition, and use this index. Queries by id or key do not, and have a single
-- suitable index: with two, a plan made for few jobs might select the wrong one, and later read many jobs.
DROP INDEX SCHEMA.job_due;
CREATE INDEX job_due ON SCHEMA.job (queue, due, id) WHERE due IS NOT NULL;
