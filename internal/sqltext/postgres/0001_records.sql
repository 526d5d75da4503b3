-- One row per idempotency key. Text is stored as it is, but for what Postgres cannot hold (NUL, bytes that are not UTF-8): that is
-- written \xHH, and a backslash \\. Instants are whole microseconds since 1970, UTC; the view stet_keys shows them as dates.
-- A row is written about twice, the second time with its response: a page leaves room for that.
CREATE TABLE stet_records (
    scope           text COLLATE "C" NOT NULL,
    key             text COLLATE "C" NOT NULL,
    id              bigint   NOT NULL GENERATED ALWAYS AS IDENTITY, -- where lists show it
    version         bigint   NOT NULL,
    tag             bigint, -- the bits of its id in logs and tools: stet_keys shows it as those do; NULL: it has none
    due_at          bigint, -- NULL: never
    updated_at      bigint   NOT NULL,
    created_at      bigint   NOT NULL,
    completed_at    bigint,
    status          bigint   NOT NULL,
    flags           smallint NOT NULL, -- 1: a dead letter, whose probes are used up; 2: a result that is not removed when it is due
    schema          smallint NOT NULL, -- the format of this row
    state           text COLLATE "C" NOT NULL,
    cause           text     NOT NULL,
    route           text     NOT NULL,
    downstream_key  text COLLATE "C" NOT NULL, -- as sent to systems further down, where it is not the key itself; '' else
    downstream_id   text COLLATE "C" NOT NULL, -- what they answered with
    head            bytea    NOT NULL, -- what no statement compares, and a checksum of the row without its instants and its body
    body            bytea    NOT NULL, -- the response; what a flow needs to go on; a checksum of both
    PRIMARY KEY (scope, key)
) WITH (fillfactor = 70);

CREATE INDEX stet_records_id ON stet_records (id);

-- What is due in one state, earliest first: the sweeper, the reaper and the reconciler each walk their part of it. Many records may
-- fall due in one instant; the id says where among them a page begins.
CREATE INDEX stet_records_running ON stet_records (due_at, id) WHERE state = 'running';
CREATE INDEX stet_records_completed ON stet_records (due_at, id) WHERE state = 'completed';
CREATE INDEX stet_records_retryable ON stet_records (due_at, id) WHERE state = 'retryable';
CREATE INDEX stet_records_unknown ON stet_records (due_at, id) WHERE state = 'unknown';
CREATE INDEX stet_records_expired ON stet_records (due_at, id) WHERE state = 'expired';

-- People name a record by its id.
CREATE INDEX stet_records_tag ON stet_records (tag) WHERE tag IS NOT NULL;

-- Failures are few and looked for by people.
CREATE INDEX stet_records_failed ON stet_records (id) WHERE state = 'completed' AND status >= 500;

-- A provider's notice knows its own names only. Long names do not fit into a B-tree.
CREATE INDEX stet_records_downstream_key ON stet_records USING hash (downstream_key) WHERE downstream_key <> '';
CREATE INDEX stet_records_downstream_id ON stet_records USING hash (downstream_id) WHERE downstream_id <> '';

-- What people and keepers did: the changes that had a note, and what was only seen or refused. Rows are added only.
CREATE TABLE stet_history (
    id       bigint NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope    text COLLATE "C" NOT NULL,
    key      text COLLATE "C" NOT NULL,
    was      text   NOT NULL, -- '' where no record was changed
    became   text   NOT NULL,
    attempt  bigint NOT NULL,
    at       bigint NOT NULL,
    who      text   NOT NULL,
    why      text   NOT NULL,
    evidence text   NOT NULL,
    notice   text   NOT NULL, -- the id of the message that asked for it, such as a webhook-id; '' else
    action   text   NOT NULL, -- what was done, where the states do not say it; '' else
    tag      text   NOT NULL  -- the record's id in logs and lists
);
CREATE INDEX stet_history_key ON stet_history (scope, key, id);

-- People ask by record, by tenant and by name. A name may be too long for a B-tree.
CREATE INDEX stet_history_tag ON stet_history (md5(tag), id);
CREATE INDEX stet_history_scope ON stet_history (scope, id);
CREATE INDEX stet_history_who ON stet_history (md5(who), id);

-- For people: SELECT * FROM stet_keys WHERE state = 'unknown';
CREATE VIEW stet_keys AS
SELECT 'k_' || lpad(to_hex(tag), 16, '0') AS id,
       scope,
       key,
       CASE WHEN state = 'completed' AND status >= 500 THEN 'failed' ELSE state END AS state,
       status, route, cause, downstream_key, downstream_id, flags & 1 <> 0 AS escalated,
       timestamptz 'epoch' + created_at * interval '1 microsecond'             AS created_at,
       timestamptz 'epoch' + updated_at * interval '1 microsecond'             AS updated_at,
       timestamptz 'epoch' + completed_at * interval '1 microsecond'           AS completed_at,
       timestamptz 'epoch' + least(due_at, 9000000000000000) * interval '1 microsecond' AS due_at
FROM stet_records;
