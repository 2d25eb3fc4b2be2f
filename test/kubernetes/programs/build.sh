#!/bin/bash
# Builds the programs of a Kubernetes control plane and node, and etcd, from the Go module proxy. What is there and of the
# same versions is left alone; else it takes ten minutes of one processor, and 3 GB of Go's build cache.
# Usage: build.sh DEST [PROGRAM...]    (default: all; control plane: etcd kube-apiserver kube-controller-manager)
set -euo pipefail
dest=$(realpath -m "${1:?usage: build.sh DEST [PROGRAM...]}")
shift
cd "$(dirname "$0")"
programs=("$@")
if [ ${#programs[@]} = 0 ]; then
  programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl)
fi
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
versions="$(go env GOVERSION) $(cat go.sum etcd/go.sum | sha256sum | cut -d' ' -f1)"
number=${version#v}
major=${number%%.*}
minor=${number#*.}
stamp="-X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=$major
  -X k8s.io/component-base/version.gitMinor=${minor%%.*}"

export CGO_ENABLED=0 GOWORK=off GOFLAGS='-trimpath -buildvcs=false'
mkdir -p "$dest"
for program in "${programs[@]}"; do
  if [ -x "$dest/$program" ] && [ "$(cat "$dest/$program.versions" 2>/dev/null)" = "$versions" ]; then
    continue
  fi
  rm -f "$dest/$program.versions"
  if [ "$program" = etcd ]; then
    go -C etcd build -ldflags '-s -w' -o "$dest/etcd" .
  else
    go build -ldflags "-s -w $stamp" -o "$dest/$program" "k8s.io/kubernetes/cmd/$program"
  fi
  echo "$versions" >"$dest/$program.versions"
  echo "$dest/$program"
done
