-- Archives of the binary logs of dedicated servers, in the object store. They outlive their instances, so that there is
-- no foreign key. An archive has no gaps: where there would be one, it ends, and another one begins.
CREATE TABLE binary_log (
  id          text PRIMARY KEY,                   -- the broker's own, also in the object store
  instance_id text NOT NULL,
  server      text NOT NULL,                      -- the dedicated server, as in instance.dedicated_id
  launcher    text NOT NULL DEFAULT '',
  begin_file  text NOT NULL,                      -- where it begins
  begin_at    bigint NOT NULL,
  file        text NOT NULL,                      -- up to where the server's logs are archived
  position    bigint NOT NULL,
  file_began  bigint NOT NULL DEFAULT 0,          -- when the server began that file, in seconds since 1970; 0: unknown
  began_at    timestamptz NOT NULL,               -- by the server's clock, as is until
  until       timestamptz NOT NULL,               -- what was committed before is archived
  bytes       bigint NOT NULL DEFAULT 0,          -- in the object store, as far as it was not deleted
  ended_at    timestamptz,                        -- NULL while it grows
  end_reason  text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX binary_log_grows ON binary_log (instance_id) WHERE ended_at IS NULL;
CREATE INDEX binary_log_instance ON binary_log (instance_id);
-- Where in an archive a backup was taken.
CREATE TABLE backup_position (
  backup_id text PRIMARY KEY REFERENCES backup ON DELETE CASCADE,
  log_id    text NOT NULL,
  file      text NOT NULL,
  position  bigint NOT NULL,
  taken_at  timestamptz NOT NULL                  -- what is in it was committed before, by the server's clock
);
CREATE INDEX backup_position_log ON backup_position (log_id);
