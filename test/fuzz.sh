#!/bin/bash
# Runs every fuzz target of the project, one after the other, for the time given.
set -euo pipefail
grep -roE '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' . | sort | while IFS=: read -r file function; do
  echo "== ${function#func } in $(dirname "$file")"
  go test -run '^$' -fuzz "^${function#func }\$" -fuzztime "$1" -fuzzminimizetime 2s -parallel 1 "$(dirname "$file")"
done
