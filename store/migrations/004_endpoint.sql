-- Where a dedicated server listens, as its launcher reported last; NULL until a broker knows.
ALTER TABLE instance ADD COLUMN endpoint jsonb;

-- The kind of the location, so that nobody has to derive it.
ALTER TABLE instance ADD COLUMN location_kind text
  GENERATED ALWAYS AS (CASE WHEN dedicated_id = '' THEN 'shared' ELSE 'dedicated' END) STORED;

-- Who runs a dedicated server, as in the table instance. It means nothing for what is on a shared server.
ALTER TABLE resource ADD COLUMN launcher text NOT NULL DEFAULT 'process';
UPDATE resource SET launcher = i.launcher FROM instance i
  WHERE kind = 'dedicated server' AND i.id = instance_id AND i.dedicated_id = name AND i.launcher <> 'process';
