# The first process of a container, in new namespaces: makes a root that shows the host's programs, read-only, and the
# volumes, and then becomes the container's command as the user asked for. Each process that it starts takes time from
# the tests, so all mounts are made by one.
# Arguments: ROOT, file of mounts below it, USER:GROUP, GROUP, $PATH, command
root=$1 mounts=$2 user=$3 group=$4 path=$5
shift 5
ip link set lo up
mount --make-rprivate /
mount -t tmpfs -o mode=0755 root "$root"
links=
for dir in bin sbin lib lib32 lib64; do
  if [ -L "/$dir" ]; then
    links="$links /$dir"
  fi
done
# shellcheck disable=SC2086 # a list of words
[ -z "$links" ] || cp -P $links "$root"
mount --all --fstab "$mounts"
mount -o remount,ro "$root/usr/local/share"
mount -o remount,ro "$root"
exec chroot --userspec="$user" --groups="$group" "$root" /usr/bin/env -i PATH="$path" HOME=/ "$@"
