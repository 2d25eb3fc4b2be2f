-- When a platform was told that there is no instance of an id: a request of before that must not make one afterwards.
-- Brokers forget it after some hours; brokers that do not know this table neither write nor heed it.
CREATE TABLE absence (
  instance_id text PRIMARY KEY,
  told_at     timestamptz NOT NULL
);
CREATE INDEX absence_age ON absence (told_at);
