-- Version 9: leased jobs have their own index, so that claims ahead do not skip over them.
--
-- Each job is in one of the two indexes, so both together cost as much as one. Due jobs may be in either: an
-- expired lease holds its job until another claim takes it.
CREATE INDEX job_free ON SCHEMA.job (queue, due, id) WHERE token IS NULL AND due IS NOT NULL;
CREATE INDEX job_held ON SCHEMA.job (queue, due, id) WHERE token IS NOT NULL AND due IS NOT NULL;
DROP INDEX SCHEMA.job_due;
