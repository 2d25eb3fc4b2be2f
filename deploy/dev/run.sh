#!/bin/bash
# What `make run` does: it installs missing packages while it compiles, and then starts a broker with private servers. It
# prints each phase, and how many seconds have passed.
set -euo pipefail
say() { printf '%3d s  %s\n' "$SECONDS" "$1"; }

command -v go >/dev/null || { echo 'Go 1.26 or later is not installed: https://go.dev/dl' >&2; exit 1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
missing=$(deploy/dev/install-packages.sh run missing)
installing=
if [ -n "$missing" ]; then
  say "packages: installing ${missing//$'\n'/ }"
  if [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; then
    deploy/dev/install-packages.sh run >"$log" 2>&1 </dev/null &
    installing=$!
  else # it may ask for a password
    deploy/dev/install-packages.sh run
  fi
fi

say 'modules: downloading what is not there'
total=$(go list -deps ./cmd/mysql-broker | wc -l)
say "compile: $total packages, but for those that are compiled already"
# The compiler spends a sixth of its time on its own garbage otherwise.
GOGC=400 GOMEMLIMIT=1GiB make --silent build BUILDFLAGS=-v 2>&1 | while IFS= read -r line; do
  if [[ $line =~ ^[A-Za-z0-9_./-]+$ ]]; then # a package
    compiled=$((${compiled:-0} + 1))
    [ $((compiled % 100)) != 0 ] || say "compile: $compiled"
  else
    echo "$line"
  fi
done

if [ -n "$installing" ]; then
  say 'packages: waiting for their installation'
  wait "$installing" || { cat "$log" >&2; exit 1; }
fi
rm -f "$log"
say 'servers:'
exec bin/mysql-broker dev
