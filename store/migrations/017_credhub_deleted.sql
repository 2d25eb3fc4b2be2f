-- When CredHub last had nothing, or nothing more, of a binding that is gone; NULL: it may have something. Brokers of
-- earlier releases do not record it.
ALTER TABLE credhub_entry ADD COLUMN deleted_at timestamptz;
