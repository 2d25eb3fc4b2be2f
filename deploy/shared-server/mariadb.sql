-- Creates the broker's account on a shared MariaDB server, 10.6 or later, with exactly the privileges that it needs. It
-- reaches databases whose names begin with db_, which should be the broker's alone, and no other data. But CREATE USER
-- lets it change the password of any account: MariaDB cannot protect single accounts from it.
-- Replace PASSWORD, and run it as an administrator. If the account exists, it keeps its password.

CREATE USER IF NOT EXISTS 'mysql_broker'@'%' IDENTIFIED BY 'PASSWORD';

-- the accounts of bindings
GRANT CREATE USER ON *.* TO 'mysql_broker'@'%';
-- to see their sessions, and the sizes of databases
GRANT PROCESS ON *.* TO 'mysql_broker'@'%';
-- to end sessions, and to log in when all connections are taken
GRANT CONNECTION ADMIN ON *.* TO 'mysql_broker'@'%';
-- to find accounts, but not their passwords
GRANT SELECT (user, host) ON mysql.user TO 'mysql_broker'@'%';
GRANT SELECT (user, db) ON mysql.db TO 'mysql_broker'@'%';
-- to compare the privileges of accounts with their roles (without it, the doctor does not)
GRANT SELECT ON mysql.db TO 'mysql_broker'@'%';
-- to measure the size of routines and events, and to see quickly that an account defines none
GRANT SELECT (db, definer, body) ON mysql.proc TO 'mysql_broker'@'%';
GRANT SELECT (db, definer, body) ON mysql.event TO 'mysql_broker'@'%';
-- to copy routines with clone_from (without it, instances that have routines are not copied)
GRANT SELECT ON mysql.proc TO 'mysql_broker'@'%';
-- the databases of instances, and what bindings may do in them
GRANT ALL PRIVILEGES ON `db\_%`.* TO 'mysql_broker'@'%' WITH GRANT OPTION;
