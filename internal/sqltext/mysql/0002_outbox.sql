-- One row per effect that a transaction promised, for package outbox. Text and instants are as in stet_records.
CREATE TABLE IF NOT EXISTS stet_outbox (
    `id`             BIGINT          NOT NULL AUTO_INCREMENT PRIMARY KEY, -- the order of messages of one order key
    `version`        BIGINT          NOT NULL, -- the fencing token: changes with each claim and each outcome
    `state`          VARBINARY(16)   NOT NULL CHECK (`state` IN ('pending', 'running', 'done', 'unknown', 'dead', 'discarded')),
    `behind`         BIGINT          NOT NULL, -- -1: not in its line yet; 0: may be claimed; else the id of the message it waits for
    `attempt`        BIGINT          NOT NULL,
    `scope`          VARBINARY(1024) NOT NULL, -- of the record the effect belongs to; '' where there is none
    `key`            VARBINARY(1024) NOT NULL,
    `life`           BIGINT          NOT NULL, -- when that record was made; 0 where there is none
    `topic`          VARBINARY(255)  NOT NULL,
    `name`           VARBINARY(255)  NOT NULL,
    `order_key`      VARBINARY(255)  NOT NULL, -- '' for messages that wait for no other
    `downstream_key` VARBINARY(64)   NOT NULL, -- the same on every attempt
    `downstream_id`  MEDIUMBLOB      NOT NULL, -- what the provider answered with
    `payload`        LONGBLOB        NOT NULL,
    `meta`           MEDIUMBLOB      NOT NULL, -- a JSON object of strings
    `errors`         MEDIUMBLOB      NOT NULL, -- what went wrong and what people did, a JSON object a line
    `created_at`     BIGINT          NOT NULL,
    `updated_at`     BIGINT          NOT NULL,
    `due_at`         BIGINT          NOT NULL, -- pending, not before; running, when the lease ends
    -- The order key of what is not over: a look for what is before a message passes by all that was done.
    `line`           VARBINARY(255)  GENERATED ALWAYS AS (IF(`state` IN ('done', 'discarded') OR `order_key` = '', NULL, `order_key`)) STORED,
    UNIQUE KEY stet_outbox_downstream_key (`downstream_key`),
    KEY stet_outbox_due (`state`, `behind`, `due_at`, `id`),
    KEY stet_outbox_order (`line`, `id`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET = binary;
