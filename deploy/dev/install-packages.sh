#!/bin/bash
# Installs missing Debian or Ubuntu packages for one of four purposes:
#   run         PostgreSQL and a MySQL or MariaDB server
#   test        those of run, HAProxy, a C compiler for the race detector, a browser, a dump program,
#               drivers of six languages for docs/connect.md, and checkers for the files in deploy
#   mysql97     those that test/debian-tree/build.sh needs
#   kubernetes  those of run, and those that a Kubernetes node runs (test/kubernetes/node)
# It starts, restarts and configures no service of the system: it installs programs only, and no PostgreSQL cluster.
# Usage: install-packages.sh run|test|mysql97|kubernetes [missing]; with "missing", it only prints what is missing
set -euo pipefail
purpose=${1:?usage: install-packages.sh run|test|mysql97|kubernetes}
PATH=$PATH:/usr/sbin:/sbin # not in an ordinary user's PATH on Debian

have() { command -v "$1" >/dev/null; }

# The -core packages contain the programs without a service. MariaDB comes first: Debian has no MySQL.
mysqld_packages() {
  local name
  for name in mariadb-server-core mariadb-server-core-10.6 mysql-server-core-8.4 mysql-server-core-8.0; do
    # For a name that other packages only provide, apt-cache prints nothing and still succeeds.
    if [ -n "$(apt-cache show "$name" 2>/dev/null)" ]; then
      # mariadb-install-db runs my_print_defaults, which is in the client package.
      echo "$name ${name/server/client}"
      return
    fi
  done
  echo "mariadb-server-core mariadb-client-core"
}

# The client packages of MariaDB and MySQL conflict.
dump_package() {
  if have mysqld && ! have mariadbd; then
    echo default-mysql-client
  else
    echo mariadb-client
  fi
}

missing_packages() {
  if [ "$purpose" = mysql97 ]; then
    have debootstrap || echo debootstrap debian-archive-keyring
    have patchelf || echo patchelf
    return
  fi
  have initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || echo postgresql
  have mariadbd || have mysqld || [ -n "${MYSQLD:-}" ] || mysqld_packages
  if [ "$purpose" = kubernetes ]; then
    have containerd || echo containerd
    have runc || echo runc
    have iptables || echo iptables
    have conntrack || echo conntrack
    have ip || echo iproute2
    have jq || echo jq
    have curl || echo curl
    [ -x /usr/lib/cni/ptp ] || echo containernetworking-plugins
  fi
  if [ "$purpose" = test ]; then
    have gcc || echo gcc
    [ -e /usr/lib/galera/libgalera_smm.so ] || echo galera-4 # clusters of MariaDB
    have haproxy || echo haproxy # in front of clusters
    have ip || echo iproute2 # networks of hosts that fail
    have promtool || echo prometheus # checks the alerts
    [ -e /usr/include/stdlib.h ] || echo libc6-dev
    have chromium || echo chromium # opens the dashboard; on Ubuntu it is a snap, not a package
    have mariadb-dump || have mysqldump || dump_package
    have shellcheck || echo shellcheck
    have systemd-analyze || echo systemd # only its programs
    have dbus-daemon || echo dbus
    have jq || echo jq                   # for deploy/cloudfoundry/smoke-test.sh
    driver_packages
  fi
}

# What test/connect runs. Some builds of nodejs contain npm; in Debian it is a separate package.
driver_packages() {
  have node || echo nodejs
  have npm || echo npm
  have javac || echo default-jdk-headless
  local name
  for name in python3-pymysql python3-cryptography python3-mysqldb python3-django ruby-mysql2 ruby-activerecord php-cli \
    php-mysql libmariadb-java libgoogle-gson-java; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || echo "$name"
  done
  [ -n "$(mariadb_java)" ] || have debootstrap || echo debootstrap debian-archive-keyring
}

mariadb_java() { ls /usr/local/share/java/mariadb-java-client-3.*.jar 2>/dev/null || true; }

# MariaDB's Java driver 3 is in Debian unstable only; it is one file, which is taken out of its package. apt keeps its
# lists of unstable apart from the system's.
install_mariadb_java() (
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  # shellcheck disable=SC2016 # apt's own variables
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
  [ -n "$mirror" ] || mirror=$(sed -n 's/^DEF_MIRROR="\(.*\)"$/\1/p' "$(command -v debootstrap)")
  mkdir -p "$dir/lists/partial" "$dir/archives/partial" /usr/local/share/java
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror unstable main" >"$dir/sources.list"
  options=(-q -o "Dir::Etc::SourceList=$dir/sources.list" -o Dir::Etc::SourceParts=- -o "Dir::State::Lists=$dir/lists"
    -o "Dir::Cache=$dir" -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  cd "$dir"
  apt-get "${options[@]}" download libmariadb-java
  dpkg-deb -x libmariadb-java_*.deb unpacked
  install -m 0644 unpacked/usr/share/java/mariadb-java-client-3.*.jar /usr/local/share/java/
)

# By default, Debian's PostgreSQL creates and starts a cluster, and other packages start their services. Two files
# prevent that during this run.
no_cluster=/etc/postgresql-common/createcluster.d/mysql-broker.conf
policy=/usr/sbin/policy-rc.d
forbid_services() {
  trap 'rm -f "$no_cluster" ${policy_is_ours:+"$policy"}' EXIT
  mkdir -p "$(dirname "$no_cluster")"
  echo "create_main_cluster = false" >"$no_cluster"
  if [ ! -e "$policy" ]; then
    policy_is_ours=yes
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
}

missing=$(missing_packages)
if [ "$purpose" = test ] && [ -z "$(mariadb_java)" ]; then
  missing="$missing mariadb-java" # not a package: see install_mariadb_java
fi
[ -n "$missing" ] || exit 0
[ "${2:-}" != missing ] || { echo "$missing"; exit; }
if ! have apt-get; then
  echo "These packages are missing, and this script knows only Debian and Ubuntu: ${missing//$'\n'/ }" >&2
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  have sudo && exec sudo MYSQLD="${MYSQLD:-}" bash "$0" "$purpose"
  echo "Packages are missing: ${missing//$'\n'/ }" >&2
  echo "Install them as root, without starting their services:" >&2
  echo "  su -c '$(printf %q "$(realpath "$0")") $purpose'" >&2
  exit 1
fi
forbid_services
apt-get update -q
missing=$(missing_packages) # without package lists, apt knows no names
# shellcheck disable=SC2086 # a list of words
[ -z "$missing" ] || apt-get -o DPkg::Lock::Timeout=120 install -q -y --no-install-recommends $missing
if [ "$purpose" = test ] && [ -z "$(mariadb_java)" ]; then
  install_mariadb_java
fi
# It must not start at the next boot either.
for service in haproxy prometheus; do
  case $missing in *"$service"*) update-rc.d "$service" disable ;; esac
done
