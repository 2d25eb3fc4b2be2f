#!/bin/bash
# Writes mysqld.lock: the packages of Debian that the images of mysqld are made of, newest versions, for both
# architectures. It needs apt and network, but not root. Run it before each release, and test what it wrote:
# docs/compatibility.md has the versions.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What the server's scripts and the pods run.
tools='dash coreutils sed grep'

# lock FLAVOUR ARCHITECTURE SUITES PACKAGES...
lock() {
  local flavour=$1 arch=$2 suites=$3 dir=$work/$1-$2 uri name sum version
  shift 3
  mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/sources"
  : >"$dir/status"
  for suite in $suites; do
    cat >"$dir/sources/$suite.sources" <<END
Types: deb
URIs: http://deb.debian.org/$([[ $suite = *-security ]] && echo debian-security || echo debian)
Suites: $suite
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

END
  done
  apt() {
    apt-get -qq -o Dir::State::status="$dir/status" -o Dir::State::Lists="$dir/lists" -o Dir::Cache="$dir/cache" \
      -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$dir/sources" -o Acquire::Languages=none \
      -o APT::Architecture="$arch" -o APT::Architectures::="$arch" -o APT::Install-Recommends=false \
      -o Acquire::ForceHash=SHA256 -o APT::Sandbox::User=root "$@"
  }
  apt update
  # shellcheck disable=SC2086 # a list
  apt --print-uris install -y "$@" $tools >"$dir/uris"
  version=$(sed -n "s/.* $flavour-server-core_\([^ ]*\) .*/\1/p" "$dir/uris")
  version=${version#*%3a}
  version=${version%%[-+]*}
  # Perl is for scripts that no pod runs.
  while read -r uri name _ sum; do
    case $name in perl* | libperl* | libdb5* | libgdbm*) continue ;; esac
    uri=${uri#\'http://deb.debian.org/}
    echo "$flavour $version $arch ${sum#SHA256:} $name ${uri%\'}"
  done <"$dir/uris" | sort
}

{
  echo "# FLAVOUR VERSION ARCHITECTURE SHA256 FILE PATH: made by lock.sh at $(date -u +%Y%m%dT%H%M%SZ)"
  for arch in amd64 arm64; do
    lock mysql $arch sid mysql-server-core mysql-client-core
    lock mariadb $arch 'trixie trixie-security' mariadb-server-core mariadb-client-core
  done
} >"$work/lock"
mv "$work/lock" mysqld.lock
