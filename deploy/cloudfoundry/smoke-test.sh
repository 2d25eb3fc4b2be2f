#!/bin/bash
# Creates a service instance as a developer would, uses it, and deletes it, also after a failure. It works in the space
# that cf targets. It needs cf 8, jq, and mariadb or mysql.
#
# Usage: smoke-test.sh OFFERING PLAN [PLAN…]        such as: smoke-test.sh mysql shared-small dedicated-small
#
#   THROUGH_APP=APP   connect through this app (cf ssh), if this machine cannot reach the server
#   WAIT=SECONDS      time limit for each cf command; default 600
set -euo pipefail
[ $# -ge 2 ] || { sed -n '/^# Usage/,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2; }
offering=$1
shift

sql_client=$(command -v mariadb || command -v mysql) || { echo "Neither mariadb nor mysql is installed." >&2; exit 2; }
private=$(mktemp -d) # contains the password; mode 0700
instance='' tunnel=''

close_tunnel() {
  [ -z "$tunnel" ] || kill "$tunnel" 2>/dev/null || true
  tunnel=''
}

clean_up() {
  local status=$?
  trap - EXIT
  close_tunnel
  rm -rf "$private"
  if [ -n "$instance" ]; then
    echo "--- Something went wrong; deleting $instance" >&2
    cf delete-service-key -f --wait "$instance" smoke-test || true
    if ! cf delete-service -f --wait "$instance"; then
      echo "--- $instance could not be deleted: delete it by hand" >&2
    fi
    [ "$status" != 0 ] || status=1
  fi
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

run_cf() {
  echo "--- cf $*"
  timeout --foreground "${WAIT:-600}" cf "$@"
}

# field NAME prints one of the credentials, or nothing.
field() { jq -r --arg name "$1" '.[$name] // empty' "$private/credentials"; }

# address prints the server's host and port.
address() {
  jq -r '.host |= (if contains(":") then "[\(.)]" else . end) | "\(.host):\(.port)"' "$private/credentials"
}

# read_credentials stores the JSON object after the text. In cf 8, its member "credentials" has them.
read_credentials() {
  cf service-key "$1" smoke-test | sed -n '/^{/,$p' | jq -e '.credentials // .' >"$private/credentials"
}

# open_tunnel sets host and port to the local end of a tunnel through an app.
open_tunnel() {
  local local_port=$((20000 + RANDOM % 10000)) deadline=$((SECONDS + 60))
  cf ssh "$THROUGH_APP" --skip-remote-execution -L "127.0.0.1:$local_port:$(address)" >&2 </dev/null &
  tunnel=$!
  until (: <"/dev/tcp/127.0.0.1/$local_port") 2>/dev/null; do
    if [ $SECONDS -ge $deadline ] || ! kill -0 "$tunnel" 2>/dev/null; then
      echo "The tunnel through $THROUGH_APP does not work." >&2
      return 1
    fi
    sleep 0.2
  done
  host=127.0.0.1 port=$local_port
}

# query runs SQL. The credentials are in a file, because every user can see arguments.
query() {
  "$sql_client" --defaults-extra-file="$private/client.cnf" --batch --skip-column-names -e "$1"
}

configure_client() {
  host=$(field host) port=$(field port)
  [ -z "${THROUGH_APP:-}" ] || open_tunnel
  {
    printf '[client]\nprotocol=tcp\nhost=%s\nport=%s\nuser=%s\npassword=%s\n' \
      "$host" "$port" "$(field username)" "$(field password)"
    if [ -n "$(field ca_certificate)" ]; then
      field ca_certificate >"$private/ca.pem"
      printf 'ssl-ca=%s\n' "$private/ca.pem"
    fi
    printf '[mysql]\ndatabase=%s\n' "$(field database)"
  } >"$private/client.cnf"
}

for plan in "$@"; do
  name=smoke-test-$plan-$(date +%s)-$$
  instance=$name # from here on, clean_up deletes it
  run_cf create-service "$offering" "$plan" "$name" --wait
  run_cf create-service-key "$name" smoke-test --wait
  echo "--- cf service-key $name smoke-test (not shown)"
  read_credentials "$name"
  configure_client
  echo "--- Writing and reading a row as $(field username) at $(address)"
  query 'CREATE TABLE smoke_test (n INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO smoke_test VALUES (42)'
  answer=$(query 'SELECT n FROM smoke_test')
  [ "$answer" = 42 ] || { echo "The row reads ${answer:-nothing}." >&2; exit 1; }
  run_cf delete-service-key -f --wait "$name" smoke-test
  if query 'SELECT 1' >/dev/null 2>"$private/refusal"; then
    echo "The account still works after its key was deleted." >&2
    exit 1
  elif ! grep -q 'Access denied' "$private/refusal"; then
    cat "$private/refusal" >&2 # it failed for another reason
    exit 1
  fi
  close_tunnel
  run_cf delete-service -f --wait "$name"
  instance=''
  echo "--- $plan works"
done
