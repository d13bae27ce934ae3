-- Version 3: schedules of repeating jobs.

ALTER TABLE SCHEMA.job ADD COLUMN schedule text;
ALTER TABLE SCHEMA.dead ADD COLUMN schedule text;
