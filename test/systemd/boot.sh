#!/bin/bash
# Turns the process, which has namespaces of its own, into systemd on a root that is this host's, but for what is written:
# that is kept in memory. What deploy/systemd/README.md has operators install is installed there before, or a package.
# Usage: boot.sh EMPTY-DIRECTORY ENVIRONMENT-FILE [PACKAGE]
set -euo pipefail
work=$1 environment=$2 package=${3:-}
mount --make-rprivate /
mount -t tmpfs -o mode=0755 tmpfs "$work"
root=$work/root
mkdir "$work/upper" "$work/lower-work" "$root"
mount -t overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/lower-work" overlay "$root"

rm -rf "$root/etc/sysusers.d" "$root/etc/tmpfiles.d" # which not every host has
mount -t proc proc "$root/proc"
if [ -n "$package" ]; then
  install -m 0644 "$package" "$root/mysql-broker.deb"
  chroot "$root" dpkg --install /mysql-broker.deb
else
  commands=$(sed -n 's|^\(install .* \)\(/[^ ]*\)$|\1"$root"\2|p' deploy/systemd/README.md)
  [ -n "$commands" ]
  eval "$commands"
fi
install -m 0644 "$environment" "$root/etc/mysql-broker/environment" # tmpfiles.d makes it private

# Of this host's services, none is to start; the network is the host's, and there already.
units=$root/etc/systemd/system
rm -rf "$units"/*.wants
for unit in sockets.target timers.target paths.target systemd-udevd.service systemd-udev-trigger.service \
  systemd-networkd.service systemd-resolved.service systemd-timesyncd.service systemd-logind.service \
  systemd-remount-fs.service systemd-sysctl.service systemd-binfmt.service getty.target network-online.target \
  systemd-random-seed.service systemd-update-utmp.service local-fs.target swap.target; do
  ln -sf /dev/null "$units/$unit"
done
: >"$root/etc/fstab"
rm -rf "$root/var/log/journal" # the journal is in /run

mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=0755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  cp -a "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
for dir in dev/shm run tmp var/tmp; do
  mount -t tmpfs -o mode=1777 tmpfs "$root/$dir"
done
chmod 0755 "$root/run"

mkdir "$root/run/before"
cd "$root"
pivot_root . run/before
umount -l /run/before
rmdir /run/before
exec env -i container=mysql-broker-test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit=basic.target --show-status=no --log-target=journal
