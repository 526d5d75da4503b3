-- One row per effect that a transaction promised, for package outbox. Text and instants are as in stet_records.
CREATE TABLE stet_outbox (
    id             bigint NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the order of messages of one order key
    version        bigint NOT NULL, -- the fencing token: changes with each claim and each outcome
    behind         bigint NOT NULL, -- -1: not in its line yet; 0: may be claimed; else the id of the message it waits for
    attempt        bigint NOT NULL,
    life           bigint NOT NULL, -- when the record was made that the effect belongs to; 0 where there is none
    created_at     bigint NOT NULL,
    updated_at     bigint NOT NULL,
    due_at         bigint NOT NULL, -- pending: not before; running: when the lease ends
    state          text COLLATE "C" NOT NULL CHECK (state IN ('pending', 'running', 'done', 'unknown', 'dead', 'discarded')),
    scope          text COLLATE "C" NOT NULL, -- of the record the effect belongs to; '' where there is none
    key            text COLLATE "C" NOT NULL,
    topic          text COLLATE "C" NOT NULL,
    name           text COLLATE "C" NOT NULL,
    order_key      text COLLATE "C" NOT NULL, -- '' for messages that wait for no other
    downstream_key text COLLATE "C" NOT NULL, -- the same on every attempt
    downstream_id  text COLLATE "C" NOT NULL, -- what the provider answered with
    payload        bytea  NOT NULL,
    meta           text   NOT NULL, -- a JSON object of strings
    errors         text   NOT NULL  -- what went wrong and what people did, a JSON object a line
);
CREATE UNIQUE INDEX stet_outbox_downstream_key ON stet_outbox (downstream_key);
CREATE INDEX stet_outbox_pending ON stet_outbox (behind, due_at, id) WHERE state = 'pending';
CREATE INDEX stet_outbox_running ON stet_outbox (due_at) WHERE state = 'running';
CREATE INDEX stet_outbox_halted ON stet_outbox (state, id) WHERE state IN ('unknown', 'dead');
CREATE INDEX stet_outbox_order ON stet_outbox (order_key, id) WHERE order_key <> '' AND state NOT IN ('done', 'discarded');
