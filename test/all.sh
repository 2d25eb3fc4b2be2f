#!/bin/bash
# Runs the tests of all packages with servers that are there already. Ends with go test's own lines, and fails where a
# test does. FULL=1, as CI sets it, runs what depends on the flavour on every mysqld, and most packages
# with the race detector.
# Otherwise there are neither drills nor race detector, and the tests that start brokers or servers of their own run on
# one mysqld each (servers.Chosen): a quarter of the time.
set -euo pipefail
cd "$(dirname "$0")/.."

# These kill brokers and servers hundreds of times. `make chaos`, `make ha` and `make soak` run their long forms.
drills='./test/chaos ./test/ha ./test/soak'
# The longest come first, as go test begins packages in the order given: it should not end with one of them alone.
longest='./test/e2e ./provisioner/launcher/process ./provisioner/launcher/kubernetes ./test/connect
  ./provisioner/doctor ./test/browser ./test/deploy ./test/model ./test/audit'
# With the race detector, brokers take several times as long to start. These tests start so many that they go without
# it: ./test/model, `make chaos` and the tests of the packages run the same code with it.
without_race="./test/e2e $drills ./test/connect ./test/browser ./test/deploy"
# It builds a program that many tests need, which takes minutes where Go's cache is empty.
first=./test/s3

# all_but lists the packages that are not among the arguments.
all_but() {
  go list ./... | grep -v -x -F -f <(go list "$@")
}

# More tests and packages run at once than there are processors, because most of them wait. `make vet` has vetted
# already. The time limit applies to each package.
run() {
  go test -vet=off -count=1 -timeout 40m "$@" || status=$?
}

status=0
# shellcheck disable=SC2086 # lists of words
run $first
# shellcheck disable=SC2086
if [ "${FULL:-}" = 1 ]; then
  unset TEST_ON_ONE_MYSQL
  others=$(all_but $without_race $first)
  run -parallel 6 $without_race
  CGO_ENABLED=1 run -race -parallel 6 $others
else
  others=$(all_but $longest $drills $first)
  TEST_ON_ONE_MYSQL=1 run -p 2 -parallel 8 $longest
  run -p 2 -parallel 8 $others
fi
exit $status
