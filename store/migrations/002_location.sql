-- Who runs an instance's dedicated server: the name of a launcher. It means nothing for one on a shared server. Brokers
-- that do not know this column know this launcher only.
ALTER TABLE instance ADD COLUMN launcher text NOT NULL DEFAULT 'process';

-- Where the data of an instance are being moved to; NULL if they are not. What is there already is no orphan.
ALTER TABLE instance ADD COLUMN next_server text, ADD COLUMN next_dedicated_id text, ADD COLUMN next_launcher text,
  ADD CHECK ((next_server IS NULL) = (next_dedicated_id IS NULL) AND (next_server IS NULL) = (next_launcher IS NULL)),
  ADD CHECK ((next_server = '') <> (next_dedicated_id = ''));
