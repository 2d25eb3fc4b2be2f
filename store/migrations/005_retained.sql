-- What deleted instances have left and can come back from: a database on a shared server whose accounts can do nothing,
-- or a dedicated server that is suspended. It counts as one of the instances of its shared server.
CREATE TABLE retained (
  id                  text PRIMARY KEY,            -- the broker's own
  instance_id         text NOT NULL,               -- of the deleted instance; the platform may use it again
  name                text NOT NULL DEFAULT '',    -- that the platform gave to the deleted instance
  service_id          text NOT NULL,
  plan_id             text NOT NULL,
  organization_guid   text NOT NULL,
  space_guid          text NOT NULL,
  platform            text NOT NULL DEFAULT '',    -- the platform, as the requests name it
  server              text NOT NULL,               -- the location, as in the table instance
  dedicated_id        text NOT NULL,
  launcher            text NOT NULL,
  location_kind       text NOT NULL GENERATED ALWAYS AS
                        (CASE WHEN dedicated_id = '' THEN 'shared' ELSE 'dedicated' END) STORED,
  database_name       text NOT NULL UNIQUE,
  admin_password      bytea,                       -- as in the table instance, bound to the deleted instance's id
  next_admin_password bytea,
  bytes               bigint,                      -- of data at the last measurement; NULL if there was none
  deleted_at          timestamptz NOT NULL DEFAULT now(),
  until               timestamptz NOT NULL,        -- then the data are dropped
  adopted_by          text UNIQUE,                 -- the instance that is being created from it
  purged_since        timestamptz,                 -- since when the data are being dropped: they cannot come back
  CHECK ((server = '') <> (dedicated_id = '')),
  CHECK (adopted_by IS NULL OR purged_since IS NULL)
);
CREATE INDEX retained_space ON retained (space_guid);
CREATE INDEX retained_until ON retained (until);
CREATE INDEX retained_dedicated ON retained (dedicated_id) WHERE dedicated_id <> '';
CREATE INDEX retained_key ON retained (substr(admin_password, 1, 5)) WHERE admin_password IS NOT NULL;
CREATE INDEX retained_next_key ON retained (substr(next_admin_password, 1, 5)) WHERE next_admin_password IS NOT NULL;

-- The accounts that are still on the server, because views, triggers, routines or events run in their names. On a
-- suspended server these are all accounts of the deleted instance.
CREATE TABLE retained_account (
  account     text PRIMARY KEY,
  retained_id text NOT NULL REFERENCES retained ON DELETE CASCADE,
  role        text NOT NULL
);
CREATE INDEX retained_account_retained ON retained_account (retained_id);
