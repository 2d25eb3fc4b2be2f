-- The password that the admin account of a dedicated server is being given, encrypted. The server may have it already;
-- admin_password is the one to try first. Brokers that do not know this column find the new one in admin_password as
-- soon as the change is complete.
ALTER TABLE instance ADD COLUMN next_admin_password bytea;
