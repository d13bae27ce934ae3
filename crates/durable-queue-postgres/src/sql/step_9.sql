-- Version 9: what leases hold lies in an index of its own, so that a claim which looks ahead does not pass over it.
--
-- Each job lies in one of the two: both together cost what one cost. What is due may lie in either: a lease that has
-- ended is one that holds a job still, unless another claim takes it.
CREATE INDEX job_free ON SCHEMA.job (queue, due, id) WHERE token IS NULL AND due IS NOT NULL;
CREATE INDEX job_held ON SCHEMA.job (queue, due, id) WHERE token IS NOT NULL AND due IS NOT NULL;
DROP INDEX SCHEMA.job_due;
