#!/bin/sh
# Makes the data directory of a new server, without any account that somebody could log in with. Both the image, when it
# is built, and the pods of images that have no such directory run this.
# Usage: initialise.sh mysql|mariadb DIRECTORY TEMPORARY-DIRECTORY
set -eu
flavour=$1 dir=$2 tmp=$3

mkdir "$dir"
case $flavour in
mysql)
  # Root goes as the last act of initialisation. Later it could be there for a moment.
  echo "DROP USER 'root'@'localhost';" >"$tmp/accounts.sql"
  mysqld --no-defaults --datadir="$dir" --tmpdir="$tmp" --initialize-insecure --init-file="$tmp/accounts.sql" \
    --loose-innodb-redo-log-capacity=8M \
    --loose-innodb-doublewrite-pages=8 \
    --innodb-buffer-pool-dump-at-shutdown=OFF \
    --secure-file-priv=NULL \
    --loose-auto-generate-certs=OFF \
    --loose-caching-sha2-password-auto-generate-rsa-keys=OFF
  # The identity and the keys of a server: each has its own.
  rm -f "$dir/auto.cnf" "$dir"/*.pem "$dir/ib_buffer_pool" "$dir"/binlog.*
  ;;
mariadb)
  mariadb-install-db --no-defaults --datadir="$dir" --tmpdir="$tmp" \
    --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve \
    --innodb-log-file-size=4M >&2
  cat >"$tmp/accounts.sql" <<'END'
DELETE FROM mysql.global_priv WHERE User <> 'mariadb.sys';
DELETE FROM mysql.proxies_priv;
END
  mariadbd --no-defaults --datadir="$dir" --tmpdir="$tmp" --innodb-log-file-size=4M --bootstrap <"$tmp/accounts.sql"
  rm -f "$dir/ib_buffer_pool"
  ;;
*)
  echo "unknown flavour $flavour" >&2
  exit 2
  ;;
esac
rm "$tmp/accounts.sql"
