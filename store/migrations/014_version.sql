-- The flavour ('mysql' or 'mariadb') and version of a dedicated server, as it reported them last; '' until a broker has
-- asked.
ALTER TABLE instance ADD COLUMN server_flavour text NOT NULL DEFAULT '', ADD COLUMN server_version text NOT NULL DEFAULT '';
