#!/bin/bash
# Deploys two brokers to the cluster of test/kubernetes/with-node as docs/kubernetes.md says, and uses them: an instance is
# created, used by another pod, resized, disturbed and deleted; the brokers are restarted and evicted under requests.
# Run it in the project's folder, inside of with-node. PostgreSQL runs on the node, outside of the cluster.
set -euo pipefail
# shellcheck source=test/kubernetes/common.sh
. test/kubernetes/common.sh
start_postgres

say "brokers"
cp -r deploy/kubernetes "$dir/kubernetes"
mkdir "$dir/kubernetes/mycluster"
cp deploy/kubernetes/example/namespace.yaml "$dir/kubernetes/mycluster/"
cat >"$dir/kubernetes/mycluster/broker.env" <<END
BROKER_USERNAME=broker
BROKER_PASSWORD=correct-horse-battery
ENCRYPTION_KEYSET=$("$dir/mysql-broker" keyset)
DATABASE_URL=postgres://postgres@$node/postgres?sslmode=disable
LAUNCHER_IMAGES=${1:?usage: pods.sh FLAVOUR-VERSION=IMAGE}
END
cat >"$dir/kubernetes/mycluster/kustomization.yaml" <<'END'
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: mysql-broker
resources: [namespace.yaml, ../base]
components: [../dedicated]
images:
- {name: mysql-broker, newName: localhost/mysql-broker, newTag: test}
secretGenerator:
- {name: mysql-broker, envs: [broker.env]}
END
kubectl apply -k "$dir/kubernetes/launcher"
kubectl apply -f "$dir/kubernetes/dedicated/rolebinding.yaml"
kubectl apply -k "$dir/kubernetes/mycluster"
kubectl -n mysql-broker rollout status deployment/mysql-broker --timeout=180s
address=$(kubectl -n mysql-broker get service mysql-broker -o 'jsonpath={.spec.clusterIP}')
export BROKER_URL=http://$address:8080
doctor() { kubectl -n mysql-broker exec deployment/mysql-broker -- /mysql-broker doctor; }

say "an instance, used by another pod that verifies its certificate"
broker create-service dedicated-small orders
broker create-service-key orders app >"$dir/key.json"
start_app "$1"
sql() { app "${client[@]}" -N -e "$1"; }
sql 'CREATE TABLE t (n INT PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)'

say "a larger plan, with new connections all the time"
# shellcheck disable=SC2016 # variables of the pod's shell
app sh -c 'n=0; bad=0
while [ ! -e /tmp/stop ]; do
  n=$((n+1)); "$@" -e "SELECT 1" >/dev/null || bad=$((bad+1)); touch /tmp/started
done; echo "$n $bad"' sh "${client[@]}" >"$dir/connections" &
loop=$!
within 60 app sh -c '[ -e /tmp/started ]'
broker update-service orders -p dedicated-large
app touch /tmp/stop
wait "$loop"
read -r connections bad <"$dir/connections"
echo "$connections connections, $bad failed"
[ "$bad" = 0 ] || fail "a connection failed while the server was resized"
pod=$(kubectl -n mysql-servers get pods -o name)
limit=$(kubectl -n mysql-servers get "$pod" -o 'jsonpath={.status.containerStatuses[0].resources.limits.memory}')
restarts=$(kubectl -n mysql-servers get "$pod" -o 'jsonpath={.status.containerStatuses[0].restartCount}')
echo "memory $limit, $restarts restarts"
[ "$limit $restarts" = "1Gi 0" ] || fail "the pod was not resized in place"

say "the pod is deleted"
kubectl -n mysql-servers delete "$pod"
count() { rows=$(sql 'SELECT COUNT(*) FROM t' 2>/dev/null); }
within 180 count
[ "$rows" = 3 ] || fail "$rows rows are left of 3"
doctor

say "too little memory, and settings that mysqld refuses"
server=${pod#pod/}
server=${server%-0}
limit() {
  kubectl -n mysql-servers patch statefulset "$server" -p "{\"spec\":{\"template\":{\"spec\":{\"containers\":[
    {\"name\":\"mysqld\",\"resources\":{\"requests\":{\"memory\":\"$1\"},\"limits\":{\"memory\":\"$1\"}}}]}}}}"
}
settings() { kubectl -n mysql-servers patch secret "$server" -p "{\"data\":{\"my.cnf\":\"$1\"}}"; }
trouble() {
  kubectl -n mysql-broker exec deployment/mysql-broker -- /mysql-broker servers --dedicated >"$dir/servers"
  grep -e "$1" "$dir/servers"
}
limit 40Mi
kubectl -n mysql-servers delete "$pod"
within 180 trouble out-of-memory
limit 1Gi
before=$(kubectl -n mysql-servers get secret "$server" -o 'jsonpath={.data.my\.cnf}')
settings "$(printf '[mysqld]\nno-such-setting=1\n' | base64 -w 0)"
kubectl -n mysql-servers delete "$pod"
within 180 trouble crashing
settings "$before"
kubectl -n mysql-servers delete "$pod"
within 180 count
[ "$rows" = 3 ] || fail "$rows rows are left of 3"
doctor

say "pods are deleted in the middle of each operation"
# disturbed COMMAND... runs a command, and deletes the pods of all servers again and again meanwhile.
disturbed() {
  "$@" &
  local running=$!
  for _ in 1 2 3; do
    sleep 0.7
    kubectl -n mysql-servers delete pods --all --wait=false
  done
  wait "$running" || fail "failed while pods were deleted: $*"
}
disturbed broker create-service dedicated-small invoices
within 180 count # a change of plan is accepted only if the server responds
disturbed broker update-service orders -p dedicated-small
disturbed broker delete-service invoices
within 180 count
[ "$rows" = 3 ] || fail "$rows rows are left of 3"
doctor

say "brokers restart and are evicted, under requests"
# Waits a little after each request, as the node has other work.
(
  n=0 bad=0
  until [ -e "$dir/stop" ]; do
    code=$(curl -s -m 30 -o /dev/null -w '%{http_code}' -u "$BROKER_USERNAME:$BROKER_PASSWORD" \
      -H 'X-Broker-API-Version: 2.17' "$BROKER_URL/v2/catalog") || true
    n=$((n + 1))
    [ "$code" = 200 ] || bad=$((bad + 1))
    sleep 0.02
  done
  echo "$n $bad" >"$dir/requests"
) &
loop=$!
kubectl -n mysql-broker rollout restart deployment/mysql-broker
kubectl -n mysql-broker rollout status deployment/mysql-broker --timeout=180s
evicted=$(kubectl -n mysql-broker get pods --field-selector status.phase=Running -o 'jsonpath={.items[0].metadata.name}')
echo "{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\"metadata\":{\"name\":\"$evicted\",\"namespace\":\"mysql-broker\"}}" |
  kubectl create --raw "/api/v1/namespaces/mysql-broker/pods/$evicted/eviction" -f -
kubectl -n mysql-broker wait --for=delete "pod/$evicted" --timeout=60s
kubectl -n mysql-broker rollout status deployment/mysql-broker --timeout=180s
touch "$dir/stop"
wait "$loop"
read -r requests bad <"$dir/requests"
echo "$requests requests, $bad failed"
[ "$bad" = 0 ] || fail "a request failed while brokers restarted"

say "the instance is deleted"
broker delete-service orders
doctor
left=$(kubectl -n mysql-servers get statefulsets,pods,services,persistentvolumeclaims,secrets -o name -l app.kubernetes.io/name=mysqld)
[ -z "$left" ] || fail "left: $left"
kubectl delete namespace apps mysql-broker mysql-servers
