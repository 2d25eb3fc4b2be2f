# The first process of a container, in new namespaces: makes a root that shows the host's programs, read-only, and the
# volumes, and then becomes the container's command as the user asked for.
# Arguments: ROOT, lines of HOST-DIRECTORY DIRECTORY, USER:GROUP, GROUP, $PATH, command
root=$1 mounts=$2 user=$3 group=$4 path=$5
shift 5
ip link set lo up
mount --make-rprivate /
mount -t tmpfs -o mode=0755 root "$root"
for dir in bin sbin lib lib32 lib64 usr opt etc; do
  if [ -L "/$dir" ]; then
    cp -P "/$dir" "$root/$dir"
  elif [ -d "/$dir" ]; then
    mkdir "$root/$dir"
    mount --bind "/$dir" "$root/$dir"
    mount -o remount,bind,ro "$root/$dir"
  fi
done
mount -t tmpfs -o mode=0755 share "$root/usr/local/share" # what the image has beside the host's programs
mkdir "$root/dev" "$root/proc"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
echo "$mounts" | while read -r from at; do
  [ -n "$from" ] || continue
  mkdir -p "$root$at"
  mount --bind "$from" "$root$at"
done
mount -o remount,ro "$root/usr/local/share"
mount -o remount,ro "$root"
exec chroot --userspec="$user" --groups="$group" "$root" /usr/bin/env -i PATH="$path" HOME=/ "$@"
