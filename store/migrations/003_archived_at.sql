-- When the last round ended that archived all that the server had committed, by the clock of PostgreSQL: that of the
-- server, as in until, may be days ahead. NULL in rows of the release before, until the next round.
ALTER TABLE binary_log ADD COLUMN archived_at timestamptz;
