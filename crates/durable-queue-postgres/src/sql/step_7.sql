-- Version 7: serial keys.

ALTER TABLE SCHEMA.queue ADD COLUMN serial_keys boolean NOT NULL DEFAULT false;
