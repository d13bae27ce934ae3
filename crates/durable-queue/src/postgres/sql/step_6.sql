-- Version 6: which jobs are urgent. Who has none pays one look into an empty index for it, at each claim.

ALTER TABLE SCHEMA.job ADD COLUMN urgent boolean NOT NULL DEFAULT false;
ALTER TABLE SCHEMA.dead ADD COLUMN urgent boolean NOT NULL DEFAULT false;
CREATE INDEX job_urgent ON SCHEMA.job (queue, due, id) WHERE urgent;
