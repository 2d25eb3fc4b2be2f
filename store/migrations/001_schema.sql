-- How full each shared server is, so that placing a database needs no count and two brokers cannot overfill one.
CREATE TABLE server (
  name      text PRIMARY KEY,
  instances int  NOT NULL DEFAULT 0 CHECK (instances >= 0)
);

CREATE TABLE instance (
  id                  text PRIMARY KEY,
  service_id          text NOT NULL,
  plan_id             text NOT NULL,
  organization_guid   text NOT NULL DEFAULT '',
  space_guid          text NOT NULL DEFAULT '',
  parameters          jsonb NOT NULL DEFAULT '{}',
  context             jsonb NOT NULL DEFAULT '{}',
  maintenance_version text NOT NULL DEFAULT '',
  state               text NOT NULL CHECK (state IN ('creating', 'ready', 'create failed', 'delete failed')),
  server              text NOT NULL DEFAULT '',    -- a shared server's name
  dedicated_id        text NOT NULL DEFAULT '',    -- a dedicated server's id at the launcher
  database_name       text NOT NULL UNIQUE,
  admin_password      bytea,                       -- encrypted; a dedicated server's
  created_at          timestamptz NOT NULL DEFAULT now(),
  updated_at          timestamptz NOT NULL DEFAULT now(),
  CHECK ((server = '') <> (dedicated_id = ''))
);
CREATE INDEX instance_plan ON instance (plan_id, server);

CREATE TABLE binding (
  instance_id text NOT NULL REFERENCES instance ON DELETE CASCADE,
  id          text NOT NULL,
  state       text NOT NULL CHECK (state IN ('creating', 'ready', 'ending')),
  app_guid    text NOT NULL DEFAULT '',
  parameters  jsonb NOT NULL DEFAULT '{}',
  role        text NOT NULL,
  account     text NOT NULL UNIQUE,
  password    bytea NOT NULL,                      -- encrypted
  created_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (instance_id, id)
);

-- Accounts whose binding is gone but that views, triggers, routines or events still name as their definer.
CREATE TABLE retired_account (
  account     text PRIMARY KEY,
  instance_id text NOT NULL REFERENCES instance ON DELETE CASCADE,
  retired_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX retired_account_instance ON retired_account (instance_id);

CREATE TABLE task (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- the platform sees task_<id>
  instance_id text NOT NULL,                       -- no foreign key: the answer outlives the instance
  binding_id  text NOT NULL DEFAULT '',            -- '' for the instance's own operations
  kind        text NOT NULL CHECK (kind IN ('provision', 'update', 'deprovision', 'bind', 'unbind')),
  plan_id     text NOT NULL,
  state       text NOT NULL DEFAULT 'in progress' CHECK (state IN ('in progress', 'succeeded', 'failed')),
  phase       text NOT NULL DEFAULT 'forward' CHECK (phase IN ('forward', 'cleanup')),
  request     jsonb NOT NULL DEFAULT '{}',         -- what was asked, to recognise a repeat
  step        text NOT NULL DEFAULT '',            -- the last finished step of the phase
  description text NOT NULL DEFAULT '',            -- for users
  last_error  text NOT NULL DEFAULT '',            -- for operators
  attempt     int NOT NULL DEFAULT 0,              -- of the present step; counts crashes too
  epoch       bigint NOT NULL DEFAULT 0,           -- the fencing token
  run_at      timestamptz NOT NULL DEFAULT now(),
  lease_owner text,
  lease_until timestamptz,
  created_at  timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  CHECK ((state = 'in progress') = (finished_at IS NULL)),
  CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
);
CREATE UNIQUE INDEX task_one_active ON task (instance_id, binding_id) WHERE state = 'in progress';
CREATE INDEX task_due ON task (run_at, id) WHERE state = 'in progress';
CREATE INDEX task_leased ON task (instance_id) WHERE lease_until IS NOT NULL;
CREATE INDEX task_latest ON task (instance_id, binding_id, id DESC);
CREATE INDEX task_finished ON task (finished_at) WHERE finished_at IS NOT NULL;

-- What all brokers on this database share and nobody else may know.
CREATE TABLE secret (
  name  text PRIMARY KEY,
  value text NOT NULL
);
-- The key to the names of the locks on MySQL servers: an application that could guess a name could hold the lock.
INSERT INTO secret VALUES ('fence', gen_random_uuid()::text || gen_random_uuid()::text);
