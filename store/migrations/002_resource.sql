-- Everything that was ever to be made on a server, and has not been seen to be gone since. Names are never used twice.
-- What is in here and no row of another table wants any more, but is still there, is an orphan of this broker's; what
-- is not in here is somebody else's, whatever its name. A dedicated server's databases and accounts go with it.
CREATE TABLE resource (
  kind        text NOT NULL CHECK (kind IN ('database', 'account', 'dedicated server')),
  server      text NOT NULL,                       -- a shared server's name, '' for dedicated servers
  name        text NOT NULL,
  instance_id text NOT NULL,                       -- no foreign key: it outlives the instance
  recorded_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, server, name)
);

-- Triggers, so that nothing is left out by an older broker that runs beside newer ones during a rolling upgrade.
CREATE FUNCTION record_instance_resource() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO resource (kind, server, name, instance_id)
  VALUES (CASE WHEN NEW.dedicated_id = '' THEN 'database' ELSE 'dedicated server' END, NEW.server,
          CASE WHEN NEW.dedicated_id = '' THEN NEW.database_name ELSE NEW.dedicated_id END, NEW.id)
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$$;
CREATE TRIGGER record_resource AFTER INSERT ON instance FOR EACH ROW EXECUTE FUNCTION record_instance_resource();

CREATE FUNCTION record_binding_resource() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO resource (kind, server, name, instance_id)
  SELECT 'account', server, NEW.account, id FROM instance WHERE id = NEW.instance_id AND server <> ''
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END
$$;
CREATE TRIGGER record_resource AFTER INSERT ON binding FOR EACH ROW EXECUTE FUNCTION record_binding_resource();

-- What is there already. Making the triggers locked out whoever would add more meanwhile.
INSERT INTO resource (kind, server, name, instance_id, recorded_at)
SELECT 'database', server, database_name, id, created_at FROM instance WHERE server <> ''
UNION ALL SELECT 'dedicated server', '', dedicated_id, id, created_at FROM instance WHERE dedicated_id <> ''
UNION ALL SELECT 'account', i.server, b.account, i.id, b.created_at
  FROM binding b JOIN instance i ON i.id = b.instance_id WHERE i.server <> ''
UNION ALL SELECT 'account', i.server, a.account, i.id, a.retired_at
  FROM retired_account a JOIN instance i ON i.id = a.instance_id WHERE i.server <> '';
