-- Which store this is, in one row, which is made when the store is first opened. Whoever writes to the store raises the mark about
-- once a second: a copy that was restored has a lower one. Writes compare both with what they know.
CREATE TABLE stet_store (
    one      smallint NOT NULL DEFAULT 1 PRIMARY KEY CHECK (one = 1),
    id       text COLLATE "C" NOT NULL,
    mark     bigint NOT NULL,
    trail    text   NOT NULL, -- eight random characters for each of the last marks, the latest first
    made     bigint NOT NULL, -- when it got its id
    replaces text   NOT NULL  -- the ids of the stores that it was accepted for, between spaces
) WITH (fillfactor = 10);
