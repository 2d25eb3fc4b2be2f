-- Who did what, when, to which instance. Operations on instances and bindings are tasks: triggers record them here in the
-- transactions that record, end or cancel a task. What operators do otherwise, brokers' commands record.
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

CREATE FUNCTION audit_task_begun() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit (actor, action, instance_id, binding_id, plan_id, task_id, result)
  VALUES (NEW.actor, NEW.kind, NEW.instance_id, NEW.binding_id, coalesce(nullif(NEW.request->>'plan_id', ''), NEW.plan_id),
    NEW.id, NEW.state);
  RETURN NULL;
END $$;
CREATE TRIGGER audit_task_begun AFTER INSERT ON task FOR EACH ROW WHEN (NEW.instance_id <> '')
  EXECUTE FUNCTION audit_task_begun();

CREATE FUNCTION audit_task_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE audit SET result = CASE NEW.last_error WHEN 'cancelled' THEN 'cancelled' ELSE NEW.state END,
    ended_at = NEW.finished_at WHERE task_id = NEW.id;
  RETURN NULL;
END $$;
CREATE TRIGGER audit_task_ended AFTER UPDATE OF state ON task FOR EACH ROW
  WHEN (OLD.finished_at IS NULL AND NEW.finished_at IS NOT NULL AND NEW.instance_id <> '')
  EXECUTE FUNCTION audit_task_ended();

-- A task that its own transaction deletes again was never recorded.
CREATE FUNCTION audit_task_taken_back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM audit WHERE task_id = OLD.id;
  RETURN NULL;
END $$;
CREATE TRIGGER audit_task_taken_back AFTER DELETE ON task FOR EACH ROW WHEN (OLD.finished_at IS NULL)
  EXECUTE FUNCTION audit_task_taken_back();
