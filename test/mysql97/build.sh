#!/bin/bash
# Makes a directory from which Oracle's MySQL runs on a Debian or Ubuntu that does not package it: the programs of
# Debian unstable, with every library that they load and the loader itself, so that nothing of this system's matters.
# DEST is replaced, unless unstable has gone on to another major version than 9. mysqld refuses to run as root, so
# DEST has to be where another user can read it.
# Usage: build.sh DEST    (as root; debootstrap and patchelf; about 45 s)
set -euo pipefail
dest=$(realpath -m "${1:?usage: build.sh DEST}")
programs="/usr/sbin/mysqld /usr/bin/mysql /usr/bin/mysqladmin /usr/bin/mysqldump"
plugins=/usr/lib/mysql/plugin
messages=/usr/share/mysql

if [ -e "$dest" ] && [ ! -x "$dest/bin/mysqld" ]; then
  echo "$dest is there and is no MySQL tree: not replaced" >&2
  exit 1
fi
root=$(mktemp -d)
trap 'rm -rf "$root" "$root.log" "$dest.new"' EXIT

if ! debootstrap --variant=minbase --include=mysql-server-core,mysql-client-core sid "$root" >"$root.log" 2>&1; then
  tail -n 20 "$root.log" >&2
  exit 1
fi
version=$(chroot "$root" /usr/sbin/mysqld --version | sed -n 's/.* Ver \([^ ]*\).*/\1/p')
if [[ $version != 9.* ]]; then
  echo "Debian unstable now has MySQL $version, but the tests expect 9.x: nothing was built" >&2
  exit 1
fi

rm -rf "$dest.new"
mkdir -p "$dest.new"/{bin,lib/mysql,share}
cp -r "$root$plugins" "$dest.new/lib/mysql/"
cp -r "$root$messages" "$dest.new/share/"

# ldd's lines: "libx.so => /path (address)", or "/path/of/the/loader (address)".
libraries=$(chroot "$root" sh -c "ldd $programs $plugins/*.so" | grep -o '/[^ ]* (0x' | cut -d' ' -f1 | sort -u)
for library in $libraries; do
  cp -L "$root$library" "$dest.new/lib/"
done
loader=$(basename "$(patchelf --print-interpreter "$root/usr/sbin/mysqld")")

for program in $programs; do
  copy=$dest.new/bin/$(basename "$program")
  cp "$root$program" "$copy"
  # RPATH, unlike RUNPATH, also holds for what the libraries load.
  patchelf --set-interpreter "$dest/lib/$loader" --force-rpath --set-rpath "$dest/lib" "$copy"
done
chmod -R a+rX "$dest.new"
rm -rf "$dest"
mv "$dest.new" "$dest"
"$dest/bin/mysqld" --version
