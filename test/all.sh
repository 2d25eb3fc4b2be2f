#!/bin/bash
# Runs the tests of all packages with servers that are there already. Ends with go test's own lines, and fails where a
# test does.
set -euo pipefail
cd "$(dirname "$0")/.."

# These take longest, and go test begins packages in the order given: it should not end with one of them alone.
first='./test/e2e ./test/chaos'
others=$(go list ./... | grep -v -E '/test/(e2e|chaos|soak)$')

# What test/soak looks for needs no race detector, with which it takes several times as long.
status=0
go test -vet=off -count=1 -timeout 40m ./test/soak || status=$?

# More tests at once than the processors are for: the end-to-end ones mostly wait. `make lint` has vetted. The time limit
# is that of each package.
# shellcheck disable=SC2086 # lists of words
go test -race -vet=off -count=1 -parallel 6 -timeout 40m $first $others || status=$?
exit $status
