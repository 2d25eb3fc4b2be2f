#!/bin/bash
# Boots systemd as process 1 of a container made of namespaces, with the broker installed as deploy/systemd/README.md
# says, orders a dedicated server, and sees what becomes of that when the broker is restarted, killed and stopped. Needs
# root, systemd, and a kernel with cgroup2 and overlayfs; nothing stays behind.
#
# Usage, after make build: go run ./test/servers/with-servers test/systemd/restart.sh [MYSQLD]
# With PACKAGE=FILE, that .deb is installed instead.
set -euo pipefail
cd "$(dirname "$0")/../.."
mysqld=${1:-$(PATH=$PATH:/usr/sbin; command -v mariadbd || command -v mysqld)}
postgres=${TEST_POSTGRES_URL:?run this through test/servers/with-servers}

step() { echo "--- $*"; }
fail() {
  echo "FAILED: $*" >&2
  inside journalctl --no-pager -u mysql-broker -n 40 >&2 || cat "$work/boot.log" >&2
  exit 1
}

# eventually TEST… fails unless a command succeeds within a minute, or PATIENCE seconds.
eventually() {
  local deadline=$((SECONDS + ${PATIENCE:-60}))
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || fail "never: $*"
    sleep 0.1
  done
}

work=$(mktemp -d "${TMPDIR:-/tmp}/mb-systemd-XXXXXX")
chmod 0755 "$work"
group=$(findmnt --noheadings --output TARGET --types cgroup2 | head -1)/mysql-broker-test-$$
container=''
grouped='' # whether servers have control groups, see groups.sh
clean_up() {
  # Process 1 takes all processes of its namespace with it.
  [ -z "$container" ] || kill -KILL "$container" 2>/dev/null || true
  wait
  for _ in $(seq 100); do
    [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || { sleep 0.1; continue; }
    break
  done
  rm -rf "$work"
}
trap clean_up EXIT

port=$((15000 + RANDOM % 1000))
cat >"$work/environment" <<VARIABLES
BROKER_USERNAME=broker
BROKER_PASSWORD='correct horse "battery" \\n staple'
ENCRYPTION_KEYSET=$(bin/mysql-broker keyset)
DATABASE_URL='$postgres'
PORT=$port
LAUNCHER_PORTS=$((port + 1))-$((port + 20))
LAUNCHER_MYSQLD=$mysqld
VARIABLES

step "boot systemd"
mkdir "$group" "$work/root"
# Nobody but what is in the container may be in its group: systemd could not divide that.
unshare --mount --pid --ipc --uts --fork --kill-child bash -c 'echo 0 >"$1/cgroup.procs" &&
  exec unshare --cgroup test/systemd/boot.sh "$2/root" "$2/environment" "$3"' - "$group" "$work" "${PACKAGE:-}" >"$work/boot.log" 2>&1 &
unshare=$!
booting() { container=$(pgrep -P "$unshare") && [ "$(cat "/proc/$container/comm")" = systemd ]; }
eventually booting
inside() { nsenter --target "$container" --mount --pid --ipc --uts --cgroup --root --wd "$@"; }
booted() { inside systemctl is-active basic.target; }
eventually booted
inside systemd-sysusers
inside systemd-tmpfiles --create mysql-broker.conf
mode=$(inside stat -c %a:%U /etc/mysql-broker/environment)
[ "$mode" = 600:root ] || fail "the environment file is $mode"

export BROKER_URL=http://127.0.0.1:$port BROKER_USERNAME=broker BROKER_PASSWORD='correct horse "battery" \n staple'
export MYSQL_BROKER_CLIENT_STATE=$work/client.json
client() { bin/mysql-broker client "$@"; }
ready() { curl -fsS "$BROKER_URL/readyz"; }
server() { inside pgrep -u mysql-broker -f -- '--defaults-file=/var/lib/mysql-broker/instances/'; }
credential() { jq -r ".$1" "$work/key"; }
query() {
  MYSQL_PWD=$(credential password) mariadb --ssl -h "$(credential host)" -P "$(credential port)" \
    -u "$(credential username)" "$(credential database)" --batch --skip-column-names -e "$1"
}
serves() { [ "$(query 'SELECT n FROM kept')" = 7 ]; }
expect_same_server() {
  [ "$(server)" = "$pid" ] || fail "the server's process is $(server) instead of $pid"
  serves || fail "the server does not serve"
  [ -z "$grouped" ] || expect_own_group
}

# beside runs the program with arguments as deploy/systemd/README.md and docs/runbook.md have it.
beside() {
  inside systemd-run --quiet --pipe --wait --collect -p User=mysql-broker -p StateDirectory=mysql-broker \
    -p EnvironmentFile=/etc/mysql-broker/environment -E CATALOG=/etc/mysql-broker/catalog.yml -E LAUNCHER=process \
    -E LAUNCHER_DIR=/var/lib/mysql-broker "$(inside sh -c 'command -v mysql-broker')" "$@"
}

step "try the configuration before the first start"
inside systemctl start dbus.socket # which every host has, and systemd-run asks
beside doctor --before-start

step "start the broker, and order a dedicated server"
inside systemctl start mysql-broker
eventually ready
client create-service dedicated-small kept
client create-service-key kept key >/dev/null # not for everybody to read
client service-key kept key --json | jq '.credentials // .' >"$work/key"
query 'CREATE TABLE kept (n INT); INSERT INTO kept VALUES (7)'
query "SELECT 'abc' REGEXP '^(a|x)b?c+$', REGEXP_REPLACE('aab', 'a+', 'x')" >/dev/null
pid=$(server)
expect_same_server

step "the server keeps to the memory of its plan"
limit=$(inside awk '/^Max data size/ {print $4}' "/proc/$pid/limits")
[ "$limit" != unlimited ] && [ "$limit" -lt $((700 << 20)) ] || fail "it may take $limit bytes"

step "the broker says what limits its servers' memory"
alone='by RLIMIT_DATA alone' groups='by RLIMIT_DATA and by control groups'
if [ "$(inside systemctl --version | sed -n 's/^systemd \([0-9]*\).*/\1/p')" -lt 254 ] ||
  ! grep -qw memory "$group/cgroup.controllers"; then
  expected=$alone
else
  expected=$groups
fi
said() { inside journalctl --no-pager -u mysql-broker -o cat | grep -c "the memory of dedicated servers is limited $1"; }
[ "$(said "$expected")" = 1 ] || fail "it has not said that their memory is limited $expected"
if [ "$expected" = "$groups" ]; then
  . test/systemd/groups.sh
fi

step "read the broker's environment as its user, as a server could"
broker=$(inside systemctl show -p MainPID --value mysql-broker)
inside runuser -u mysql-broker -- cat "/proc/$pid/environ" >/dev/null
! inside runuser -u mysql-broker -- cat "/proc/$broker/environ" >/dev/null 2>&1 || fail "it can be read"

step "systemctl restart"
inside systemctl restart mysql-broker
eventually ready
expect_same_server

step "kill the broker"
broker=$(inside systemctl show -p MainPID --value mysql-broker)
inside kill -KILL "$broker"
restarted() { [ "$(inside systemctl show -p MainPID --value mysql-broker)" != "$broker" ] && ready; }
eventually restarted
expect_same_server

step "systemctl stop"
inside systemctl stop mysql-broker
expect_same_server
inside systemctl start mysql-broker
eventually ready
expect_same_server

step "kill the server: the broker starts it again"
inside kill -KILL "$pid"
eventually serves
[ "$(server)" != "$pid" ] || fail "the server was not killed"
pid=$(server)
limit=$(inside awk '/^Max data size/ {print $4}' "/proc/$pid/limits")
[ "$limit" != unlimited ] || fail "it has no limit of memory any more"

step "an invalid configuration is not tried again"
inside cp /etc/mysql-broker/environment /run/environment
inside sed -i 's/^BROKER_PASSWORD=.*//' /etc/mysql-broker/environment
inside systemctl restart mysql-broker || true
failed() { [ "$(inside systemctl show -p ExecMainStatus,SubState --value mysql-broker | tr '\n' ' ')" = '78 failed ' ]; }
eventually failed
expect_same_server
inside cp /run/environment /etc/mysql-broker/environment
inside systemctl reset-failed mysql-broker
inside systemctl start mysql-broker
eventually ready

step "a command beside the broker"
beside doctor

step "stop everything, and start it again"
inside systemctl stop mysql-broker
inside systemctl kill --kill-whom=all mysql-broker
gone() { ! server; }
eventually gone
inside systemctl start mysql-broker
eventually serves
pid=$(server)
expect_same_server

step "delete"
client delete-service kept
eventually gone
left() { find "$group" -type d -path '*/mysql-broker.service/server-*'; }
[ -z "$(left)" ] || fail "control groups are left: $(left)"
inside journalctl --no-pager -u mysql-broker -p warning -o cat | sort | uniq -c | sort -rn | head
step "all is well: $("$mysqld" --no-defaults --version)"
