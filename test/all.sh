#!/bin/bash
# Runs the tests of all packages with servers that are there already. Ends with go test's own lines, and fails where a
# test does.
set -euo pipefail
cd "$(dirname "$0")/.."

# What these start, kill or measure needs no race detector, with which brokers take several times as long to start: the
# other tests run the same code with it. The longest come first, as go test begins packages in the order given: it should
# not end with one of them alone.
without='./test/chaos ./test/soak ./test/browser ./test/connect ./test/deploy'
others=$(go list ./... | grep -v -E '/test/(chaos|soak|browser|connect|deploy|e2e)$')

# More tests at once than the processors are for: most of them wait. `make lint` has vetted. The time limit is that of
# each package.
status=0
# shellcheck disable=SC2086 # lists of words
go test -vet=off -count=1 -parallel 6 -timeout 40m $without || status=$?
# shellcheck disable=SC2086
go test -race -vet=off -count=1 -parallel 6 -timeout 40m ./test/e2e $others || status=$?
exit $status
