-- Announces, to all brokers on this database, a task that has no lease any more, or never had one: a broker that sleeps
-- until its next look would begin it late. The payload is empty. Recording and renewing a lease is not announced: it
-- happens with every operation, and a broker learns of it at its next look, before the lease can expire. Nor is the end
-- of a task. Commits that announce wait for each other.
CREATE FUNCTION announce_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('mysql_broker', '');
  RETURN NULL;
END
$$;
CREATE TRIGGER task_recorded AFTER INSERT ON task FOR EACH ROW
  WHEN (NEW.finished_at IS NULL AND NEW.lease_until IS NULL) EXECUTE FUNCTION announce_task();
-- The lease of a task that was cancelled, and has ended, may keep the next one of its instance waiting.
CREATE TRIGGER task_released AFTER UPDATE OF run_at, lease_until ON task FOR EACH ROW
  WHEN (NEW.lease_until IS NULL AND (OLD.lease_until IS NOT NULL OR NEW.run_at < OLD.run_at)
    AND (NEW.finished_at IS NULL OR OLD.finished_at IS NOT NULL)) EXECUTE FUNCTION announce_task();
