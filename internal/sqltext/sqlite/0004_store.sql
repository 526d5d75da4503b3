-- Which store this is: one row, which the first program that opens the store makes. A store that is found to be another one than it
-- was, or to have a lower mark, was exchanged or set back.
CREATE TABLE stet_store (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    id       TEXT    NOT NULL, -- drawn at random; a copy of the store has it as well
    mark     INTEGER NOT NULL, -- only rises, about once a second while records are written
    trail    TEXT    NOT NULL, -- eight characters for each of the last marks, the latest first
    made_at  INTEGER NOT NULL,
    replaces TEXT    NOT NULL, -- the ids of the stores that this one was accepted for, with a space between them
    horizon  INTEGER NOT NULL  -- the store's time does not go back behind this instant, even if a host's clock does
);
