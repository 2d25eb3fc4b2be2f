-- The space and the organization that use a binding, where the platform says so. They differ from the instance's if it is
-- shared with another space.
ALTER TABLE binding ADD COLUMN space_guid text NOT NULL DEFAULT '', ADD COLUMN organization_guid text NOT NULL DEFAULT '';
