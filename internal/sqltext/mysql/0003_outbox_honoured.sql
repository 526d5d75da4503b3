-- Whether the other side honours the downstream key, as whoever added the message said: 1, or 0. It was a setting of workers before,
-- so that nobody has said it of the messages that are there. The step may be taken again, and MySQL has no ADD COLUMN IF NOT EXISTS.
SET @stet_step = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'stet_outbox' AND column_name = 'key_honoured') = 0, 'ALTER TABLE stet_outbox ADD COLUMN `key_honoured` TINYINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE stet_step FROM @stet_step;
EXECUTE stet_step;
DEALLOCATE PREPARE stet_step;
