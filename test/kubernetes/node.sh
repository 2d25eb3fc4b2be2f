#!/bin/bash
# What `make kubernetes` runs inside of test/kubernetes/with-node, which names the images of each mysqld.
set -euo pipefail
cd "$(dirname "$0")/../.."
for image in ${MYSQLD_IMAGES:?run this by make kubernetes}; do
  test/kubernetes/outside.sh "$image"
  test/kubernetes/pods.sh "$image"
done
go test -count=1 -parallel 3 -timeout 40m ./provisioner/launcher/kubernetes
exec go test -count=1 -parallel 3 -timeout 20m ./test/e2e/kubernetes
