-- Creates the broker's account on a shared MySQL server, 8.0 or later, with exactly the privileges that it needs. It
-- reaches databases whose names begin with db_, which should be the broker's alone, and no other data.
-- Replace PASSWORD, and run it as an administrator. If the account exists, it keeps its password. partial_revokes must be
-- OFF, as it is by default: with it, MySQL does not accept patterns in the names of databases.

CREATE USER IF NOT EXISTS 'mysql_broker'@'%' IDENTIFIED BY 'PASSWORD';

-- the accounts of bindings
GRANT CREATE USER ON *.* TO 'mysql_broker'@'%';
-- to see their sessions, and the sizes of databases
GRANT PROCESS ON *.* TO 'mysql_broker'@'%';
-- to end sessions, and to log in when all connections are taken
GRANT CONNECTION_ADMIN ON *.* TO 'mysql_broker'@'%';
-- to name the prepared transactions that keep a database from being dropped
GRANT XA_RECOVER_ADMIN ON *.* TO 'mysql_broker'@'%';
-- to measure the size of routines (8.0.20 or later)
GRANT SHOW_ROUTINE ON *.* TO 'mysql_broker'@'%';
-- to find accounts, but not their passwords
GRANT SELECT (user, host) ON mysql.user TO 'mysql_broker'@'%';
GRANT SELECT (user, db) ON mysql.db TO 'mysql_broker'@'%';
-- to compare the privileges of accounts with their roles (without it, the doctor does not)
GRANT SELECT ON mysql.db TO 'mysql_broker'@'%';
-- the databases of instances, and what bindings may do in them
GRANT ALL PRIVILEGES ON `db\_%`.* TO 'mysql_broker'@'%' WITH GRANT OPTION;
