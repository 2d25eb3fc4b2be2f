-- When a binding ends by itself; NULL for never.
ALTER TABLE binding ADD COLUMN expires_at timestamptz;
CREATE INDEX binding_expiry ON binding (expires_at) WHERE expires_at IS NOT NULL;

-- Bindings that have ended by themselves, for their platform, which may not know: its request to delete one succeeds once.
CREATE TABLE expired_binding (
  instance_id text NOT NULL REFERENCES instance ON DELETE CASCADE,
  id          text NOT NULL,
  expired_at  timestamptz NOT NULL,                -- when it was to end
  ended_at    timestamptz NOT NULL DEFAULT now(),  -- when it did
  PRIMARY KEY (instance_id, id)
);
