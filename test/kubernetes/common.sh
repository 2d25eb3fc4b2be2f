# shellcheck shell=bash
# The scripts that run inside of with-node source this file in the project's folder. It has what they share: a directory,
# the broker's program, PostgreSQL on the node but outside of the cluster, and the pod of an application.
node=10.88.0.1
dir=$(mktemp -d)
chmod 755 "$dir"
end() {
  if [ $? != 0 ]; then # show what the brokers and the cluster did
    kubectl get events --all-namespaces --sort-by=.lastTimestamp | tail -n 30 || true
    kubectl -n mysql-broker logs --prefix --tail=30 --selector=app.kubernetes.io/name=mysql-broker || true
    tail -n 30 "$dir/broker.log" || true
  fi
  jobs -p | xargs --no-run-if-empty kill -KILL 2>/dev/null || true # PostgreSQL, and what a failed step has left
  wait
  rm -rf "$dir"
}
trap end EXIT

say() { printf '\n### %s\n' "$*"; }
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# within SECONDS COMMAND... repeats a command until it succeeds.
within() {
  local last=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$last" ] || fail "not in time: $*"
    sleep 0.2
  done
}

CGO_ENABLED=0 go build -o "$dir/mysql-broker" ./cmd/mysql-broker
export HOME=$dir BROKER_USERNAME=broker BROKER_PASSWORD=correct-horse-battery
broker() { "$dir/mysql-broker" client "$@"; }
key() { jq -r ".$1" "$dir/key.json"; }

start_postgres() {
  say "PostgreSQL, outside of the cluster"
  local initdb
  initdb=$(command -v initdb || printf '%s\n' /usr/lib/postgresql/*/bin/initdb | tail -n 1)
  install -d -o nobody "$dir/postgres"
  setpriv --reuid=nobody --clear-groups "$initdb" -D "$dir/postgres/data" -U postgres -A trust >/dev/null
  echo 'host all all 0.0.0.0/0 trust' >>"$dir/postgres/data/pg_hba.conf"
  setpriv --reuid=nobody --clear-groups "$(dirname "$initdb")/postgres" -D "$dir/postgres/data" -h "$node" \
    -k "$dir/postgres" 2>"$dir/postgres.log" &
}

# settings FILE prints an option file with the key's credentials. FILE is where its CA is.
settings() {
  printf '[client]\nssl-ca=%s\nhost=%s\nport=%s\nuser=%s\npassword=%s\n' "$1" "$(key host)" "$(key port)" \
    "$(key username)" "$(key password)"
}

# verifying FLAVOUR-VERSION prints the option with which the flavour's client verifies the name in the certificate.
verifying() {
  case $1 in
  mysql-*) echo --ssl-mode=VERIFY_IDENTITY ;;
  *) echo --ssl-verify-server-cert ;;
  esac
}

# start_app FLAVOUR-VERSION=IMAGE starts a pod of that image and gives it the key's credentials: app COMMAND... runs a
# command in it, and client is the command of its client.
start_app() {
  kubectl create namespace apps
  kubectl -n apps run app --image="${1#*=}" --command -- sleep 3600
  kubectl -n apps wait --for=condition=Ready pod/app --timeout=120s
  key ca_certificate | app sh -c 'cat >/tmp/ca.pem'
  settings /tmp/ca.pem | app sh -c 'cat >/tmp/my.cnf'
  # shellcheck disable=SC2034 # for those who source this
  client=("${1%%-*}" --defaults-file=/tmp/my.cnf "$(verifying "$1")" "$(key database)")
}
app() { kubectl -n apps exec -i app -- "$@"; }
