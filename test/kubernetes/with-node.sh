#!/bin/bash
# Runs test/kubernetes/with-node with a command, in mount, process and network namespaces of its own. When it ends, their
# mounts, addresses, packet filters and processes end with them. Control groups do not, so they are removed. Needs root.
# Usage, in the project's folder: with-node.sh COMMAND [ARGUMENT...]
set -euo pipefail
if [ -z "${KUBERNETES_NODE_STATE-}" ]; then
  KUBERNETES_NODE_STATE=$(mktemp -d --tmpdir kubernetes-node.XXXXXX)
  export KUBERNETES_NODE_STATE
  chmod 0755 "$KUBERNETES_NODE_STATE" # mysqld passes through
  trap : INT TERM HUP                 # they reach the command, too, whose end is awaited
  status=0
  unshare --mount --propagation private --pid --fork --kill-child --net "$0" "$@" || status=$?
  rm -rf "$KUBERNETES_NODE_STATE"
  for _ in {1..200}; do # the kernel may take a while to let go of groups whose processes have ended
    mapfile -t groups < <(find /sys/fs/cgroup -depth -type d -path '*/kubepods*')
    [ ${#groups[@]} -gt 0 ] || exit "$status"
    rmdir "${groups[@]}" 2>/dev/null || sleep 0.1
  done
  echo "control groups are left: ${groups[*]}" >&2
  exit 1
fi

mount --make-rshared / # among pods, but not with the host
mount -t proc proc /proc
# The node's programs have paths there that cannot be configured.
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir -p /run/node/upper /run/node/work
mount -t overlay -o lowerdir=/var,upperdir=/run/node/upper,workdir=/run/node/work overlay /var
# The address of the node, and the Services', to which the node itself would find no route.
ip link set lo up
ip address add 10.88.0.1/32 dev lo
ip route add 10.96.0.0/16 dev lo src 10.88.0.1
echo 1 >/proc/sys/net/ipv4/ip_forward
status=0
go run ./test/kubernetes/with-node "$@" || status=$? # this process reaps what is left to it: shims of containers
exit "$status"
