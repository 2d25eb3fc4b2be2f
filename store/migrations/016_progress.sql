-- When a task last finished a step, copied more than ever before, or waited for its turn; NULL: not yet. Brokers of
-- earlier releases do not record it.
ALTER TABLE task ADD COLUMN progressed_at timestamptz;
