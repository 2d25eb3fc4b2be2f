-- While data are moved, next_server, next_dedicated_id and next_launcher say where to. Once they were moved, these
-- columns say where the data were, until that place is removed.
ALTER TABLE instance ADD COLUMN moved_at timestamptz, -- NULL until the data were moved
  ADD COLUMN other_admin_password bytea;              -- of the dedicated server there, encrypted
CREATE INDEX instance_moved ON instance (moved_at) WHERE moved_at IS NOT NULL;
CREATE INDEX instance_other_key ON instance (substr(other_admin_password, 1, 5)) WHERE other_admin_password IS NOT NULL;
