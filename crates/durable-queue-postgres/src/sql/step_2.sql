-- Version 2: dead letters.

CREATE TABLE SCHEMA.dead (
    id bigint PRIMARY KEY,
    queue bigint NOT NULL,
    attempts integer NOT NULL,
    buried bigint NOT NULL,
    key bytea,
    payload bytea NOT NULL,
    error text NOT NULL
);
CREATE INDEX dead_queue ON SCHEMA.dead (queue, id);
