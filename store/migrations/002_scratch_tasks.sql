-- The task that fills a database beside that of an instance, to verify or restore a backup: until it has ended, neither
-- the database nor its account is an orphan.
ALTER TABLE resource ADD COLUMN task_id bigint; -- no foreign key: it outlives the task
