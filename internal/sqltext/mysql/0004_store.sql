-- Which store this is, and how far it has come: a row that the first program makes that opens the store, and that a copy of the
-- database has as well. A store that was set back has a lower mark than was seen before.
CREATE TABLE IF NOT EXISTS stet_store (
    `one`      TINYINT        NOT NULL PRIMARY KEY CHECK (`one` = 1),
    `id`       VARBINARY(255) NOT NULL,
    `mark`     BIGINT         NOT NULL,
    `trail`    VARBINARY(255) NOT NULL, -- eight characters for each of the last marks, the latest first
    `made`     BIGINT         NOT NULL,
    `replaces` MEDIUMBLOB     NOT NULL  -- the ids of the stores that it was accepted for, with a space between two
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = binary;
