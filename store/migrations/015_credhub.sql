-- Where the credentials of a binding are in CredHub, and who may read them there; '' if the broker sent them itself.
ALTER TABLE binding ADD COLUMN credhub_name text NOT NULL DEFAULT '', ADD COLUMN credhub_reader text NOT NULL DEFAULT '';

-- What may be in CredHub. A row comes with its binding, in the same statement, and stays until the broker has deleted
-- what CredHub has.
CREATE TABLE credhub_entry (
  name        text PRIMARY KEY,                            -- never used twice
  reader      text NOT NULL,
  account     text NOT NULL UNIQUE,                        -- of the binding
  instance_id text NOT NULL,                               -- no foreign key: it outlives the binding
  binding_id  text NOT NULL,
  stored      bytea,                                       -- a hash of what CredHub has; NULL: not known
  attempt     bigint NOT NULL DEFAULT 0,                   -- to store it; grows
  checked_at  timestamptz NOT NULL DEFAULT now(),          -- when a broker last compared that with what it should have
  ended_at    timestamptz                                  -- when a broker first saw that its binding is gone
);
CREATE INDEX credhub_entry_checked ON credhub_entry (checked_at);
CREATE INDEX credhub_entry_instance ON credhub_entry (instance_id);
