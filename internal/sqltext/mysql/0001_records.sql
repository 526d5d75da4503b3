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
    `state`           VARBINARY(16)   NOT NULL CHECK (`state` IN ('running', 'completed', 'retryable', 'unknown', 'expired')),
    `attempt`         BIGINT          NOT NULL,
    `fingerprint`     BINARY(32)      NOT NULL,
    `recipe`          MEDIUMBLOB      NOT NULL,
    `parts`           BINARY(20)      NOT NULL,
    `holder`          MEDIUMBLOB      NOT NULL,
    `point`           MEDIUMBLOB      NOT NULL,
    `cause`           MEDIUMBLOB      NOT NULL,
    `route`           MEDIUMBLOB      NOT NULL,
    `method`          MEDIUMBLOB      NOT NULL,
    `path`            MEDIUMBLOB      NOT NULL,
    `trace_id`        MEDIUMBLOB      NOT NULL,
    `meta`            MEDIUMBLOB,
    `downstream_key`  MEDIUMBLOB      NOT NULL, -- as sent to systems further down, where it is not the key itself; '' else
    `downstream_id`   MEDIUMBLOB      NOT NULL, -- what they answered with
    `status`          BIGINT          NOT NULL,
    `size`            BIGINT          NOT NULL,
    `kept`            TINYINT         NOT NULL CHECK (`kept` IN (0, 1, 2)), -- whole, without body, status only
    `published`       TINYINT         NOT NULL CHECK (`published` IN (0, 1)),
    `reconciled`      TINYINT         NOT NULL CHECK (`reconciled` IN (0, 1)),
    `probes`          BIGINT          NOT NULL,
    `escalated`       TINYINT         NOT NULL CHECK (`escalated` IN (0, 1)),
    `retain_ns`       BIGINT          NOT NULL,
    `keep_expired_ns` BIGINT          NOT NULL,
    `from_creation`   TINYINT         NOT NULL CHECK (`from_creation` IN (0, 1)),
    `on_lapse`        TINYINT         NOT NULL CHECK (`on_lapse` IN (0, 1, 2)), -- unknown, resume, reexecute
    `took_ns`         BIGINT          NOT NULL,
    `note_who`        MEDIUMBLOB, -- who changed the record by hand, why, and on what evidence
    `note_why`        MEDIUMBLOB,
    `note_evidence`   MEDIUMBLOB,
    `due_at`          BIGINT, -- NULL: never
    `updated_at`      BIGINT          NOT NULL,
    `created_at`      BIGINT          NOT NULL,
    `completed_at`    BIGINT,
    `head_sum`        BIGINT          NOT NULL, -- CRC-32C of all but the instants: a row changed by hand is refused
    `response_status` BIGINT, -- NULL: no response is kept
    `headers`         MEDIUMBLOB,
    `trailers`        MEDIUMBLOB,
    `body`            LONGBLOB,
    `request`         LONGBLOB,
    `progress`        LONGBLOB,
    `body_sum`        BIGINT          NOT NULL DEFAULT 0, -- CRC-32C
    PRIMARY KEY (`scope`, `key`),
    -- What is due in one state, earliest first: the sweeper, the reaper and the reconciler each walk their part of it.
    KEY stet_records_due (`state`, `due_at`),
    KEY stet_records_id (`id`),
    -- Failures are few and looked for by people.
    KEY stet_records_status (`state`, `status`),
    -- A provider's notice knows its own names only.
    KEY stet_records_downstream_key (`downstream_key`(64)),
    KEY stet_records_downstream_id (`downstream_id`(64))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = binary;

-- What people and keepers did: the changes that had a note. Rows are added only.
CREATE TABLE IF NOT EXISTS stet_history (
    `id`       BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    `scope`    VARBINARY(1024) NOT NULL,
    `key`      VARBINARY(1024) NOT NULL,
    `was`      VARBINARY(16)   NOT NULL,
    `became`   VARBINARY(16)   NOT NULL,
    `attempt`  BIGINT          NOT NULL,
    `at`       BIGINT          NOT NULL,
    `who`      MEDIUMBLOB      NOT NULL,
    `why`      MEDIUMBLOB      NOT NULL,
    `evidence` MEDIUMBLOB      NOT NULL,
    KEY stet_history_key (`scope`, `key`, `id`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = binary;

-- For people: SELECT * FROM stet_keys WHERE state = 'unknown';
CREATE OR REPLACE SQL SECURITY INVOKER VIEW stet_keys AS
SELECT CONVERT(`scope` USING utf8mb4) AS `scope`,
       CONVERT(`key` USING utf8mb4) AS `key`,
       CONVERT(CASE WHEN `state` = 'completed' AND `status` >= 500 THEN 'failed' ELSE `state` END USING utf8mb4) AS `state`,
       `attempt`,
       CONVERT(`route` USING utf8mb4) AS `route`,
       CONVERT(`method` USING utf8mb4) AS `method`,
       CONVERT(`path` USING utf8mb4) AS `path`,
       `status`, `size`,
       CONVERT(`cause` USING utf8mb4) AS `cause`,
       CONVERT(`point` USING utf8mb4) AS `point`,
       CONVERT(`holder` USING utf8mb4) AS `holder`,
       CONVERT(`trace_id` USING utf8mb4) AS `trace_id`,
       `probes`, `escalated`,
       `took_ns` DIV 1000000 AS `took_ms`,
       DATE_FORMAT(TIMESTAMPADD(MICROSECOND, `created_at`, '1970-01-01 00:00:00'), '%Y-%m-%dT%H:%i:%s.%fZ') AS `created_at`,
       DATE_FORMAT(TIMESTAMPADD(MICROSECOND, `updated_at`, '1970-01-01 00:00:00'), '%Y-%m-%dT%H:%i:%s.%fZ') AS `updated_at`,
       DATE_FORMAT(TIMESTAMPADD(MICROSECOND, `completed_at`, '1970-01-01 00:00:00'), '%Y-%m-%dT%H:%i:%s.%fZ') AS `completed_at`,
       DATE_FORMAT(TIMESTAMPADD(MICROSECOND, `due_at`, '1970-01-01 00:00:00'), '%Y-%m-%dT%H:%i:%s.%fZ') AS `due_at`,
       CONVERT(`note_who` USING utf8mb4) AS `note_who`,
       CONVERT(`note_why` USING utf8mb4) AS `note_why`,
       CONVERT(`note_evidence` USING utf8mb4) AS `note_evidence`,
       LOWER(HEX(`fingerprint`)) AS `fingerprint`
FROM stet_records;
