#!/bin/sh
# HAProxy runs this to find out whether a server of a cluster accepts writes (option external-check). It works with
# Group Replication and Galera, and needs the program mariadb (Debian: mariadb-client-core) and an account without
# privileges, whose name, password and CA are in an option file:
#   [client]
#   user=haproxy_check
#   password=…
#   ssl-ca=/etc/haproxy/mysql-ca.pem
#   ssl-verify-server-cert
# HAProxy's option mysql-check only logs in: secondaries and nodes that were cut off would pass it. It gives the address
# that it has resolved; the name that certificates have is the one of the server in haproxy.cfg.
# Usage: writable.sh PROXY_ADDRESS PROXY_PORT SERVER_ADDRESS SERVER_PORT
set -eu
state=$(mariadb --defaults-file=/etc/haproxy/check.cnf --protocol=tcp --host="$HAPROXY_SERVER_NAME" --port="$4" \
  --connect-timeout=2 --batch --skip-column-names \
  --execute="SELECT @@GLOBAL.read_only; SHOW GLOBAL STATUS LIKE 'wsrep_local_state'")
# Galera adds the state of the node; 4 is one that is synchronized with a majority.
case $(printf %s "$state" | tr -s '[:space:]' ' ') in
  0 | '0 wsrep_local_state 4') ;;
  *) exit 1 ;;
esac
