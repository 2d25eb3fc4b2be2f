-- pg_temp.fill fills a database with what brokers leave in years: so many instances in the state ready, twice as many
-- bindings, five times as many tasks that ended in the last 29 days, and the ledger of all that. Each thousand instances
-- have a server of their own, of which no broker need know. Passwords begin with the mark of a key, as those that it
-- encrypts do, and hold nothing of use.
CREATE FUNCTION pg_temp.name(prefix text, n bigint) RETURNS text STABLE LANGUAGE sql AS
  $$ SELECT prefix || translate(left(md5(prefix || n), 20), '0189', 'wxyz') $$;
CREATE FUNCTION pg_temp.guid(kind text, n bigint) RETURNS text STABLE LANGUAGE sql AS
  $$ SELECT md5(kind || n)::uuid::text $$;
CREATE FUNCTION pg_temp.server(n bigint) RETURNS text STABLE LANGUAGE sql AS
  $$ SELECT 'full-' || (n - 1) / 1000 $$;
CREATE FUNCTION pg_temp.password(key bytea, n bigint) RETURNS bytea STABLE LANGUAGE sql AS
  $$ SELECT key || decode(md5('p' || n) || md5('q' || n) || left(md5('r' || n), 36), 'hex') $$;

CREATE FUNCTION pg_temp.fill(instances bigint, key bytea, service text, plans text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  dropped text[];
  statement text;
BEGIN
  SET LOCAL session_replication_role = replica; -- no foreign keys are checked
  SET LOCAL jit = off; -- which takes longer to compile than it saves
  SET LOCAL maintenance_work_mem = '512MB';
  SELECT array_agg(indexdef) INTO dropped FROM pg_indexes
    WHERE schemaname = current_schema AND indexdef NOT LIKE 'CREATE UNIQUE%' AND tablename IN ('instance', 'binding', 'task');
  FOR statement IN SELECT 'DROP INDEX ' || indexname FROM pg_indexes WHERE indexdef = ANY (dropped) LOOP
    EXECUTE statement;
  END LOOP;

  INSERT INTO server SELECT 'full-' || n, least(1000, instances - 1000 * n)
    FROM generate_series(0, (instances - 1) / 1000) n;
  INSERT INTO instance (id, service_id, plan_id, organization_guid, space_guid, parameters, context, maintenance_version,
      state, server, database_name, created_at, updated_at)
    SELECT pg_temp.guid('i', n), service, plans[1 + n % cardinality(plans)], pg_temp.guid('o', n % 1000),
      pg_temp.guid('s', n % 10000), '{}', json_build_object('platform', 'cloudfoundry',
        'organization_guid', pg_temp.guid('o', n % 1000), 'space_guid', pg_temp.guid('s', n % 10000),
        'organization_name', 'organization', 'space_name', 'space', 'instance_name', 'database-' || n)::jsonb,
      '1.0.0', 'ready', pg_temp.server(n), pg_temp.name('db_', n), now() - '29 days'::interval, now() - '29 days'::interval
    FROM generate_series(1, instances) n;
  INSERT INTO binding (instance_id, id, state, app_guid, role, account, password, created_at,
      grants_due)
    SELECT pg_temp.guid('i', (n + 1) / 2), pg_temp.guid('b', n), 'ready', pg_temp.guid('a', n), 'read-write',
      pg_temp.name('u_', n), pg_temp.password(key, n), now() - '29 days'::interval, false
    FROM generate_series(1, 2 * instances) n;
  INSERT INTO resource (kind, server, name, instance_id, recorded_at)
    SELECT 'database', pg_temp.server(n), pg_temp.name('db_', n), pg_temp.guid('i', n), now() - '29 days'::interval
      FROM generate_series(1, instances) n
    UNION ALL SELECT 'account', pg_temp.server((n + 1) / 2), pg_temp.name('u_', n), pg_temp.guid('i', (n + 1) / 2),
      now() - '29 days'::interval FROM generate_series(1, 2 * instances) n;
  -- Of every instance: its provision, two binds that stay, and a bind and an unbind of what is gone.
  INSERT INTO task (instance_id, binding_id, kind, plan_id, state, request, step, epoch, run_at, created_at, finished_at)
    SELECT pg_temp.guid('i', i), CASE k WHEN 0 THEN '' WHEN 1 THEN pg_temp.guid('b', 2 * i - 1)
        WHEN 2 THEN pg_temp.guid('b', 2 * i) ELSE pg_temp.guid('gone', i) END,
      (ARRAY['provision', 'bind', 'bind', 'bind', 'unbind'])[1 + k], plans[1 + i % cardinality(plans)], 'succeeded',
      '{}', '', 1, ended, ended, ended
    FROM (SELECT n, 1 + (n * 7919) % instances AS i, n / instances AS k,
        now() - '29 days'::interval * (5 * instances - n) / (5 * instances) AS ended
      FROM generate_series(0, 5 * instances - 1) n) AS each;

  FOREACH statement IN ARRAY dropped LOOP
    EXECUTE statement;
  END LOOP;
END $$;
