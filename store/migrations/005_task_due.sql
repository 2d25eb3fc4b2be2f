-- What has an index in common with others by its condition is looked up in whichever of them PostgreSQL takes for the
-- smallest: it read this one from end to end, with an entry for every task that ended since the last vacuum, to find the
-- tasks in progress of one instance. Its condition, which says the same, is now written as nobody else writes it. Brokers
-- that claim tasks by the other one find those in task_one_active.
DROP INDEX task_due;
CREATE INDEX task_due ON task (run_at, id) WHERE finished_at IS NULL;
