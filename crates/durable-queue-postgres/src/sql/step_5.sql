-- Version 5: `named_5`, which returns who holds a job.

DROP FUNCTION IF EXISTS SCHEMA.named(text, bigint, bytea);
