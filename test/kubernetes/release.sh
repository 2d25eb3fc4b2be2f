#!/bin/bash
# Uses a release on the cluster of test/kubernetes/with-node as its READMEs say, with no image but the release's: the
# archives are imported, the folders of kustomize are applied, and on each of its servers an instance is created, used by
# another pod, and deleted. Run it in the project's folder, after `make release-packages release VERSION=1.0.0`.
set -euo pipefail
# shellcheck source=test/kubernetes/common.sh
. test/kubernetes/common.sh
start_postgres

say "images"
import() {
  ctr --namespace k8s.io --address "$KUBERNETES_NODE_STATE/containerd.sock" images import --all-platforms --digests \
    --base-name "registry.example.com/$1" "$2"
}
import mysql-broker dist/*-image.oci.tar
import mysql dist/*-mysql-*.oci.tar
import mariadb dist/*-mariadb-*.oci.tar

say "brokers"
tar -xzf dist/*-kubernetes.tar.gz -C "$dir"
cd "$dir"/mysql-broker-*-kubernetes
sha256sum --check --quiet SHA256SUMS
cd deploy/kubernetes
cp -r example mycluster
images=$(sed -n 's/^#LAUNCHER_IMAGES=//p' mycluster/broker.env.example)
sed -i 's|^# components:|components:|; s|^# - ../dedicated .*|- ../dedicated|' mycluster/kustomization.yaml
kubectl apply -k launcher
kubectl apply -f dedicated/rolebinding.yaml
keyset=$("$dir/mysql-broker" keyset)

only_new_replicas() { [ "$(kubectl -n mysql-broker get pods -o name | wc -l)" = 2 ]; }

for image in ${images//,/ }; do
  say "$image"
  sed -e "s|^\(BROKER_PASSWORD\)=.*|\1=$BROKER_PASSWORD|; s|^\(ENCRYPTION_KEYSET\)=.*|\1=$keyset|" \
    -e "s|^\(DATABASE_URL\)=.*|\1=postgres://postgres@$node/postgres?sslmode=disable|; /^MYSQL_SERVERS=/d" \
    -e "s|^#\(LAUNCHER_IMAGES\)=.*|\1=$image|" mycluster/broker.env.example >mycluster/broker.env
  kubectl apply -k mycluster
  kubectl -n mysql-broker rollout status deployment/mysql-broker --timeout=180s
  within 60 only_new_replicas # an earlier one works until it is told to end
  address=$(kubectl -n mysql-broker get service mysql-broker -o 'jsonpath={.spec.clusterIP}')
  export BROKER_URL=http://$address:8080
  broker create-service dedicated-small orders
  broker create-service-key orders app >"$dir/key.json"
  start_app "$image"
  app "${client[@]}" -e 'CREATE TABLE t (n INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)'
  rows=$(app "${client[@]}" -N -e 'SELECT COUNT(*), VERSION() FROM t')
  version=${image%%=*}
  [[ $rows = "2	${version#*-}"[-+]* ]] || fail "not two rows of $version: $rows"
  kubectl -n mysql-broker exec deployment/mysql-broker -- /mysql-broker doctor
  broker delete-service-key orders app
  said=$(app "${client[@]}" -e 'SELECT 1' 2>&1) || true
  [[ $said = *'Access denied'* ]] || fail "the key's account is still there: $said"
  broker delete-service orders
  kubectl delete namespace apps
done
left=$(kubectl -n mysql-servers get statefulsets,pods,persistentvolumeclaims -o name)
[ -z "$left" ] || fail "left: $left"
kubectl delete namespace mysql-broker mysql-servers
