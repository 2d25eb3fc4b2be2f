#!/bin/sh
# What the init containers of an upgrade run, without a network. All of it can run again after an interruption.
# Usage: upgrade.sh copy|upgrade|restore FLAVOUR VERSION ID QUERIES
set -eu
work=$1 flavour=$2 version=$3 copy=/before/copy-$4 queries=$5
data=/data/mysql socket=/run/mysqld/mysqld.sock

start() {
  "$program" --defaults-file=/secret/my.cnf --skip-networking --skip-grant-tables "$@" &
  pid=$!
  until query 'SELECT 1' >/dev/null 2>&1; do
    kill -0 "$pid" 2>/dev/null || wait "$pid"
    sleep 0.1
  done
}

query() { "$client" --no-defaults --batch --skip-column-names --user=root --socket="$socket" mysql --execute="$1"; }

inventory() {
  query "$queries" >"$copy/unsorted"
  sort "$copy/unsorted" >"$copy/$1"
}

stop() {
  kill "$pid"
  wait "$pid"
}

restore() {
  rm -rf "$data"
  cp -R -p "$copy/data" "$data"
  sync
}

case $flavour in
mysql) program=mysqld client=mysql options=--loose-upgrade=FORCE ;;
mariadb)
  program=mariadbd client=mariadb options=
  # With --skip-grant-tables, information_schema.events is empty.
  queries="$queries;
    SELECT CONCAT('event ', db, '.', name), SHA2(body_utf8, 256) FROM mysql.event"
  ;;
esac

case $work in
copy)
  [ ! -e "$copy/complete" ] || exit 0
  rm -rf /before/copy-*
  mkdir "$copy"
  start
  inventory before
  stop
  cp -R -p "$data" "$copy/data"
  sync
  touch "$copy/complete"
  sync
  ;;
upgrade)
  [ ! -e "$copy/upgraded" ] || exit 0
  [ ! -e "$copy/begun" ] || restore
  touch "$copy/begun"
  sync
  start ${options:+"$options"}
  if [ "$flavour" = mariadb ]; then
    mariadb-upgrade --no-defaults --silent --user=root --socket="$socket"
    # It ends with FLUSH PRIVILEGES, after which the server checks accounts despite --skip-grant-tables.
    stop
    start
  fi
  case $(query 'SELECT VERSION()') in
  "$version"*) ;;
  *)
    echo "the server is not $version"
    exit 1
    ;;
  esac
  inventory after
  if grep -v -x -F -f "$copy/after" "$copy/before"; then
    echo 'these objects are missing or different'
    exit 1
  fi
  stop
  touch "$copy/upgraded"
  sync
  ;;
restore)
  [ -e "$copy/begun" ] || exit 0
  restore
  ;;
esac
