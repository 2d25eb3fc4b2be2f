-- What the data of instances took when they were last measured, by the names of their databases: those are never used
-- twice, ids are. It is a table of its own, as it changes far more often than instances do, and has no foreign key, which
-- each deletion would have to check: brokers remove in the background what deleted instances have left.
CREATE TABLE storage_usage (
  database_name text PRIMARY KEY,
  bytes         bigint NOT NULL,
  measured_at   timestamptz NOT NULL,               -- on a shared server, when they came to be so many; else the last time
  level         smallint NOT NULL DEFAULT 0,        -- how many per cent of the quota were reached: 80, 90, 100, or 0
  sampled_bytes bigint,                             -- as in the last row of storage_sample
  sampled_at    timestamptz
) WITH (fillfactor = 80);
CREATE INDEX storage_usage_level ON storage_usage (level) WHERE level > 0;

-- When all databases of a shared server were last measured. Those whose data are as they were have no row rewritten.
CREATE TABLE storage_measurement (
  server      text PRIMARY KEY,                     -- '' for the dedicated servers, all together
  measured_at timestamptz NOT NULL
);

-- What the data took at some moments: each until the next.
CREATE TABLE storage_sample (
  database_name text NOT NULL,
  at            timestamptz NOT NULL,
  bytes         bigint NOT NULL,
  PRIMARY KEY (database_name, at)
);
CREATE INDEX storage_sample_age ON storage_sample (at);

-- Work that one broker at a time does now and then.
CREATE TABLE turn (
  name     text PRIMARY KEY,
  owner    text NOT NULL,                           -- who does it, or did it last
  until    timestamptz NOT NULL,                    -- nobody else may begin before
  began_at timestamptz NOT NULL,
  pause    interval NOT NULL                        -- from there to the next time
);

-- Since when the accounts of an instance may add no data.
ALTER TABLE instance ADD COLUMN over_since timestamptz;
CREATE INDEX instance_over ON instance (server) WHERE over_since IS NOT NULL;

-- Whether an account may have other privileges than its instance's over_since asks for. NULL is what brokers leave that
-- know of none of this: they give every account all privileges of its role.
ALTER TABLE binding ADD COLUMN grants_due boolean DEFAULT false;
ALTER TABLE binding ALTER COLUMN grants_due DROP DEFAULT;
CREATE INDEX binding_grants_due ON binding (instance_id) WHERE grants_due IS NOT FALSE;

-- Views, triggers, routines and events go on using the privileges of a retired account.
ALTER TABLE retired_account ADD COLUMN role text NOT NULL DEFAULT ''; -- '' if it is not known
ALTER TABLE retired_account ADD COLUMN grants_due boolean NOT NULL DEFAULT false;
ALTER TABLE retired_account ALTER COLUMN grants_due SET DEFAULT true;
CREATE INDEX retired_account_grants_due ON retired_account (instance_id) WHERE grants_due;
