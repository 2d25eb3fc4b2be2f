-- Who is signed in to the dashboard. Both the id and the key to what is sealed are derived from a secret that only the
-- person's browser has.
CREATE TABLE session (
	id      bytea PRIMARY KEY,
	sealed  bytea NOT NULL,
	ends_at timestamptz NOT NULL
);
CREATE INDEX session_end ON session (ends_at);
