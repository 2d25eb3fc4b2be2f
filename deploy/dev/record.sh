#!/bin/bash
# Prints what the README shows of a terminal: commands and what they print, run on the broker of `mysql-broker dev`. Names
# that differ each time are replaced. TestDev compares the README with it.
# Usage, beside a running `make run`: deploy/dev/record.sh [PROGRAM]
set -euo pipefail
program=${1:-bin/mysql-broker}

# Progress goes to standard error.
show() {
  echo "\$ $1"
  bash -c "${1//bin\/mysql-broker/\"\$PROGRAM\"}" 2>/dev/null |
    sed -E 's/\b(u|db)_[a-z0-9]{20}\b/\1_…/g; s/(u_…):[^@]*@/\1:…@/; s/:[0-9]+\/db/:PORT\/db/; s/ +$//'
}
export PROGRAM=$program

show 'bin/mysql-broker client create-service shared-small orders'
show 'bin/mysql-broker client create-service-key orders app | jq -r .uri'
show "bin/mysql-broker client update-service orders -c '{\"backup\":\"now\"}'"
show 'bin/mysql-broker client update-service orders -p dedicated-small   # moves the data to a server of its own'
show 'bin/mysql-broker client services | cut -c-63'
show 'bin/mysql-broker doctor'
show 'bin/mysql-broker client delete-service orders'
