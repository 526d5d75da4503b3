-- One row per effect that a transaction promised, for package outbox. Instants are as in stet_records.
CREATE TABLE stet_outbox (
    id             INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of messages of one order key; none is used twice
    version        INTEGER NOT NULL, -- the fencing token: changes with each claim and each outcome
    state          TEXT    NOT NULL CHECK (state = 'pending' OR state = 'running' OR state = 'done' OR state = 'unknown' OR state = 'dead' OR state = 'discarded'),
    behind         INTEGER NOT NULL, -- -1: not in its line yet; 0: may be claimed; else the id of the message it waits for
    attempt        INTEGER NOT NULL,
    scope          TEXT    NOT NULL, -- of the record the effect belongs to; '' where there is none
    key            TEXT    NOT NULL,
    life           INTEGER NOT NULL, -- when that record was made; 0 where there is none
    topic          TEXT    NOT NULL,
    name           TEXT    NOT NULL,
    order_key      TEXT    NOT NULL, -- '' for messages that wait for no other
    downstream_key TEXT    NOT NULL UNIQUE, -- the same on every attempt
    downstream_id  TEXT    NOT NULL, -- what the provider answered with
    payload        BLOB    NOT NULL,
    meta           TEXT    NOT NULL, -- a JSON object of strings
    errors         TEXT    NOT NULL, -- what went wrong and what people did, a JSON object a line
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    due_at         INTEGER NOT NULL  -- pending: not before; running: when the lease ends
);
CREATE INDEX stet_outbox_due ON stet_outbox (state, behind, due_at, id);
CREATE INDEX stet_outbox_order ON stet_outbox (order_key, id) WHERE order_key <> '' AND state NOT IN ('done', 'discarded');
