-- One row per idempotency key. Names and other text are stored byte for byte: as TEXT, or as BLOB where they hold a NUL or
-- are not UTF-8. Instants are whole microseconds since 1970, UTC; the view stet_keys shows them as dates.
-- Responses are large for a clustered table, so the rows are kept in the order they were made, and the unique index stays
-- small. What is large comes last: reading the head of a record does not touch its body.
CREATE TABLE stet_records (
    id              INTEGER PRIMARY KEY,
    scope           TEXT    NOT NULL,
    key             TEXT    NOT NULL,
    version         INTEGER NOT NULL CHECK (version > 0),
    schema          INTEGER NOT NULL, -- the format of this row
    tag             INTEGER, -- the bits of its id in logs and tools: stet_keys shows it as those do; NULL: it has none
    state           TEXT    NOT NULL CHECK (state = 'running' OR state = 'completed' OR state = 'retryable' OR state = 'unknown' OR state = 'expired'),
    status          INTEGER NOT NULL,
    flags           INTEGER NOT NULL, -- 1: a dead letter, whose probes are used up; 2: a result that is not removed when it is due
    cause           TEXT    NOT NULL,
    route           TEXT    NOT NULL,
    downstream_key  TEXT    NOT NULL, -- as sent to systems further down, where it is not the key itself; '' else
    downstream_id   TEXT    NOT NULL, -- what they answered with
    due_at          INTEGER, -- NULL: never
    updated_at      INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    completed_at    INTEGER,
    head            BLOB    NOT NULL, -- what no statement compares, and a checksum of the row without its body
    body            BLOB    NOT NULL, -- the response; what a flow needs to go on; a checksum of both
    UNIQUE (scope, key)
);

-- What is due in one state, earliest first: the sweeper, the reaper and the reconciler each walk their part of it.
CREATE INDEX stet_records_due ON stet_records (state, due_at);

-- People name a record by its id.
CREATE INDEX stet_records_tag ON stet_records (tag) WHERE tag IS NOT NULL;

-- What is unknown, and failures, are few and looked for by people, the newest first.
CREATE INDEX stet_records_unknown ON stet_records (state, id) WHERE state = 'unknown';
CREATE INDEX stet_records_failed ON stet_records (state, id) WHERE state = 'completed' AND status >= 500;

-- A provider's notice knows its own names only.
CREATE INDEX stet_records_downstream_key ON stet_records (downstream_key) WHERE downstream_key <> '';
CREATE INDEX stet_records_downstream_id ON stet_records (downstream_id) WHERE downstream_id <> '';

-- What people and keepers did: the changes that had a note, and what was only seen or refused. Rows are added only.
CREATE TABLE stet_history (
    id       INTEGER PRIMARY KEY,
    scope    TEXT    NOT NULL,
    key      TEXT    NOT NULL,
    was      TEXT    NOT NULL, -- '' where no record was changed
    became   TEXT    NOT NULL,
    attempt  INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    who      TEXT    NOT NULL,
    why      TEXT    NOT NULL,
    evidence TEXT    NOT NULL,
    notice   TEXT    NOT NULL, -- the id of the message that asked for it, such as a webhook-id; '' else
    action   TEXT    NOT NULL, -- what was done, where the states do not say it; '' else
    tag      TEXT    NOT NULL  -- the record's id in logs and lists
);
CREATE INDEX stet_history_key ON stet_history (scope, key, id);

-- People ask by record, by tenant and by name.
CREATE INDEX stet_history_tag ON stet_history (tag, id);
CREATE INDEX stet_history_scope ON stet_history (scope, id);
CREATE INDEX stet_history_who ON stet_history (who, id);

-- For people: SELECT * FROM stet_keys WHERE state = 'unknown';
CREATE VIEW stet_keys AS
SELECT iif(tag IS NULL, NULL, printf('k_%016x', tag)) AS id,
       scope,
       key,
       CASE WHEN state = 'completed' AND status >= 500 THEN 'failed' ELSE state END AS state,
       status, route, cause, downstream_key, downstream_id, flags & 1 AS escalated,
       strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1e6, 'unixepoch')   AS created_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1e6, 'unixepoch')   AS updated_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', completed_at / 1e6, 'unixepoch') AS completed_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', due_at / 1e6, 'unixepoch')       AS due_at
FROM stet_records;
