-- The plans that an instance had before: platforms go on naming the one that they know, which may be gone from the
-- catalog.
ALTER TABLE instance ADD COLUMN former_plans text[] NOT NULL DEFAULT '{}';

-- A trigger, so that nothing is left out by an older broker that runs beside newer ones during a rolling upgrade.
CREATE FUNCTION record_former_plan() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.former_plans := array_append(array_remove(NEW.former_plans, OLD.plan_id), OLD.plan_id);
  RETURN NEW;
END
$$;
CREATE TRIGGER record_former_plan BEFORE UPDATE OF plan_id ON instance FOR EACH ROW
  WHEN (OLD.plan_id <> NEW.plan_id) EXECUTE FUNCTION record_former_plan();
