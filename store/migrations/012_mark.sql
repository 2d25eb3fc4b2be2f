-- Once a minute, the shared servers and the launcher's directory are told the latest task, as a high-water mark. A
-- PostgreSQL that does not know that task was restored from an older backup.
CREATE TABLE mark (
  single      boolean PRIMARY KEY DEFAULT true CHECK (single), -- there is one row
  identity    text NOT NULL DEFAULT gen_random_uuid()::text, -- tells the marks of several brokers apart
  -- The transaction that wrote this version of the row. Whoever loads a dump writes it in another one, so that a
  -- restored row differs from its xmin. Physical copies and pg_upgrade keep both.
  written_by  xid NOT NULL DEFAULT pg_current_xact_id()::xid,
  -- Since when nothing may be removed or changed on servers, because they know more than this PostgreSQL does.
  held_since  timestamptz,
  held_reason text NOT NULL DEFAULT ''
);
INSERT INTO mark DEFAULT VALUES;

CREATE FUNCTION held() RETURNS boolean LANGUAGE sql STABLE AS
  'SELECT EXISTS (SELECT FROM mark WHERE held_since IS NOT NULL OR xmin <> written_by)';

-- Returns the kind of a task that is to be recorded, or fails if such tasks are not begun now. Binds only add, and only
-- to instances that are recorded.
CREATE FUNCTION admitted(kind text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF kind <> 'bind' AND held() THEN
    RAISE EXCEPTION 'PostgreSQL is older than the servers; see mysql-broker recover' USING ERRCODE = 'MB001';
  END IF;
  RETURN kind;
END
$$;
