#!/bin/bash
# Looks the modules up in Go's vulnerability database, or says that it cannot be reached.
set -euo pipefail
if ! timeout 5 bash -c 'exec 3<>/dev/tcp/vuln.go.dev/443' 2>/dev/null; then
  echo "govulncheck: left out, vuln.go.dev cannot be reached from here"
  exit 0
fi
set -x
go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...
