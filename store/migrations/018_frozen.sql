-- Since when the accounts of an instance may not write because a restore in place failed and could not be undone; NULL:
-- they may. Brokers of earlier releases do not record it.
ALTER TABLE instance ADD COLUMN frozen_since timestamptz;
