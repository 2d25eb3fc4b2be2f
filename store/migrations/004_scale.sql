-- What is read at every start, and at every examination, must not take longer as the tables fill up.

-- The marks of the keys that passwords are encrypted with (store/keyring.go): which there are, and where those of a key
-- to be replaced are.
CREATE INDEX binding_key ON binding (substr(password, 1, 5));
CREATE INDEX instance_key ON instance (substr(admin_password, 1, 5)) WHERE admin_password IS NOT NULL;
CREATE INDEX instance_next_key ON instance (substr(next_admin_password, 1, 5)) WHERE next_admin_password IS NOT NULL;

-- When an examination first saw that something that had ended is not on its server. Brokers that do not know this
-- column keep that in memory.
ALTER TABLE resource ADD COLUMN gone_since timestamptz;

-- The default, a fifth of the table, would let a million dead rows of tasks pile up, and with them dead entries in the
-- small indexes of those in progress.
ALTER TABLE task SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000);
