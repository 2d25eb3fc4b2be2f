-- Since when a shared server is to get no more instances; those that it holds stay.
ALTER TABLE server ADD COLUMN drained_since timestamptz;

-- A trigger, so that a broker that has not heard of it yet is refused as by the CHECK that keeps servers from being
-- overfilled, and passes the server over. Brokers of an older release, which never will hear of it, are refused too.
CREATE FUNCTION refuse_instance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'shared server % is drained', NEW.name USING ERRCODE = 'check_violation';
END
$$;
CREATE TRIGGER refuse_instance BEFORE UPDATE ON server FOR EACH ROW
  WHEN (OLD.drained_since IS NOT NULL AND NEW.instances > OLD.instances) EXECUTE FUNCTION refuse_instance();
