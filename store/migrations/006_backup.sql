-- Backups in the object store. They outlive their instances, so that there is no foreign key.
CREATE TABLE backup (
  id                text PRIMARY KEY,              -- the broker's own, also in the object store
  instance_id       text NOT NULL,
  instance_name     text NOT NULL DEFAULT '',      -- that the platform gave to the instance
  service_id        text NOT NULL,
  plan_id           text NOT NULL,
  platform          text NOT NULL DEFAULT '',      -- whose it is: see provisioner/copying/source.go
  organization_guid text NOT NULL DEFAULT '',
  space_guid        text NOT NULL DEFAULT '',
  reason            text NOT NULL,                 -- 'request', 'schedule', 'operator' or 'restore'
  state             text NOT NULL CHECK (state IN ('in progress', 'complete', 'deleting')),
  flavour           text NOT NULL DEFAULT '',      -- 'MySQL' or 'MariaDB'
  version           text NOT NULL DEFAULT '',      -- of the server
  created_at        timestamptz NOT NULL DEFAULT now(),
  taken_at          timestamptz,                   -- the data are not older than this; NULL until it is complete
  finished_at       timestamptz,
  keep_until        timestamptz NOT NULL,          -- then it is deleted
  data_bytes        bigint NOT NULL DEFAULT 0,     -- of the database
  bytes             bigint NOT NULL DEFAULT 0,     -- in the object store
  tables            bigint NOT NULL DEFAULT 0,
  table_rows        bigint NOT NULL DEFAULT 0,
  verified_at       timestamptz,                   -- when it was last restored and compared
  verify_error      text NOT NULL DEFAULT '',      -- why it could not be restored
  CHECK ((state = 'in progress') = (taken_at IS NULL) OR state = 'deleting')
);
CREATE INDEX backup_instance ON backup (instance_id, created_at DESC);
CREATE INDEX backup_until ON backup (keep_until);
