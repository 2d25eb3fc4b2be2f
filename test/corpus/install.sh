#!/bin/bash
# Installs the servers' own test suites: MariaDB's from Debian, and MySQL's from Debian unstable, where `make mysql97`
# takes MySQL from. DEST/mariadb and DEST/mysql have what was not there before. 350 MB are downloaded.
# Usage: install.sh DEST    (Debian or Ubuntu)
set -euo pipefail
dest=$(realpath -m "${1:?usage: install.sh DEST}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dest" "$dir"/{lists,archives}/partial
cd "$dir"

# shellcheck disable=SC2016 # apt's own variables
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
[ -n "$mirror" ] || mirror=$(sed -n 's/^DEF_MIRROR="\(.*\)"$/\1/p' "$(command -v debootstrap)")
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror unstable main" >sources.list
unstable=(-o "Dir::Etc::SourceList=$dir/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$dir/lists"
  -o "Dir::Cache=$dir" -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
  -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false)

# install NAME DIRECTORY FILES… takes files out of a package that is here, and leaves no suite that is not complete.
install() {
  local name=$1 from=$2
  shift 2
  mkdir unpacked
  dpkg-deb --fsys-tarfile ./*.deb | tar -x -C unpacked --wildcards "${@/#/.$from/}"
  mv "unpacked$from" "$dest/$name"
  rm -rf unpacked ./*.deb
}

if [ ! -e "$dest/mariadb" ]; then
  apt-get -q -o APT::Sandbox::User=root download mariadb-test-data
  install mariadb /usr/share/mysql/mysql-test 'main/*' 'suite/*' 'plugin/*' 'include/*'
fi
if [ ! -e "$dest/mysql" ]; then
  apt-get -q -o APT::Sandbox::User=root "${unstable[@]}" update
  apt-get -q -o APT::Sandbox::User=root "${unstable[@]}" download mysql-testsuite
  install mysql /usr/lib/mysql-test 't/*' 'suite/*/t/*' 'include/*' 'suite/*/include/*'
fi
