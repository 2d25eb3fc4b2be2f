-- The schema of PostgreSQL: what brokers record of service instances, of what they do about them, and of what that
-- leaves on the servers. Times are PostgreSQL's own. Passwords and private keys are encrypted (store/keyring.go).

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
  database_name       text NOT NULL UNIQUE,        -- never used twice
  admin_password      bytea,                       -- the dedicated server's, encrypted
  created_at          timestamptz NOT NULL DEFAULT now(),
  updated_at          timestamptz NOT NULL DEFAULT now(),
  next_admin_password bytea,                       -- what admin_password is being changed to, encrypted: the server may
                                                   -- have either
  over_since          timestamptz,                 -- since when accounts may add no data, as the quota is used up
  former_plans        text[] NOT NULL DEFAULT '{}', -- that it had before: platforms go on naming the one they know
  CHECK ((server = '') <> (dedicated_id = ''))
);
CREATE INDEX instance_plan ON instance (plan_id, server);
CREATE INDEX instance_over ON instance (server) WHERE over_since IS NOT NULL;
-- Which encryption keys are in use, and where (store/rotatekeys.go): what a ciphertext begins with names its key.
CREATE INDEX instance_key ON instance (substr(admin_password, 1, 5)) WHERE admin_password IS NOT NULL;
CREATE INDEX instance_next_key ON instance (substr(next_admin_password, 1, 5)) WHERE next_admin_password IS NOT NULL;

-- Service bindings, each with the MySQL account that was made for it.
CREATE TABLE binding (
  instance_id text NOT NULL REFERENCES instance ON DELETE CASCADE,
  id          text NOT NULL,                       -- the platform's
  state       text NOT NULL CHECK (state IN ('creating', 'ready', 'ending')),
  app_guid    text NOT NULL DEFAULT '',            -- '' for a service key
  parameters  jsonb NOT NULL DEFAULT '{}',         -- as the platform asked
  role        text NOT NULL,
  account     text NOT NULL UNIQUE,                -- its name on the server; never used twice
  password    bytea NOT NULL,                      -- encrypted
  created_at  timestamptz NOT NULL DEFAULT now(),
  grants_due  boolean,                             -- whether the account may have other privileges than it should;
                                                   -- brokers then set them. NULL: not known
  tls         text NOT NULL DEFAULT '',            -- 'required': the account may log in with TLS only; 'optional';
                                                   -- '': not known, it requires TLS where the server's CA is known
  events      boolean,                             -- whether the account was last given EVENT. NULL: not known
  PRIMARY KEY (instance_id, id)
);
CREATE INDEX binding_grants_due ON binding (instance_id) WHERE grants_due IS NOT FALSE;
CREATE INDEX binding_key ON binding (substr(password, 1, 5)); -- as instance_key

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

-- What is on the servers: everything that was ever to be made there, and has not been seen to be gone since. Rows come
-- with those of instances and bindings, in the same statement (store/resources.go). What is in here and belongs to no
-- instance any more, but is still there, is an orphan of this broker; what is not in here is somebody else's, whatever
-- its name. Databases and accounts on a dedicated server go with it and are not in here.
CREATE TABLE resource (
  kind        text NOT NULL CHECK (kind IN ('database', 'account', 'dedicated server')),
  server      text NOT NULL,                       -- the shared server's name, '' for dedicated servers
  name        text NOT NULL,                       -- never used twice
  instance_id text NOT NULL,                       -- no foreign key: it outlives the instance
  recorded_at timestamptz NOT NULL DEFAULT now(),
  gone_since  timestamptz,                         -- when the doctor first saw that what ended is not on its server
  PRIMARY KEY (kind, server, name)
);

-- Operations: in progress, and those that ended lately, which platforms may still ask about.
CREATE TABLE task (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the platform sees task_<id>
  instance_id text NOT NULL,                       -- no foreign key: the answer outlives the instance
  binding_id  text NOT NULL DEFAULT '',            -- '' for the instance's own operations
  kind        text NOT NULL,                       -- 'provision', 'bind', …: see the Kinds of provisioner/…
  plan_id     text NOT NULL,
  state       text NOT NULL DEFAULT 'in progress' CHECK (state IN ('in progress', 'succeeded', 'failed')),
  phase       text NOT NULL DEFAULT 'forward' CHECK (phase IN ('forward', 'cleanup')), -- 'cleanup': it is being undone
  request     jsonb NOT NULL DEFAULT '{}',         -- what was asked, to recognise a repeat
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
  CHECK ((state = 'in progress') = (finished_at IS NULL)),
  CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) WITH (
  -- The default, a fifth of the table, would let a million dead rows pile up, and with them dead entries in the small
  -- indexes of tasks in progress.
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000
);
CREATE UNIQUE INDEX task_one_active ON task (instance_id, binding_id) WHERE state = 'in progress';
-- Its condition is written as nowhere else: an index whose condition is that of a query may be read from end to end,
-- with an entry for every task that ended since the last vacuum, to find the few tasks of one instance.
CREATE INDEX task_due ON task (run_at, id) WHERE finished_at IS NULL;
CREATE INDEX task_leased ON task (instance_id) WHERE lease_until IS NOT NULL;
CREATE INDEX task_latest ON task (instance_id, binding_id, id DESC);
CREATE INDEX task_finished ON task (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX task_failed ON task (id) WHERE state = 'failed';

-- When a platform was told that there is no instance of an id: a request of before that must not make one afterwards
-- (store/absence.go). Brokers forget it after some hours.
CREATE TABLE absence (
  instance_id text PRIMARY KEY,
  reported_at timestamptz NOT NULL
);
CREATE INDEX absence_age ON absence (reported_at);

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

-- When all databases of a shared server were last measured. Those whose data are as they were have no row rewritten.
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
  name  text PRIMARY KEY,                          -- 'session lock', or 'keyset' (store/ownkeyset.go)
  value text NOT NULL
);
-- The key to the names of the locks on MySQL servers: an application that could guess a name could hold the lock.
INSERT INTO secret VALUES ('session lock', gen_random_uuid()::text || gen_random_uuid()::text);
