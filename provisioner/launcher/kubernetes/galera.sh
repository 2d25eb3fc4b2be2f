#!/bin/sh
# What the container of a member of Galera runs. A member that has data tries to join its group. If it finds none, or has
# no data, its server waits until a broker, which sees all members, orders it to begin the group or to join it: see the
# package galera.
# Usage: galera.sh SETTINGS-FILE PROGRAM-FOR-TRANSFERS LIBRARY...
set -u
umask 027
settings=$1 transfer=$2
shift 2
data=/data/mysql tmp=/data/tmp run=/run/mysqld
state=$data/grastate.dat events=/data/events.sql
for library; do
  [ ! -e "$library" ] || break
done
mkdir -p "$run/bin" "$run/waits"
printf '%s\n' "$transfer" >"$run/bin/wsrep_sst_broker"
chmod 750 "$run/bin/wsrep_sst_broker"
export PATH="$run/bin:$PATH"

pid=''
ends=''
trap 'ends=yes; [ -z "$pid" ] || kill "$pid"' TERM

# server runs the server with more options, and returns its exit code.
server() {
  [ -z "$ends" ] || exit 0
  mariadbd --defaults-file="$settings" --wsrep-provider="$library" "$@" &
  pid=$!
  [ -z "$ends" ] || kill "$pid" # meanwhile
  while :; do
    wait "$pid"
    code=$?
    kill -0 "$pid" 2>/dev/null || break # else a signal has ended the wait
  done
  pid=''
  [ -z "$ends" ] || exit 0
  return "$code"
}

# position finds out what the member has: nothing ("empty"), a part ("incomplete"), or a position in its group.
position() {
  safe=unsafe
  if [ -e /data/incomplete ]; then # it was killed while it got all data
    rm -rf "$data"
    /bin/sh /secret/prepare.sh || exit
    at=incomplete
    return
  fi
  at=empty
  [ -e "$state" ] || return
  group=$(sed -n 's/^uuid: *//p' "$state")
  seqno=$(sed -n 's/^seqno: *//p' "$state")
  case $group in
  '' | 00000000-*) ;; # it was in the middle of something, such as DDL
  *) safe=safe ;;
  esac
  if [ "$safe" = safe ] && [ "${seqno:--1}" != -1 ]; then # it was shut down
    at=$group:$seqno
    return
  fi
  mariadbd --defaults-file="$settings" --wsrep-provider="$library" --wsrep-recover --skip-networking >"$tmp/recovered" 2>&1
  at=$(sed -n 's/.*WSREP: Recovered position: \([0-9a-f-]*:-*[0-9]*\).*/\1/p' "$tmp/recovered")
  case $at in
  '')
    cat "$tmp/recovered"
    exit 1
    ;;
  00000000-*) at=empty ;;
  esac
}

# member runs the server as a member. It returns if a broker has ended it, or if it has not found its group.
member() {
  {
    [ ! -e "$events" ] || cat "$events"
    echo "SET GLOBAL event_scheduler=ON;"
    echo "SET SESSION wsrep_on=OFF;"
    echo "SELECT 1 INTO DUMPFILE '$tmp/up';"
  } >"$run/init.sql"
  rm -f "$tmp/up"
  (
    until [ -e "$tmp/up" ]; do sleep 0.5; done
    rm -f "$events" # it is of use once
  ) &
  watch=$!
  server --event-scheduler=OFF --init-file="$run/init.sql" "$@"
  code=$?
  kill "$watch" 2>/dev/null
  [ ! -e "$tmp/up" ] || [ "$code" = 0 ] || exit "$code"
}

join() {
  if [ "$safe" = safe ]; then
    member --wsrep-start-position="$at"
  else
    member # it gets all data
  fi
}

begin() {
  case $at in
  empty | incomplete) member --wsrep-new-cluster ;;
  *)
    printf '# GALERA saved state\nversion: 2.1\nuuid:    %s\nseqno:   %s\nsafe_to_bootstrap: 1\n' \
      "${at%:*}" "${at#*:}" >"$state"
    member --wsrep-new-cluster --wsrep-start-position="$at"
    ;;
  esac
}

# wait_for_order runs a server that touches nothing of Galera's until it is ended.
wait_for_order() {
  order=''
  rm -f "$tmp/order"
  echo "The server waits for an order to begin its group or to join it. It has: $at $safe"
  case $at in
  empty | incomplete) set -- --wsrep-node-name="waits $at" --init-file=/secret/init.sql ;; # the broker's accounts
  *) set -- --wsrep-node-name="waits $at $safe" ;;
  esac
  server "$@" --wsrep-cluster-address= --wsrep-data-home-dir="$run/waits" \
    --wsrep-sst-method=mysqldump --event-scheduler=OFF \
    --wsrep-provider-options=gcache.size=1M \
    --init-connect="SIGNAL SQLSTATE '08S01' SET MESSAGE_TEXT = 'The server is in no group.'" || exit
  [ -e "$tmp/order" ] || return
  read -r order given <"$tmp/order"
  [ $(($(date +%s) - given)) -lt 60 ] || order=''
}

while :; do
  position
  case $at in
  empty | incomplete) ;;
  *)
    join
    position
    ;;
  esac
  wait_for_order
  case $order in
  begin) begin ;;
  join) join ;;
  esac
done
