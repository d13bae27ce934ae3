-- Version 3: when a job comes again.

ALTER TABLE SCHEMA.job ADD COLUMN schedule text;
ALTER TABLE SCHEMA.dead ADD COLUMN schedule text;
