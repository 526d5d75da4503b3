-- One row per idempotency key. Names and other text are bytes: no collation makes two keys one, no character set refuses one.
-- Instants are whole microseconds since 1970, UTC, by the server's clock; the view stet_keys shows them as dates.
-- The rows are clustered by their key: a look-up is one walk of one tree, and what checks for duplicates locks that row and
-- no gap beside it, as a second unique index would. Bodies of more than a few kilobytes lie outside the tree.
-- Each statement may be run again: a statement that changes the schema cannot be rolled back.
CREATE TABLE IF NOT EXISTS stet_records (
    `scope`           VARBINARY(1024) NOT NULL,
    `key`             VARBINARY(1024) NOT NULL,
    `id`              BINARY(16)      NOT NULL, -- grows with the time a key was first seen; for pages of a list
    `version`         BIGINT          NOT NULL CHECK (`version` > 0),
    `schema`          INT             NOT NULL, -- the format of this row
    `tag`             BIGINT, -- the bits of its id in logs and tools: stet_keys shows it as those do; NULL: it has none
    `state`           VARBINARY(16)   NOT NULL CHECK (`state` IN ('running', 'completed', 'retryable', 'unknown', 'expired')),
    `status`          BIGINT          NOT NULL,
    `flags`           INT             NOT NULL, -- 1: a dead letter, whose probes are used up; 2: a result that is not removed when it is due
    `cause`           MEDIUMBLOB      NOT NULL,
    `route`           MEDIUMBLOB      NOT NULL,
    `downstream_key`  MEDIUMBLOB      NOT NULL, -- as sent to systems further down, where it is not the key itself; '' else
    `downstream_id`   MEDIUMBLOB      NOT NULL, -- what they answered with
    `due_at`          BIGINT, -- NULL: never
    `updated_at`      BIGINT          NOT NULL,
    `created_at`      BIGINT          NOT NULL,
    `completed_at`    BIGINT,
    `head`            MEDIUMBLOB      NOT NULL, -- what no statement compares, and a checksum of the row without its instants and its body
    `body`            LONGBLOB        NOT NULL, -- the response; what a flow needs to go on; a checksum of both
    PRIMARY KEY (`scope`, `key`),
    -- What is due in one state, earliest first: the sweeper, the reaper and the reconciler each walk their part of it. Many records
    -- may fall due in one instant; the id says where among them a page begins.
    KEY stet_records_due (`state`, `due_at`, `id`),
    KEY stet_records_id (`id`),
    -- People name a record by its id.
    KEY stet_records_tag (`tag`),
    -- Failures are few and looked for by people.
    KEY stet_records_status (`state`, `status`),
    -- A provider's notice knows its own names only.
    KEY stet_records_downstream_key (`downstream_key`(64)),
    KEY stet_records_downstream_id (`downstream_id`(64))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = binary;

-- What people and keepers did: the changes that had a note, and what was only seen or refused. Rows are added only.
CREATE TABLE IF NOT EXISTS stet_history (
    `id`       BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `scope`    VARBINARY(1024) NOT NULL,
    `key`      VARBINARY(1024) NOT NULL,
    `was`      VARBINARY(16)   NOT NULL, -- '' where no record was changed
    `became`   VARBINARY(16)   NOT NULL,
    `attempt`  BIGINT          NOT NULL,
    `at`       BIGINT          NOT NULL,
    `who`      MEDIUMBLOB      NOT NULL,
    `why`      MEDIUMBLOB      NOT NULL,
    `evidence` MEDIUMBLOB      NOT NULL,
    `notice`   MEDIUMBLOB      NOT NULL, -- the id of the message that asked for it, such as a webhook-id; '' else
    `action`   MEDIUMBLOB      NOT NULL, -- what was done, where the states do not say it; '' else
    `tag`      MEDIUMBLOB      NOT NULL, -- the record's id in logs and lists
    `who_sum`  BIGINT          AS (CRC32(`who`)) STORED, -- of any length, and an index of part of it would not be in the order of ids
    `tag_sum`  BIGINT          AS (CRC32(`tag`)) STORED,
    KEY stet_history_key (`scope`, `key`, `id`),
    -- People ask by record, by tenant and by name.
    KEY stet_history_tag (`tag_sum`, `id`),
    KEY stet_history_scope (`scope`, `id`),
    KEY stet_history_who (`who_sum`, `id`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = binary;

-- Which database this is: a transaction that a store joins has to be on the same one.
CREATE TABLE IF NOT EXISTS stet_database (
    `one` TINYINT       NOT NULL PRIMARY KEY CHECK (`one` = 1),
    `id`  VARBINARY(36) NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = binary;

INSERT IGNORE INTO stet_database (`one`, `id`) VALUES (1, UUID());

-- For people: SELECT * FROM stet_keys WHERE state = 'unknown';
CREATE OR REPLACE SQL SECURITY INVOKER VIEW stet_keys AS
SELECT CONCAT('k_', LOWER(LPAD(HEX(`tag`), 16, '0'))) AS `id`,
       CONVERT(`scope` USING utf8mb4) AS `scope`,
       CONVERT(`key` USING utf8mb4) AS `key`,
       CONVERT(CASE WHEN `state` = 'completed' AND `status` >= 500 THEN 'failed' ELSE `state` END USING utf8mb4) AS `state`,
       CONVERT(`route` USING utf8mb4) AS `route`,
       `status`,
       CONVERT(`cause` USING utf8mb4) AS `cause`,
       CONVERT(`downstream_key` USING utf8mb4) AS `downstream_key`,
       CONVERT(`downstream_id` USING utf8mb4) AS `downstream_id`,
       `flags` & 1 AS `escalated`,
       DATE_FORMAT(TIMESTAMPADD(MICROSECOND, `created_at`, '1970-01-01 00:00:00'), '%Y-%m-%dT%H:%i:%s.%fZ') AS `created_at`,
       DATE_FORMAT(TIMESTAMPADD(MICROSECOND, `updated_at`, '1970-01-01 00:00:00'), '%Y-%m-%dT%H:%i:%s.%fZ') AS `updated_at`,
       DATE_FORMAT(TIMESTAMPADD(MICROSECOND, `completed_at`, '1970-01-01 00:00:00'), '%Y-%m-%dT%H:%i:%s.%fZ') AS `completed_at`,
       DATE_FORMAT(TIMESTAMPADD(MICROSECOND, `due_at`, '1970-01-01 00:00:00'), '%Y-%m-%dT%H:%i:%s.%fZ') AS `due_at`
FROM stet_records;
