-- Who did what, when, to which instance. See store/audit.go.
CREATE TABLE audit (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at          timestamptz NOT NULL DEFAULT now(),
  actor       jsonb NOT NULL DEFAULT '{}',         -- who: see store/audit.go
  action      text NOT NULL,                       -- the kind of the task, or what the command did
  instance_id text NOT NULL DEFAULT '',
  binding_id  text NOT NULL DEFAULT '',
  plan_id     text NOT NULL DEFAULT '',            -- of an update: the new one
  object      text NOT NULL DEFAULT '',            -- what else it is about: a server's name
  task_id     bigint,
  result      text NOT NULL,                       -- 'in progress', 'succeeded', 'failed', 'cancelled', or 'begun'
  ended_at    timestamptz
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_instance ON audit (instance_id, id DESC) WHERE instance_id <> '';
CREATE INDEX audit_task ON audit (task_id) WHERE task_id IS NOT NULL;

ALTER TABLE task ADD COLUMN actor jsonb NOT NULL DEFAULT '{}'; -- who asked for it
