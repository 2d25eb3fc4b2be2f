#!/bin/sh
# Copies all data of a member of a group to another member on the same host. Both servers run this program, and read
# its output. https://mariadb.com/docs/galera-cluster/galera-management/state-snapshot-transfers-ssts-in-galera-cluster
while [ $# -gt 0 ]; do
  case $1 in
    --role) role=$2; shift ;;
    --address) address=$2; shift ;;
    --datadir) data=${2%/}; shift ;;
    --gtid) position=$2; shift ;;
    --parent) server=$2; shift ;;
    --bypass) bypass=yes ;;
  esac
  shift
done
[ -n "$server" ] || server=$(cat "$data/mysqld.pid") || exit 1

# await waits for a file as long as the server runs.
await() {
  until [ -e "$1" ]; do
    kill -0 "$server" || exit 32
    sleep 0.05
  done
}

if [ "$role" = joiner ]; then
  from=${data%/*}/tmp/transfer
  rm -rf "$from" && mkdir "$from" || exit 1
  echo "ready ${address%%/*}/$from"
  await "$from/complete"
  if [ -d "$from/data" ]; then
    touch "$data/incomplete" || exit 1
    for file in "$data"/*; do
      case ${file##*/} in galera.cache | grastate.dat | gvwstate.dat | mysqld.* | incomplete) continue ;; esac
      rm -rf "$file"
    done
    # Events run where they were created, so not here too. The server reads this before it runs events.
    cat >"${data%/*}/tmp/events.sql" <<'END' || exit 1
SET SESSION wsrep_on=OFF;
BEGIN NOT ATOMIC FOR e IN (SELECT db, name, definer FROM mysql.event WHERE status='ENABLED') DO
  EXECUTE IMMEDIATE CONCAT('ALTER DEFINER=`',
    REPLACE(LEFT(e.definer, CHAR_LENGTH(e.definer) - LOCATE('@', REVERSE(e.definer))), '`', '``'), '`@`',
    SUBSTRING_INDEX(e.definer, '@', -1), '` EVENT `', REPLACE(e.db, '`', '``'), '`.`', REPLACE(e.name, '`', '``'),
    '` DISABLE ON SLAVE'); END FOR; END;
SET SESSION wsrep_on=ON;
SET GLOBAL event_scheduler=ON;
END
    mv "$from/data"/* "$data" && sync -f "$data" && rm "$data/incomplete" || exit 1
  fi
  cat "$from/complete"
  rm -rf "$from"
  exit
fi

to=/${address#*//}
if [ "$bypass" != yes ]; then
  rm -f "$data/tables_flushed"
  echo "flush tables"
  await "$data/tables_flushed"
  position=$(cat "$data/tables_flushed")
  mkdir "$to/data" || exit 1
  for file in "$data"/*; do
    case ${file##*/} in
      galera.cache | grastate.dat | gvwstate.dat | mysqld.* | tables_flushed | ib_buffer_pool | ibtmp1) continue ;;
    esac
    cp -a --sparse=always "$file" "$to/data/" || exit 1
  done
  rm "$data/tables_flushed"
  echo continue
fi
echo "$position" >"$to/new" && mv "$to/new" "$to/complete" || exit 1
echo "done $position"
