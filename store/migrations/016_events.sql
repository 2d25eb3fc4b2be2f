-- Whether an account was last given the privilege EVENT. NULL is what brokers leave that know nothing of that: they give it
-- to all but read-only accounts.
ALTER TABLE binding ADD COLUMN events boolean;
ALTER TABLE retired_account ADD COLUMN events boolean;
