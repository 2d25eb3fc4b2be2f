-- Makes the broker's account on a shared MariaDB server, 10.6 or later: all that the broker needs there and no more. It
-- reaches databases whose names begin with db_, which should be the broker's alone, and no other data. CREATE USER lets
-- it change the password of any account, though: MariaDB knows no accounts that are out of its reach.
-- Replace PASSWORD, and run it as an administrator.

CREATE USER 'mysql_broker'@'%' IDENTIFIED BY 'PASSWORD';

-- the accounts of bindings
GRANT CREATE USER ON *.* TO 'mysql_broker'@'%';
-- to see their sessions, and the sizes of databases
GRANT PROCESS ON *.* TO 'mysql_broker'@'%';
-- to end sessions, and to get in when all connections are taken
GRANT CONNECTION ADMIN ON *.* TO 'mysql_broker'@'%';
-- to find accounts, but not their passwords
GRANT SELECT (user, host) ON mysql.user TO 'mysql_broker'@'%';
GRANT SELECT (user, db) ON mysql.db TO 'mysql_broker'@'%';
-- to compare what accounts may do with what they should (without it, that is not compared)
GRANT SELECT ON mysql.db TO 'mysql_broker'@'%';
-- to measure what routines and events take, and to find out soon that an account defines none
GRANT SELECT (db, definer, body) ON mysql.proc TO 'mysql_broker'@'%';
GRANT SELECT (db, definer, body) ON mysql.event TO 'mysql_broker'@'%';
-- to copy routines with clone_from (without it, instances that have routines are not copied)
GRANT SELECT ON mysql.proc TO 'mysql_broker'@'%';
-- the databases of instances, and what bindings may do in them
GRANT ALL PRIVILEGES ON `db\_%`.* TO 'mysql_broker'@'%' WITH GRANT OPTION;
