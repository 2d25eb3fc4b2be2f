-- Why a backup could not be verified when that was last tried, at verify_refused_at: the settings of a shared server
-- refused it. '' and NULL: they did not. Brokers of earlier releases do not record it.
ALTER TABLE backup ADD COLUMN verify_refused text NOT NULL DEFAULT '', ADD COLUMN verify_refused_at timestamptz;
