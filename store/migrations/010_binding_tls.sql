-- Whether the account of a binding may log in with TLS only: 'required' or 'optional'. '' is what brokers leave that know
-- nothing of this: their accounts require TLS wherever the server's CA is known.
ALTER TABLE binding ADD COLUMN tls text NOT NULL DEFAULT '';
