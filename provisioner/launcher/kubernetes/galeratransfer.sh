#!/bin/sh
# Copies all data of a member of a group to another one, as wsrep_sst_broker. Both servers run this program, and read its
# output. The connection is encrypted, both sides show the certificate of their group, and the one that gets the data
# checks that they come from that group. It needs socat, as MariaDB's own programs do.
# https://mariadb.com/docs/galera-cluster/galera-management/state-snapshot-transfers-ssts-in-galera-cluster
while [ $# -gt 0 ]; do
  case $1 in
  --role) role=$2 && shift ;;
  --address) address=$2 && shift ;;
  --datadir) data=${2%/} && shift ;;
  --gtid) position=$2 && shift ;;
  --parent) server=$2 && shift ;;
  --bypass) bypass=yes ;;
  esac
  shift
done
[ -n "${server:-}" ] || server=$(cat /run/mysqld/mysqld.pid) || exit 1
run=/run/mysqld/transfer
tls=cert=/secret/group.pem,key=/secret/server-key.pem,cafile=/secret/group.pem,verify=1,commonname=member

# await waits for one of two files as long as the server runs.
await() {
  until [ -e "$1" ] || [ -e "$2" ]; do
    if ! kill -0 "$server"; then
      [ -z "${listener:-}" ] || kill "$listener"
      exit 32
    fi
    sleep 0.1
  done
}

# receive reads what the other member sends: a line with the token, which only that one knows, and then the data.
receive() {
  read -r got kind at || return 1
  [ "$got" = "$token" ] || return 1
  if [ "$kind" = data ]; then
    touch /data/incomplete && sync || return 1
    for file in "$data"/*; do
      case ${file##*/} in galera.cache | grastate.dat | gvwstate.dat) continue ;; esac
      rm -rf "$file"
    done
    tar -x --ignore-zeros --no-same-owner -C "$data" || return 1
    rm "$data/transfer-complete" || return 1 # the end may be cut off
    # Events run where they were created, so not here too. The server reads this before it runs events.
    cat >/data/events.sql <<'END' || return 1
SET SESSION wsrep_on=OFF;
BEGIN NOT ATOMIC FOR e IN (SELECT db, name, definer FROM mysql.event WHERE status='ENABLED') DO
  EXECUTE IMMEDIATE CONCAT('ALTER DEFINER=`',
    REPLACE(LEFT(e.definer, CHAR_LENGTH(e.definer) - LOCATE('@', REVERSE(e.definer))), '`', '``'), '`@`',
    SUBSTRING_INDEX(e.definer, '@', -1), '` EVENT `', REPLACE(e.db, '`', '``'), '`.`', REPLACE(e.name, '`', '``'),
    '` DISABLE ON SLAVE'); END FOR; END;
SET SESSION wsrep_on=ON;
END
    sync && rm /data/incomplete || return 1
  fi
  echo "$at" >"$run/at" && mv "$run/at" "$run/received"
}

if [ "$role" = joiner ]; then
  rm -rf "$run" && mkdir -p "$run" || exit 1
  read -r token </proc/sys/kernel/random/uuid
  address=${address%%/*}
  mkfifo "$run/sent" || exit 1
  socat -u -T 120 "openssl-listen:${address##*:},reuseaddr,accept-timeout=300,$tls" stdout >"$run/sent" &
  listener=$!
  { receive <"$run/sent" || touch "$run/failed"; } >&2 &
  echo "ready $address/$token"
  await "$run/received" "$run/failed"
  [ -e "$run/received" ] || exit 1
  cat "$run/received"
  exit
fi

token=${address#*/}
address=${address%%/*}
send() { socat -u -T 120 stdin "openssl-connect:$address,$tls,retry=50,interval=0.2"; }
if [ "${bypass:-}" = yes ]; then
  echo "$token bypass $position" | send || exit 1
else
  rm -f "$data/tables_flushed"
  echo "flush tables"
  await "$data/tables_flushed" "$data/tables_flushed"
  position=$(cat "$data/tables_flushed")
  mkdir -p "$run" && touch "$run/transfer-complete" || exit 1
  {
    echo "$token data $position"
    tar -c --sparse -C "$data" --exclude=./galera.cache --exclude=./grastate.dat --exclude=./gvwstate.dat \
      --exclude='./mysqld.*' --exclude=./tables_flushed --exclude=./ib_buffer_pool --exclude=./ibtmp1 . || exit
    tar -c -C "$run" transfer-complete
  } | send || exit 1
  rm "$data/tables_flushed"
  echo continue
fi
echo "done $position"
