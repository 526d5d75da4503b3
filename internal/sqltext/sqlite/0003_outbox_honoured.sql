-- Whether the other side honours the downstream key, as whoever added the message said: 1, or 0. It was a setting of workers before,
-- so that nobody has said it of the messages that are there.
ALTER TABLE stet_outbox ADD COLUMN key_honoured INTEGER NOT NULL DEFAULT 0;
