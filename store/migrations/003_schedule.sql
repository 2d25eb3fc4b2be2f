-- When brokers are to record the next task of a kind that has a schedule (store/schedule.go). Such tasks have no instance:
-- their instance_id, binding_id and plan_id are ''.
CREATE TABLE schedule (
  kind    text PRIMARY KEY,
  next_at timestamptz NOT NULL
);

-- One task in progress at a time for each instance and each binding; of tasks without an instance, one of each kind.
DROP INDEX task_one_active;
CREATE UNIQUE INDEX task_one_active ON task (instance_id, binding_id, (CASE instance_id WHEN '' THEN kind ELSE '' END))
  WHERE state = 'in progress';

-- Every released broker records whether an account may have other privileges than it should.
UPDATE binding SET grants_due = true WHERE grants_due IS NULL;
ALTER TABLE binding ALTER COLUMN grants_due SET DEFAULT true, ALTER COLUMN grants_due SET NOT NULL;
