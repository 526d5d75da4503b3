PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE stet_schema (version INTEGER PRIMARY KEY);
INSERT INTO stet_schema VALUES(1);
INSERT INTO stet_schema VALUES(2);
INSERT INTO stet_schema VALUES(3);
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
INSERT INTO stet_records VALUES(1,'tenant-1','running',4040701654661700585,2,937998381472518571,'running',0,0,'','POST /v1/payments','','',1795780860000000,1795780800000000,1795780800000000,NULL,X'b0bfff0d080631206175746f09020c09686f73743a313233340e04504f53540f0c2f76312f7061796d656e74731b8080f89492a527',X'2f2dd2f5');
INSERT INTO stet_records VALUES(2,'tenant-1','completed',4549669385467715673,2,-6358451385775724223,'completed',201,0,'','POST /v1/payments','','ch_1',1795867200000000,1795780800000000,1795780800000000,1795780800000000,X'0e99dcfe080631206175746f09020c09686f73743a313233340e04504f53540f0c2f76312f7061796d656e747315121b8080f89492a527',X'61dff8750102920303010c436f6e74656e742d547970650a746578742f706c61696e0509796f75206f77652035');
INSERT INTO stet_records VALUES(3,'tenant-1','retryable',349128223315374491,2,9175335491733093418,'retryable',0,0,'given-up','POST /v1/payments','','',1795784400000000,1795780800000000,1795780800000000,NULL,X'a8406d75080631206175746f09020c09686f73743a313233340e04504f53540f0c2f76312f7061796d656e74731b8080f89492a527',X'e4f9c544');
INSERT INTO stet_records VALUES(4,'tenant-1','unknown',7404908214307378001,2,-7707260050784119330,'unknown',0,0,'lease-lapsed','POST /v1/payments','','',1795784400000000,1795780800000000,1795780800000000,NULL,X'2a1d0a0a080631206175746f09020c09686f73743a313233340e04504f53540f0c2f76312f7061796d656e74731b8080f89492a52720036f7073087469636b657420370000046e6f7465',X'665ad70e');
INSERT INTO stet_records VALUES(5,'tenant-1','expired',5887970304279257605,2,5947879514456468528,'expired',0,0,'','POST /v1/payments','','',1795784400000000,1795780800000000,1795780800000000,NULL,X'412aa1e1080631206175746f09020c09686f73743a313233340e04504f53540f0c2f76312f7061796d656e74731b8080f89492a527',X'480c7422');
INSERT INTO stet_records VALUES(6,'tenant-1',X'61206e756c200020616e6420ff',805338823301229213,2,9213849829484277898,'running',0,0,'','POST /v1/payments','','',1795780860000000,1795780800000000,1795780800000000,NULL,X'36128274080631206175746f09020c09686f73743a313233340e04504f53540f0c2f76312f7061796d656e74731b8080f89492a527',X'b4f681c6');
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
INSERT INTO stet_history VALUES(1,'tenant-1','unknown','running','unknown',1,1795780800000000,'ops','ticket 7','','','note','k_950a4fd1917415de');
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
, key_honoured INTEGER NOT NULL DEFAULT 0);
DELETE FROM sqlite_sequence;
CREATE INDEX stet_records_due ON stet_records (state, due_at);
CREATE INDEX stet_records_tag ON stet_records (tag) WHERE tag IS NOT NULL;
CREATE INDEX stet_records_unknown ON stet_records (state, id) WHERE state = 'unknown';
CREATE INDEX stet_records_failed ON stet_records (state, id) WHERE state = 'completed' AND status >= 500;
CREATE INDEX stet_records_downstream_key ON stet_records (downstream_key) WHERE downstream_key <> '';
CREATE INDEX stet_records_downstream_id ON stet_records (downstream_id) WHERE downstream_id <> '';
CREATE INDEX stet_history_key ON stet_history (scope, key, id);
CREATE INDEX stet_history_tag ON stet_history (tag, id);
CREATE INDEX stet_history_scope ON stet_history (scope, id);
CREATE INDEX stet_history_who ON stet_history (who, id);
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
CREATE INDEX stet_outbox_due ON stet_outbox (state, behind, due_at, id);
CREATE INDEX stet_outbox_order ON stet_outbox (order_key, id) WHERE order_key <> '' AND state NOT IN ('done', 'discarded');
COMMIT;
