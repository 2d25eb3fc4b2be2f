-- Since when the accounts of a deleted instance could not write: see instance.frozen_since. Brokers of earlier releases
-- do not record it, and let those of an instance write that they bring back.
ALTER TABLE retained ADD COLUMN frozen_since timestamptz;
