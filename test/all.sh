#!/bin/bash
# Runs the tests of all packages with servers that are there already. Ends with go test's own lines, and fails where a
# test does. FULL=1, as CI sets it, runs every test on every mysqld, and most packages with the race detector.
# Otherwise there is no race detector, and the tests that start brokers or servers of their own run on one mysqld each
# (servers.Chosen): a third of the time.
# $BESIDE is a command that runs at the same time, because most tests wait. Its output comes before that of the last
# packages.
set -euo pipefail
cd "$(dirname "$0")/.."

# The longest come first, as go test begins packages in the order given: it should not end with one of them alone.
longest='./test/e2e ./provisioner/launcher/process ./provisioner/launcher/kubernetes ./test/chaos ./test/ha
  ./test/connect ./provisioner/doctor ./test/soak ./test/browser ./test/deploy ./test/model ./test/audit'
# With the race detector, brokers take several times as long to start. These tests start so many that they go without
# it: ./test/model, `make chaos` and the tests of the packages run the same code with it.
without_race='./test/e2e ./test/chaos ./test/ha ./test/connect ./test/soak ./test/browser ./test/deploy'

# all_but lists the packages that are not among the arguments.
all_but() {
  go list ./... | grep -v -x -F -f <(go list "$@")
}

# More tests and packages run at once than there are processors, because most of them wait. `make vet` has vetted
# already. The time limit applies to each package.
run() {
  go test -vet=off -count=1 -timeout 40m "$@" || status=$?
}

status=0 failed=''
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
sh -c "${BESIDE:-:}" >"$printed" 2>&1 &
beside=$!
end_beside() {
  wait "$beside" || failed=$BESIDE
  cat "$printed"
}

# shellcheck disable=SC2086 # lists of words
if [ "${FULL:-}" = 1 ]; then
  unset TEST_ON_ONE_MYSQL
  others=$(all_but $without_race)
  run -parallel 6 $without_race
  end_beside
  CGO_ENABLED=1 run -race -parallel 6 $others
else
  others=$(all_but $longest)
  TEST_ON_ONE_MYSQL=1 run -p 3 -parallel 12 $longest
  end_beside
  run -p 3 -parallel 8 $others
fi
if [ -n "$failed" ]; then
  echo "failed, see above: $failed" >&2
  exit 1
fi
exit $status
