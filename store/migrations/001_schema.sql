-- The schema of PostgreSQL: what brokers record of service instances, of what they do about them, and of what that
-- leaves on the servers. Times are PostgreSQL's own. Passwords and private keys are encrypted (store/keyset.go).

-- Shared servers that ever held an instance or were drained. The number of their instances is kept here, so that
-- placing one takes no count, and two brokers cannot overfill a server.
CREATE TABLE server (
  name          text PRIMARY KEY,                  -- as in the configuration
  instances     int NOT NULL DEFAULT 0 CHECK (instances >= 0),
  drained_since timestamptz                        -- since when it is to get no more instances; the present stay
);

-- Service instances, with every choice made for them. Deleted instances have no row.
CREATE TABLE instance (
  id                  text PRIMARY KEY,            -- the platform's
  service_id          text NOT NULL,
  plan_id             text NOT NULL,
  organization_guid   text NOT NULL DEFAULT '',
  space_guid          text NOT NULL DEFAULT '',
  parameters          jsonb NOT NULL DEFAULT '{}', -- as the platform asked
  context             jsonb NOT NULL DEFAULT '{}', -- as the platform sent it: names of organization and space
  maintenance_version text NOT NULL DEFAULT '',
  state               text NOT NULL CHECK (state IN ('creating', 'ready', 'create failed', 'delete failed')),
  server              text NOT NULL DEFAULT '',    -- the shared server's name, '' with a dedicated server
  dedicated_id        text NOT NULL DEFAULT '',    -- the dedicated server's id at the launcher, '' on a shared server
  launcher            text NOT NULL DEFAULT 'process', -- who runs the dedicated server; without one, it means nothing
  location_kind       text GENERATED ALWAYS AS (CASE WHEN dedicated_id = '' THEN 'shared' ELSE 'dedicated' END) STORED,
  endpoint            jsonb,                       -- where the dedicated server listens, as its launcher reported last;
                                                   -- NULL until a broker knows
  server_flavour      text NOT NULL DEFAULT '',    -- 'mysql' or 'mariadb', and the version, as the dedicated server
  server_version      text NOT NULL DEFAULT '',    -- reported them last; '' until a broker has asked
  database_name       text NOT NULL UNIQUE,        -- never used twice
  admin_password      bytea,                       -- the dedicated server's, encrypted
  created_at          timestamptz NOT NULL DEFAULT now(),
  updated_at          timestamptz NOT NULL DEFAULT now(),
  next_admin_password bytea,                       -- what admin_password is being changed to, encrypted: the server may
                                                   -- have either
  over_since          timestamptz,                 -- since when accounts may add no data, as the quota is used up
  frozen_since        timestamptz,                 -- since when accounts may not write, because a restore in place
                                                   -- failed and could not be undone; NULL: they may
  former_plans        text[] NOT NULL DEFAULT '{}', -- that it had before: platforms go on naming the one they know
  -- While data is moved, these columns say where to; what is there already is no orphan. Afterwards they say where it
  -- was before, until that place is removed. Otherwise they are NULL.
  next_server          text,
  next_dedicated_id    text,
  next_launcher        text,
  moved_at             timestamptz,                -- NULL until the data was moved
  other_admin_password bytea,                      -- of the dedicated server there, encrypted
  CHECK ((server = '') <> (dedicated_id = '')),
  CHECK ((next_server IS NULL) = (next_dedicated_id IS NULL) AND (next_server IS NULL) = (next_launcher IS NULL)),
  CHECK ((next_server = '') <> (next_dedicated_id = ''))
);
CREATE INDEX instance_plan ON instance (plan_id, server);
CREATE INDEX instance_organization ON instance (organization_guid, plan_id); -- counts those of one, for its limit
CREATE INDEX instance_moved ON instance (moved_at) WHERE moved_at IS NOT NULL;
CREATE INDEX instance_over ON instance (server) WHERE over_since IS NOT NULL;
-- Which encryption keys are in use, and where (store/keys.go): what a ciphertext begins with names its key.
CREATE INDEX instance_key ON instance (substr(admin_password, 1, 5)) WHERE admin_password IS NOT NULL;
CREATE INDEX instance_next_key ON instance (substr(next_admin_password, 1, 5)) WHERE next_admin_password IS NOT NULL;
CREATE INDEX instance_other_key ON instance (substr(other_admin_password, 1, 5)) WHERE other_admin_password IS NOT NULL;

-- Service bindings, each with the MySQL account that was made for it.
CREATE TABLE binding (
  instance_id text NOT NULL REFERENCES instance ON DELETE CASCADE,
  id          text NOT NULL,                       -- the platform's
  state       text NOT NULL CHECK (state IN ('creating', 'ready', 'ending')),
  app_guid    text NOT NULL DEFAULT '',            -- '' for a service key
  space_guid  text NOT NULL DEFAULT '',            -- the space and the organization that use it, where the platform
  organization_guid text NOT NULL DEFAULT '',      -- says so: not the instance's if that is shared with another space
  parameters  jsonb NOT NULL DEFAULT '{}',         -- as the platform asked
  role        text NOT NULL,
  account     text NOT NULL UNIQUE,                -- its name on the server; never used twice
  password    bytea NOT NULL,                      -- encrypted
  created_at  timestamptz NOT NULL DEFAULT now(),
  expires_at  timestamptz,                         -- when it ends by itself; NULL for never
  predecessor text NOT NULL DEFAULT '',            -- the binding whose rights it got when it was created as that one's
                                                   -- successor, '' if it is nobody's. It may be gone
  credhub_name   text NOT NULL DEFAULT '',         -- where its credentials are in CredHub, and who may read them
  credhub_reader text NOT NULL DEFAULT '',         -- there; '' if the broker sent them itself
  grants_due  boolean NOT NULL DEFAULT true,       -- whether the account may have other privileges than it should;
                                                   -- brokers then set them
  tls         text NOT NULL DEFAULT '',            -- 'required': the account may log in with TLS only; 'optional'
  events      boolean,                             -- whether the account was last given EVENT. NULL: not known
  PRIMARY KEY (instance_id, id)
);
CREATE INDEX binding_grants_due ON binding (instance_id) WHERE grants_due IS NOT FALSE;
CREATE INDEX binding_expiry ON binding (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX binding_key ON binding (substr(password, 1, 5)); -- as instance_key

-- Bindings that have ended by themselves, for their platform, which may not know: its request to delete one succeeds
-- once.
CREATE TABLE expired_binding (
  instance_id text NOT NULL REFERENCES instance ON DELETE CASCADE,
  id          text NOT NULL,
  expired_at  timestamptz NOT NULL,                -- when it was to end
  ended_at    timestamptz NOT NULL DEFAULT now(),  -- when it did
  PRIMARY KEY (instance_id, id)
);

-- Accounts whose binding is gone but in whose name views, triggers, routines or events run. They are locked, and go
-- with their instance.
CREATE TABLE retired_account (
  account     text PRIMARY KEY,
  instance_id text NOT NULL REFERENCES instance ON DELETE CASCADE,
  retired_at  timestamptz NOT NULL DEFAULT now(),
  role        text NOT NULL DEFAULT '',            -- the binding's, '' if it is not known
  grants_due  boolean NOT NULL DEFAULT true,       -- as in binding: views and routines go on using the privileges
  events      boolean                              -- as in binding
);
CREATE INDEX retired_account_instance ON retired_account (instance_id);
CREATE INDEX retired_account_grants_due ON retired_account (instance_id) WHERE grants_due;

-- Objects of which a server was asked for the definition when the connection to it was lost. If it has begun again
-- since then, it is not asked any more: another copy would end it for all its tenants again. A copy that succeeds
-- forgets them: they are gone.
CREATE TABLE fatal_object (
  instance_id text NOT NULL REFERENCES instance ON DELETE CASCADE,
  object      text NOT NULL,                       -- its kind and name
  version     text NOT NULL,                       -- of the server: another one may have been mended
  asked_at    timestamptz NOT NULL,
  PRIMARY KEY (instance_id, object)
);

-- What is on the servers: everything that was ever to be made there, and has not been seen to be gone since. Rows come
-- with those of instances and bindings, in the same statement (store/resources.go). What is in here and belongs to no
-- instance any more, but is still there, is an orphan of this broker; what is not in here is somebody else's, whatever
-- its name. Databases and accounts on a dedicated server go with it and are not in here.
CREATE TABLE resource (
  kind        text NOT NULL CHECK (kind IN ('database', 'account', 'dedicated server')),
  server      text NOT NULL,                       -- the shared server's name, '' for dedicated servers
  name        text NOT NULL,                       -- never used twice
  launcher    text NOT NULL DEFAULT 'process',     -- who runs a dedicated server, as in the table instance
  instance_id text NOT NULL,                       -- no foreign key: it outlives the instance
  recorded_at timestamptz NOT NULL DEFAULT now(),
  gone_since  timestamptz,                         -- when the doctor first saw that what ended is not on its server
  PRIMARY KEY (kind, server, name)
);

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
  until               timestamptz NOT NULL,        -- then the data is dropped
  adopted_by          text UNIQUE,                 -- the instance that is being created from it
  purged_since        timestamptz,                 -- since when the data is being dropped: it cannot come back
  frozen_since        timestamptz,                 -- as in the table instance
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

-- Operations: in progress, and those that ended lately, which platforms may still ask about.
CREATE TABLE task (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the platform sees task_<id>
  instance_id text NOT NULL,                       -- '' for one that a schedule has recorded. No foreign key: the
                                                   -- response outlives the instance
  binding_id  text NOT NULL DEFAULT '',            -- '' for the instance's own operations
  kind        text NOT NULL,                       -- 'provision', 'bind', …: see the Kinds of provisioner/…
  plan_id     text NOT NULL,
  state       text NOT NULL DEFAULT 'in progress' CHECK (state IN ('in progress', 'succeeded', 'failed')),
  phase       text NOT NULL DEFAULT 'forward' CHECK (phase IN ('forward', 'cleanup')), -- 'cleanup': it is being undone
  request     jsonb NOT NULL DEFAULT '{}',         -- what was asked, to recognise a repeat
  actor       jsonb NOT NULL DEFAULT '{}',         -- who asked for it: see store/audit.go
  step        text NOT NULL DEFAULT '',            -- the last finished step of the phase
  description text NOT NULL DEFAULT '',            -- for users
  last_error  text NOT NULL DEFAULT '',            -- for operators
  attempt     int NOT NULL DEFAULT 0,              -- of the present step; counts crashes too
  epoch       bigint NOT NULL DEFAULT 0,           -- the fencing token: grows with each lease
  run_at      timestamptz NOT NULL DEFAULT now(),  -- when it is due
  lease_owner text,                                -- the worker that is at it, or was when it died
  lease_until timestamptz,
  created_at  timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  server      text NOT NULL DEFAULT '',            -- a shared server's name or a dedicated server's id
  memory      jsonb NOT NULL DEFAULT '{}',         -- what its steps remember for later attempts, by name
  progressed_at timestamptz,                       -- when it last finished a step, copied more than ever before, or
                                                   -- waited for its turn; NULL: not yet
  CHECK ((state = 'in progress') = (finished_at IS NULL)),
  CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) WITH (
  -- The default, a fifth of the table, would let a million dead rows pile up, and with them dead entries in the small
  -- indexes of tasks in progress.
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000
);
-- One task in progress at a time for each instance and each binding; of tasks without an instance, one of each kind.
CREATE UNIQUE INDEX task_one_active ON task (instance_id, binding_id, (CASE instance_id WHEN '' THEN kind ELSE '' END))
  WHERE state = 'in progress';
-- Its condition is written as nowhere else: an index whose condition is that of a query may be read from end to end,
-- with an entry for every task that ended since the last vacuum, to find the few tasks of one instance.
CREATE INDEX task_due ON task (run_at, id) WHERE finished_at IS NULL;
CREATE INDEX task_leased ON task (instance_id) WHERE lease_until IS NOT NULL;
CREATE INDEX task_latest ON task (instance_id, binding_id, id DESC);
CREATE INDEX task_finished ON task (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX task_failed ON task (id) WHERE state = 'failed';

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

-- When brokers are to record the next task of a kind that has a schedule (store/schedule.go).
CREATE TABLE schedule (
  kind    text PRIMARY KEY,
  next_at timestamptz NOT NULL
);

-- Who did what, when, to which instance. See store/audit.go.
CREATE TABLE audit (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at          timestamptz NOT NULL DEFAULT now(),
  actor       jsonb NOT NULL DEFAULT '{}',         -- who: see store/audit.go
  action      text NOT NULL,                       -- the kind of the task, or what the command did
  instance_id text NOT NULL DEFAULT '',
  binding_id  text NOT NULL DEFAULT '',
  plan_id     text NOT NULL DEFAULT '',            -- of an update: the new one
  object      text NOT NULL DEFAULT '',            -- what else it is about: a server's name
  task_id     bigint,
  result      text NOT NULL,                       -- 'in progress', 'succeeded', 'failed', 'cancelled', or 'begun'
  ended_at    timestamptz
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_instance ON audit (instance_id, id DESC) WHERE instance_id <> '';
CREATE INDEX audit_task ON audit (task_id) WHERE task_id IS NOT NULL;

-- When a platform was told that there is no instance of an id: a request of before that must not make one afterwards
-- (store/operations.go). Brokers forget it after some hours.
CREATE TABLE absence (
  instance_id text PRIMARY KEY,
  reported_at timestamptz NOT NULL
);
CREATE INDEX absence_age ON absence (reported_at);

-- Backups in the object store. They outlive their instances, so that there is no foreign key.
CREATE TABLE backup (
  id                text PRIMARY KEY,              -- the broker's own, also in the object store
  instance_id       text NOT NULL,
  instance_name     text NOT NULL DEFAULT '',      -- that the platform gave to the instance
  service_id        text NOT NULL,
  plan_id           text NOT NULL,
  platform          text NOT NULL DEFAULT '',      -- whose it is: see provisioner/copying/source.go
  organization_guid text NOT NULL DEFAULT '',
  space_guid        text NOT NULL DEFAULT '',
  reason            text NOT NULL,                 -- 'request', 'schedule', 'operator' or 'restore'
  state             text NOT NULL CHECK (state IN ('in progress', 'complete', 'deleting')),
  flavour           text NOT NULL DEFAULT '',      -- 'MySQL' or 'MariaDB'
  version           text NOT NULL DEFAULT '',      -- of the server
  created_at        timestamptz NOT NULL DEFAULT now(),
  taken_at          timestamptz,                   -- the data is not older than this; NULL until it is complete
  finished_at       timestamptz,
  keep_until        timestamptz NOT NULL,          -- then it is deleted
  data_bytes        bigint NOT NULL DEFAULT 0,     -- of the database
  bytes             bigint NOT NULL DEFAULT 0,     -- in the object store
  tables            bigint NOT NULL DEFAULT 0,
  table_rows        bigint NOT NULL DEFAULT 0,
  verified_at       timestamptz,                   -- when it was last restored and compared
  verify_error      text NOT NULL DEFAULT '',      -- why it could not be restored
  verify_refused    text NOT NULL DEFAULT '',      -- why it could not be verified when that was last tried: the
                                                   -- settings of a shared server refused it; '': they did not
  verify_refused_at timestamptz,                   -- when that was
  CHECK ((state = 'in progress') = (taken_at IS NULL) OR state = 'deleting')
);
CREATE INDEX backup_instance ON backup (instance_id, created_at DESC);
CREATE INDEX backup_until ON backup (keep_until);

-- Archives of the binary logs of dedicated servers, in the object store. They outlive their instances, so that there is
-- no foreign key. An archive has no gaps: where there would be one, it ends, and another one begins.
CREATE TABLE binary_log (
  id          text PRIMARY KEY,                   -- the broker's own, also in the object store
  instance_id text NOT NULL,
  server      text NOT NULL,                      -- the dedicated server, as in instance.dedicated_id
  launcher    text NOT NULL DEFAULT '',
  begin_file  text NOT NULL,                      -- where it begins
  begin_at    bigint NOT NULL,
  file        text NOT NULL,                      -- up to where the server's logs are archived
  position    bigint NOT NULL,
  file_began  bigint NOT NULL DEFAULT 0,          -- when the server began that file, in seconds since 1970; 0: unknown
  began_at    timestamptz NOT NULL,               -- by the server's clock, as is until
  until       timestamptz NOT NULL,               -- what was committed before is archived
  bytes       bigint NOT NULL DEFAULT 0,          -- in the object store, as far as it was not deleted
  ended_at    timestamptz,                        -- NULL while it grows
  end_reason  text NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX binary_log_grows ON binary_log (instance_id) WHERE ended_at IS NULL;
CREATE INDEX binary_log_instance ON binary_log (instance_id);

-- Where in an archive a backup was taken.
CREATE TABLE backup_position (
  backup_id text PRIMARY KEY REFERENCES backup ON DELETE CASCADE,
  log_id    text NOT NULL,
  file      text NOT NULL,
  position  bigint NOT NULL,
  taken_at  timestamptz NOT NULL                  -- what is in it was committed before, by the server's clock
);
CREATE INDEX backup_position_log ON backup_position (log_id);

-- What may be in CredHub. A row comes with its binding, in the same statement, and stays until the broker has deleted
-- what CredHub has.
CREATE TABLE credhub_entry (
  name        text PRIMARY KEY,                            -- never used twice
  reader      text NOT NULL,
  account     text NOT NULL UNIQUE,                        -- of the binding
  instance_id text NOT NULL,                               -- no foreign key: it outlives the binding
  binding_id  text NOT NULL,
  stored      bytea,                                       -- a hash of what CredHub has; NULL: not known
  attempt     bigint NOT NULL DEFAULT 0,                   -- to store it; grows
  checked_at  timestamptz NOT NULL DEFAULT now(),          -- when a broker last compared that with what it should have
  ended_at    timestamptz,                                 -- when a broker first saw that its binding is gone
  deleted_at  timestamptz                                  -- when CredHub last had nothing, or nothing more, of a
                                                           -- binding that is gone; NULL: it may have something
);
CREATE INDEX credhub_entry_checked ON credhub_entry (checked_at);
CREATE INDEX credhub_entry_instance ON credhub_entry (instance_id);

-- What the data of instances took when they were last measured. It is a table of its own, as it changes far more often
-- than instances do, and has no foreign key, which each deletion would have to check: brokers remove in the background
-- what deleted instances have left.
CREATE TABLE storage_usage (
  database_name text PRIMARY KEY,                  -- never used twice, while ids are
  bytes         bigint NOT NULL,
  measured_at   timestamptz NOT NULL,              -- on a shared server, when they became so many; else the last time
  level         smallint NOT NULL DEFAULT 0,       -- how many per cent of the quota were reached: 80, 90, 100, or 0
  sampled_bytes bigint,                            -- as in the last row of storage_sample
  sampled_at    timestamptz
) WITH (fillfactor = 80);
CREATE INDEX storage_usage_level ON storage_usage (level) WHERE level > 0;

-- When all databases of a shared server were last measured. Those whose data is as it was have no row rewritten.
CREATE TABLE storage_measurement (
  server      text PRIMARY KEY,                    -- '' for the dedicated servers, all together
  measured_at timestamptz NOT NULL
);

-- The history of what data took, for the dashboard: each row holds until the next.
CREATE TABLE storage_sample (
  database_name text NOT NULL,
  at            timestamptz NOT NULL,
  bytes         bigint NOT NULL,
  PRIMARY KEY (database_name, at)
);
CREATE INDEX storage_sample_age ON storage_sample (at);

-- Periodic work that one broker at a time does, and which broker that is.
CREATE TABLE leader_lease (
  name     text PRIMARY KEY,                       -- of the work
  owner    text NOT NULL,                          -- who does it, or did it last
  until    timestamptz NOT NULL,                   -- nobody else may begin before
  began_at timestamptz NOT NULL,
  pause    interval NOT NULL                       -- from there to the next time
);

-- Who is signed in to the dashboard. Both the id and the key to what is sealed are derived from a secret that only the
-- person's browser has.
CREATE TABLE session (
  id      bytea PRIMARY KEY,
  sealed  bytea NOT NULL,
  ends_at timestamptz NOT NULL
);
CREATE INDEX session_end ON session (ends_at);

-- The certificate authorities of dedicated servers. Clients trust all of them; the one that began to sign last signs.
CREATE TABLE authority (
  id          int PRIMARY KEY,
  certificate text NOT NULL,                       -- PEM
  key         bytea NOT NULL,                      -- PEM, encrypted
  signs_since timestamptz,                         -- NULL: only trusted yet
  takes_over  boolean NOT NULL DEFAULT false,      -- servers that have a CA of their own get a certificate of this one
  made_at     timestamptz NOT NULL DEFAULT now()
);

-- One row, which shows whether this PostgreSQL was restored from a backup (store/hold.go). Once a minute, the shared
-- servers and the launcher's directory are told the latest task, as a high-water mark: a PostgreSQL that does not know
-- that task is older than the servers.
CREATE TABLE mark (
  single      boolean PRIMARY KEY DEFAULT true CHECK (single), -- there is one row
  identity    text NOT NULL DEFAULT gen_random_uuid()::text, -- tells the marks of several brokers apart
  -- The transaction that wrote this version of the row. Whoever loads a dump writes it in another one, so that a
  -- restored row differs from its xmin. Physical copies and pg_upgrade keep both.
  written_by  xid NOT NULL DEFAULT pg_current_xact_id()::xid,
  held_since  timestamptz,                         -- since when nothing may be removed or changed on servers,
                                                   -- because they know more than this PostgreSQL does
  held_reason text NOT NULL DEFAULT ''
);
INSERT INTO mark DEFAULT VALUES;

-- What all brokers on this database share.
CREATE TABLE secret (
  name  text PRIMARY KEY,                          -- 'session lock', or 'keyset' (store/keys.go)
  value text NOT NULL
);
-- The key to the names of the locks on MySQL servers: an application that could guess a name could hold the lock.
INSERT INTO secret VALUES ('session lock', gen_random_uuid()::text || gen_random_uuid()::text);
