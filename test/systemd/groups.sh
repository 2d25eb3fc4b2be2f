# shellcheck shell=bash disable=SC2034,SC2154 # of restart.sh, which reads this where servers have control groups
# Each dedicated server has a control group of its own, with the memory of its plan, whatever becomes of the broker.

group_of() { inside sed -n 's/^0:://p' "/proc/$1/cgroup"; }
in_own_group() { [[ $(group_of "$(server)") == /system.slice/mysql-broker.service/server-* ]]; }
limit_of() { inside cat "/sys/fs/cgroup$(group_of "$(server)")/$1"; }
expect_own_group() { in_own_group || fail "the server is in the group $(group_of "$(server)")"; }
broker() { inside systemctl show -p MainPID --value mysql-broker; }
restart() {
  inside systemctl daemon-reload
  inside systemctl restart mysql-broker
  eventually ready
  expect_same_server
}
kill_server() {
  inside kill -KILL "$pid"
  eventually serves
  pid=$(server)
}
# hoard N: one session sets as many user variables of 16 MiB, up to the first that it is refused.
hoard() {
  for n in $(seq "$1"); do echo "SET @v$n = REPEAT('x', 16777216);"; done |
    MYSQL_PWD=$(credential password) mariadb --ssl -h "$(credential host)" -P "$(credential port)" \
      -u "$(credential username)" "$(credential database)" 2>&1 || true
}

step "the server's control group has the memory of its plan"
expect_own_group
[ "$(group_of "$(broker)")" = /system.slice/mysql-broker.service/broker ] || fail "the broker is in $(group_of "$(broker)")"
max=$(limit_of memory.max)
[ "$max" = "$limit" ] || fail "memory.max is $max, and the limit of reserved memory $limit"
[ "$(limit_of memory.swap.max)" = $((256 << 20)) ] || fail "memory.swap.max is $(limit_of memory.swap.max)"
[ "$(limit_of memory.oom.group)" = 1 ] || fail "memory.oom.group is $(limit_of memory.oom.group)"

step "restart the broker twice"
restart
expect_own_group
restart
expect_own_group

step "a session takes all the memory that it can get, and is refused more"
hoard 96 >"$work/hoard"
grep -q 'Out of memory' "$work/hoard" || fail "1.5 GiB were given: $(head -3 "$work/hoard")"
expect_same_server
peak=$(limit_of memory.peak)
echo "memory.peak is $((peak >> 20)) MiB of $((max >> 20))"
[ "$peak" -le "$max" ] || fail "the group had $peak bytes"

step "the same without a limit of reserved memory: the kernel ends the server, and the broker starts it again"
before=$(broker)
inside prlimit --pid "$pid" --data=unlimited
hoard 96 >"$work/hoard"
restarted_server() { [ "$(server)" != "$pid" ] && serves; }
eventually restarted_server
inside journalctl --no-pager -u mysql-broker -o cat | grep '"killed_for_memory":true' >/dev/null || fail "the broker does not say why"
pid=$(server)
expect_own_group
[ "$(broker)" = "$before" ] || fail "the broker was ended, too"
[ "$(limit_of memory.max)" = "$max" ] || fail "memory.max is $(limit_of memory.max) after the restart"

step "another plan"
client update-service kept -p dedicated-large
pid=$(server)
expect_own_group
[ "$(limit_of memory.max)" -gt $((1 << 30)) ] || fail "memory.max is $(limit_of memory.max)"

step "the unit of a release before, and the new one again"
inside mkdir -p /run/systemd/system/mysql-broker.service.d
inside tee /run/systemd/system/mysql-broker.service.d/before.conf >/dev/null <<DROPIN
[Service]
Delegate=no
DelegateSubgroup=
DROPIN
restart
kill_server
[ "$(group_of "$pid")" = /system.slice/mysql-broker.service ] || fail "the server is in the group $(group_of "$pid")"
inside rm /run/systemd/system/mysql-broker.service.d/before.conf
restart
[ "$(group_of "$pid")" = /system.slice/mysql-broker.service/ungrouped ] || fail "the server is in $(group_of "$pid")"
kill_server
expect_own_group

grouped=yes # from here on, expect_same_server looks at that, too
