-- Version 5: `named_5`, which says who has a job.

DROP FUNCTION IF EXISTS SCHEMA.named(text, bigint, bytea);
