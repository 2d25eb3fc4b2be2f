-- The server that a task works on: a shared server's name or a dedicated server's id. A broker passes over the tasks of
-- servers that keep enough of its workers busy, or do not answer. '' is what brokers leave that do not know of this.
ALTER TABLE task ADD COLUMN server text NOT NULL DEFAULT '';
UPDATE task SET server = coalesce((SELECT i.server || i.dedicated_id FROM instance i WHERE i.id = task.instance_id), '')
WHERE state = 'in progress';
