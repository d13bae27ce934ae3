-- Version 6: which jobs are urgent. Who has none pays one look into an empty index for it, at each claim.

ALTER TABLE SCHEMA.job ADD COLUMN urgent boolean NOT NULL DEFAULT false;
ALTER TABLE SCHEMA.dead ADD COLUMN urgent boolean NOT NULL DEFAULT false;
CREATE INDEX job_urgent ON SCHEMA.job (queue, due, id) WHERE urgent;

-- What asks for a time implies the condition, and finds its jobs by this index. What asks for an id or a key
-- does not, and has one index that serves: of two, a plan that was made while there were a few jobs may
-- take the wrong one, and read all jobs by it when there are many.
DROP INDEX SCHEMA.job_due;
CREATE INDEX job_due ON SCHEMA.job (queue, due, id) WHERE due IS NOT NULL;
