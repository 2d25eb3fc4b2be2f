-- What the steps of a task remember, by name: a later attempt, in another process perhaps, goes on from there.
ALTER TABLE task ADD COLUMN memory jsonb NOT NULL DEFAULT '{}';

-- The kinds of tasks are those that brokers register: see provisioner/kinds.go.
ALTER TABLE task DROP CONSTRAINT task_kind_check;
