-- Counts the instances of an organization, for its limit.
CREATE INDEX instance_organization ON instance (organization_guid, plan_id);
