#!/bin/bash
# Makes a directory from which a server runs on a Debian or Ubuntu that does not package it: the programs of Debian
# unstable, with every library that they load and the loader itself, so that nothing of this system's matters. DEST is
# replaced, unless unstable has gone on to another version than the tests expect. mysqld refuses to run as root, so
# DEST has to be where another user can read it.
# Usage: build.sh mysql-9|mariadb-11.8 DEST    (as root; debootstrap and patchelf; about 45 s)
set -euo pipefail
wanted=${1:?usage: build.sh mysql-9|mariadb-11.8 DEST}
dest=$(realpath -m "${2:?usage: build.sh mysql-9|mariadb-11.8 DEST}")
case $wanted in
mysql-9)
  packages=mysql-server-core,mysql-client-core
  server=/usr/sbin/mysqld
  programs="/usr/bin/mysql /usr/bin/mysqladmin /usr/bin/mysqldump"
  scripts=
  plugins=/usr/lib/mysql/plugin
  share=/usr/share/mysql
  ;;
mariadb-11.8)
  packages=mariadb-server-core,mariadb-client-core
  server=/usr/sbin/mariadbd
  programs="/usr/bin/mariadb /usr/bin/mariadb-check /usr/bin/mariadb-upgrade /usr/bin/my_print_defaults"
  programs+=" /usr/bin/resolveip"
  scripts=/usr/bin/mariadb-install-db
  plugins=
  share=/usr/share/mariadb
  ;;
*)
  echo "$wanted is none of mysql-9, mariadb-11.8" >&2
  exit 1
  ;;
esac

if [ -e "$dest" ] && [ ! -x "$dest/bin/$(basename $server)" ]; then
  echo "$dest is there and is no tree of a server: not replaced" >&2
  exit 1
fi
root=$(mktemp -d)
trap 'rm -rf "$root" "$root.log" "$dest.new"' EXIT

if ! debootstrap --variant=minbase --include=$packages sid "$root" >"$root.log" 2>&1; then
  tail -n 20 "$root.log" >&2
  exit 1
fi
version=$(chroot "$root" $server --version | sed -n 's/.* Ver \([^ ]*\).*/\1/p')
if [[ $version != "${wanted#*-}".* ]]; then
  echo "Debian unstable now has ${wanted%-*} $version, but the tests expect ${wanted#*-}: nothing was built" >&2
  exit 1
fi

rm -rf "$dest.new"
mkdir -p "$dest.new"/{bin,lib/mysql,share}
if [ -n "$plugins" ]; then
  cp -r "$root$plugins" "$dest.new/lib/mysql/"
fi
cp -r "$root$share" "$dest.new/share/"
for script in $scripts; do
  cp "$root$script" "$dest.new/bin/"
done
if [ -n "$scripts" ]; then # mariadb-install-db looks there for the server
  mkdir "$dest.new/sbin"
  ln -s "../bin/$(basename $server)" "$dest.new/sbin/"
fi

# ldd's lines: "libx.so => /path (address)", or "/path/of/the/loader (address)".
libraries=$(chroot "$root" sh -c "ldd $server $programs ${plugins:+$plugins/*.so}" | grep -o '/[^ ]* (0x' |
  cut -d' ' -f1 | sort -u)
for library in $libraries; do
  cp -L "$root$library" "$dest.new/lib/"
done
loader=$(basename "$(patchelf --print-interpreter "$root$server")")

for program in $server $programs; do
  copy=$dest.new/bin/$(basename "$program")
  cp "$root$program" "$copy"
  # RPATH, unlike RUNPATH, also holds for what the libraries load.
  patchelf --set-interpreter "$dest/lib/$loader" --force-rpath --set-rpath "$dest/lib" "$copy"
done
chmod -R a+rX "$dest.new"
rm -rf "$dest"
mv "$dest.new" "$dest"
"$dest/bin/$(basename $server)" --version
