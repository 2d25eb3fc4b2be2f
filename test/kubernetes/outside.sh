#!/bin/bash
# Runs a broker outside of the cluster of test/kubernetes/with-node, as on Cloud Foundry, set up as docs/kubernetes.md
# says. Creates an instance, uses it from a pod and from outside, resizes it, stops the kubelet of its node, and deletes
# it. Run it in the project's folder, inside of with-node.
set -euo pipefail
# shellcheck source=test/kubernetes/common.sh
. test/kubernetes/common.sh
start_postgres

say "the namespace, and a token for the broker"
kubectl apply -k deploy/kubernetes/launcher
kubectl apply -f deploy/kubernetes/launcher/token.yaml
secret() { kubectl -n mysql-servers get secret mysql-broker-token -o jsonpath="{.data.$1}" | base64 -d; }
token() { LAUNCHER_API_TOKEN=$(secret token) && [ -n "$LAUNCHER_API_TOKEN" ]; }
within 60 token
LAUNCHER_API=$(kubectl config view --minify -o 'jsonpath={.clusters[0].cluster.server}')
LAUNCHER_API_CA=$(secret 'ca\.crt')

say "the broker"
ENCRYPTION_KEYSET=$("$dir/mysql-broker" keyset)
export LAUNCHER=kubernetes LAUNCHER_NAMESPACE=mysql-servers LAUNCHER_API LAUNCHER_API_CA LAUNCHER_API_TOKEN \
  LAUNCHER_IMAGES="${1:?usage: outside.sh FLAVOUR-VERSION=IMAGE}" LAUNCHER_SERVICE=node-port LAUNCHER_NODE_HOST=$node \
  DATABASE_URL="postgres://postgres@$node/postgres?sslmode=disable" ENCRYPTION_KEYSET PORT=8088 \
  BROKER_URL=http://127.0.0.1:8088
"$dir/mysql-broker" serve >"$dir/broker.log" 2>&1 &
pid=$!
within 60 curl -sf -o /dev/null "$BROKER_URL/healthz"

say "an instance, used from outside and by a pod; both verify its certificate"
broker create-service dedicated-small orders
broker create-service-key orders app >"$dir/key.json"
key ca_certificate >"$dir/ca.pem"
settings "$dir/ca.pem" >"$dir/my.cnf"
case $1 in
mysql-*) program=$(dirname "${MYSQLD%%:*}")/mysql ;;
*) program=mariadb ;;
esac
sql() { "$program" --defaults-file="$dir/my.cnf" "$(verifying "$1")" "$(key database)" -N -e "$2"; }
sql "$1" 'CREATE TABLE t (n INT PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3); SELECT @@version, COUNT(*) FROM t'
start_app "$1"
app "${client[@]}" -e 'SELECT @@hostname, COUNT(*) FROM t'

say "a larger plan"
broker update-service orders -p dedicated-large
kubectl -n mysql-servers get pods,persistentvolumeclaims -o wide
"$dir/mysql-broker" servers --dedicated

say "the kubelet of its node stops responding"
rows() { [ "$(sql "$1" 'SELECT COUNT(*) FROM t' 2>/dev/null)" = 3 ]; }
one() { # the same mysqld still runs, and no other one
  local pods servers
  pods=$(kubectl -n mysql-servers get pods -o name | wc -l)
  servers=$(pgrep -x 'mysqld|mariadbd' | tr '\n' ' ')
  [ "$pods $servers" = "1 $process " ] || fail "$pods pods, mysqld $servers instead of 1 and $process"
}
kubectl -n mysql-servers wait --for=condition=Ready pods --all --timeout=60s
process=$(pgrep -x 'mysqld|mariadbd')
kill -STOP "$KUBELET_PID"
lost() { "$dir/mysql-broker" servers --dedicated | grep node-lost; }
within 180 lost
curl -sf "$BROKER_URL/metrics" | grep 'mysql_broker_dedicated_servers_in_trouble{.*node-lost.*} 1$'
within 10 rows "$1"
kubectl -n mysql-servers delete pods --all --wait=false
broker update-service orders -p dedicated-small >"$dir/update" 2>&1 &
updating=$!
waits() { grep -e 'Waiting until mysqld has stopped' -e 'which does not respond' "$dir/update"; }
within 60 waits
one
within 10 rows "$1"
kill -CONT "$KUBELET_PID"
wait "$updating" || fail "the update failed: $(cat "$dir/update")"
within 180 rows "$1"
process=$(pgrep -n -x 'mysqld|mariadbd')
one

say "doctor, the memory of the broker, and the end"
"$dir/mysql-broker" doctor
grep -e VmRSS -e RssAnon -e RssFile "/proc/$pid/status"
broker delete-service orders
"$dir/mysql-broker" doctor
left=$(kubectl -n mysql-servers get statefulsets,pods,services,persistentvolumeclaims,secrets -o name -l app.kubernetes.io/name=mysqld)
[ -z "$left" ] || fail "left: $left"
kill "$pid"
wait "$pid"
kubectl delete namespace apps mysql-servers
