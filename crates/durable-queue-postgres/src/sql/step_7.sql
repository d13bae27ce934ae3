-- Version 7: whether one job of each key runs at a time.

ALTER TABLE SCHEMA.queue ADD COLUMN serial_keys boolean NOT NULL DEFAULT false;
