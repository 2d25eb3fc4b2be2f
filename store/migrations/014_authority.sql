-- The certificate authorities of dedicated servers. Clients trust all of them; the one that began to sign last signs.
CREATE TABLE authority (
  id          int PRIMARY KEY,
  certificate text NOT NULL,                       -- PEM
  key         bytea NOT NULL,                      -- PEM, encrypted
  signs_since timestamptz,                         -- NULL: only trusted yet
  takes_over  boolean NOT NULL DEFAULT false,      -- servers that have a CA of their own get a certificate of this one
  made_at     timestamptz NOT NULL DEFAULT now()
);
