#!/bin/bash
# packages-inside.sh SUITE: the life of the packages in a chroot that packages.sh made. Prints a line for each thing that
# holds, "packages: ok: ...", and for each that does not; the last line is "packages: end". Its log is standard error.
set -uo pipefail
suite=$1
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
user_file=/etc/mysql/mariadb.conf.d/90-user.cnf
load_file=/etc/mysql/mariadb.conf.d/zz-tidesdb.cnf
plugin=/usr/lib/mysql/plugin/ha_tidesdb.so
# Debian's start script sends the log to the system's, which a chroot has not.
own_log=$'[mysqld_safe]\nskip-syslog\nlog-error = /var/log/mysql/error.log\n'
failed=0

say() { printf '== %s\n' "$*" >&2; }
# is WHAT WANTED GOT
is() {
  if [ "$2" = "$3" ]; then
    echo "packages: ok: $suite: $1"
  else
    printf 'packages: FAILED: %s: %s\n--- wanted\n%s\n--- got\n%s\n' "$suite" "$1" "$2" "$3"
    failed=$((failed + 1))
    # What follows only repeats the first failures.
    [ "$failed" -lt 6 ] || exit 1
  fi
}
# has WHAT PATTERN TEXT
has() { is "$1" yes "$(grep -qE -- "$2" <<<"$3" && echo yes || printf 'no %s in:\n%s' "$2" "$(tail -n 30 <<<"$3")")"; }

sql() { mariadb -NB test -e "$*" 2>&1; }
engine() { sql "SELECT COUNT(*) FROM information_schema.engines WHERE engine = 'TidesDB'"; }
server() { sql "SELECT VERSION()" | grep -oE '^[0-9.]+'; }
contents() { sql "CHECKSUM TABLE sbtest1, sbtest2; SELECT COUNT(*), SUM(n) FROM fruit FORCE INDEX (n) WHERE n > 0"; }
restart() {
  say "restart"
  /etc/init.d/mariadb restart >&2 2>&1
}
# What Debian does in the background after the start of another server. Tables without an engine are no success.
upgrade_tables() {
  say "mariadb-upgrade"
  mariadb-upgrade --force >&2 2>&1 || true
}
# apt ARGUMENT...: what it says is kept in $said too.
apt() {
  say "apt-get $*"
  said=$(apt-get -qy --allow-downgrades -o Dpkg::Options::=--force-confold "$@" </dev/null 2>&1)
  status=$?
  printf '%s\n' "$said" >&2
  is "apt-get $* ends well" 0 "$status"
}
# pin VERSION: the server's packages have it from now on.
pin() { printf 'Package: src:mariadb\nPin: version %s\nPin-Priority: 1001\n' "$1" >/etc/apt/preferences.d/server; }
upstream() { sed -E 's/^[0-9]+://; s/^([0-9]+(\.[0-9]+)+).*/\1/' <<<"$1"; }
log_since() { tail -c "+$(($1 + 1))" /var/log/mysql/error.log; }
log_size() { stat -c %s /var/log/mysql/error.log 2>/dev/null || echo 0; }

# Versions of the server in the lists: of a series, the newest with a build, and the newest without one.
versions() { apt-cache madison mariadb-server | awk -F'|' '{ gsub(/ /, "", $2); print $2 }' | grep "^1:${1//./\\.}\." | sort -ruV; }
with_build() { for v in $(versions "$1"); do if [ -e "/usr/lib/tidesdb/plugin/$(upstream "$v")" ]; then echo "$v" && break; fi; done; }
without_build() { for v in $(versions "$1"); do if [ ! -e "/usr/lib/tidesdb/plugin/$(upstream "$v")" ]; then echo "$v" && break; fi; done; }

# site COMMAND...: of the site in Django that scripts/test/site holds. What it complains of is in the log.
site() { (cd /site && PYTHONDONTWRITEBYTECODE=1 python3 "$@"); }
# site_does WHAT COMMAND...
site_does() {
  local what=$1
  shift
  said=$(site "$@" 2>&1)
  is "$what" 0 $?
  printf '%s\n' "$said" >&2
}

engine_is_there() {
  is "$1: the engine is there" 1 "$(engine)"
  is "$1: each row is there" "$rows" "$(contents)"
  is "$1: the site has its rows" "$pages" "$(site use.py read)"
  is "$1: the tables are whole" "status OK" "$(sql 'CHECK TABLE sbtest1, sbtest2, fruit EXTENDED' | awk '{ print $3, $4 }' | sort -u)"
}

engine_is_missing() {
  is "$1: the server answers" 1 "$(sql 'SELECT 1')"
  is "$1: it has no engine TidesDB" 0 "$(engine)"
  has "$1: opening a table says what is missing" "ERROR 1286.*Unknown storage engine 'TidesDB'" "$(sql 'SELECT * FROM fruit')"
  # Its first statement sets the engine of new tables.
  has "$1: the site's error names the engine" "1286.*'TidesDB'" "$(site use.py read 2>&1)"
}

# A site on the server: its first tables, rows, tables changed by a migration, its pages.
application() {
  mariadb -e "CREATE DATABASE site CHARACTER SET utf8mb4; CREATE USER site@localhost IDENTIFIED BY 'x'; GRANT ALL ON site.* TO site@localhost"
  say "Django $(site -m django --version)"
  site_does "a site in Django makes its tables" manage.py migrate --no-color library 0001
  site_does "and fills them" use.py fill
  site_does "a migration changes tables with rows" manage.py migrate --no-color
  site_does "the tables are those of its models" manage.py makemigrations --check --dry-run
  is "all of them are TidesDB's" TidesDB "$(sql "SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema = 'site'")"
  is "an index that a migration removes is gone" "" "$(sql "SHOW INDEX FROM site.library_book WHERE key_name LIKE 'library_book_title%'")"
  site_does "its pages, transactions and locks do as they should" use.py change
  is "its tables are whole" "" "$(mariadb-check --extended --silent site 2>&1)"
  pages=$(site use.py read)
  has "it has rows" '^library.Book 465 ' "$pages"
}

prepare() {
  # Without an init system invoke-rc.d starts nothing unless a policy allows it.
  printf '#!/bin/sh\nexit 0\n' >/usr/sbin/policy-rc.d
  chmod +x /usr/sbin/policy-rc.d
  rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
  cp "/archive/$suite.list" /etc/apt/sources.list
  echo 'deb [trusted=yes] copy:/archive ./' >/etc/apt/sources.list.d/ours.list
  printf 'Package: mariadb-plugin-tidesdb\nPin: version 0.0.9\nPin-Priority: 1001\n' >/etc/apt/preferences.d/plugin
  apt update
  apt install mariadb-plugin-tidesdb=0.0.9 --no-install-recommends
  has "alone it is installed without a server" "^ii" "$(dpkg -l mariadb-plugin-tidesdb | tail -n 1)"
  known=$(with_build "$series")
  unknown=$(without_build "$series")
  say "server with a build: $known; without one: $unknown"
  mkdir -p /var/log/mysql
  apt purge mariadb-plugin-tidesdb
  has "a purge leaves no file" "^$" "$(find /etc/mysql /usr/lib/mysql/plugin /usr/lib/tidesdb -name '*tidesdb*' 2>/dev/null)"
}

install() {
  pin "$known"
  apt install mariadb-server --no-install-recommends
  chown mysql /var/log/mysql
  loose_file
  restart
  mariadb -e "CREATE DATABASE IF NOT EXISTS test; CREATE USER IF NOT EXISTS sbtest@localhost IDENTIFIED BY 'x'; GRANT ALL ON test.* TO sbtest@localhost"
  is "the server is $known" "$(upstream "$known")" "$(server)"
  apt install mariadb-plugin-tidesdb
  has "it says that a server that runs loads the engine later" "next start" "$said"
  is "the build is the server's" "/usr/lib/tidesdb/plugin/$(upstream "$known")/ha_tidesdb.so" "$(readlink $plugin)"
  restart
  is "the engine is there" 1 "$(engine)"
  is "a setting of another file has its effect" 67108864 "$(sql 'SELECT @@tidesdb_block_cache_size')"
  sql "CREATE TABLE fruit (id INT PRIMARY KEY AUTO_INCREMENT, n INT, KEY (n)) ENGINE=TidesDB;
    INSERT INTO fruit (n) SELECT seq FROM seq_1_to_1000" >&2
  for step in prepare run; do
    sysbench oltp_read_write --mysql-socket=/run/mysqld/mysqld.sock --mysql-user=sbtest --mysql-password=x --mysql-db=test \
      --mysql-storage-engine=tidesdb --tables=2 --table-size=2000 --threads=2 --time=5 $step >/tmp/sysbench 2>&1
    is "sysbench, $step" 0 $?
    cat /tmp/sysbench >&2
  done
  is "its tables are TidesDB's" 3 "$(sql "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'test' AND engine = 'TidesDB'")"
  rows=$(contents)
  has "its tables have rows" '^1000[[:space:]]500500$' "$rows"
  application
  [ "$(engine)" = 1 ] || { echo "packages: FAILED: $suite: ended: nothing to go on with" && exit 1; }
  restart
  engine_is_there "after a restart"
}

upgrade_of_the_plugin() {
  rm /etc/apt/preferences.d/plugin
  apt install --only-upgrade mariadb-plugin-tidesdb
  has "apt upgrades the package" "over \(0\.0\.9\)" "$said"
  restart
  engine_is_there "after an upgrade of the package"
  rm $load_file
  apt install --reinstall mariadb-plugin-tidesdb
  is "a load file that was removed is not made again" no "$([ -e $load_file ] && echo yes || echo no)"
  apt purge mariadb-plugin-tidesdb
  apt install mariadb-plugin-tidesdb
  restart
  engine_is_there "after a purge and an installation"
}

# Settings that a server without the engine does not know, and an engine of new tables that is missing.
strict_file() {
  printf '[mariadbd]\nlog_error = /var/log/mysql/error.log\ntidesdb_block_cache_size = 64M\nskip-tidesdb-fast-shutdown\ndefault_storage_engine = TidesDB\n%s' "$own_log" >"$user_file"
}
loose_file() {
  printf '[mariadbd]\nlog_error = /var/log/mysql/error.log\nloose_tidesdb_block_cache_size = 64M\n%s' "$own_log" >"$user_file"
}

change_server() {
  local before
  before=$(log_size)
  # Where the lists have no version without a build, one is hidden.
  if [ -z "$unknown" ]; then
    unknown=$known
    mv "/usr/lib/tidesdb/plugin/$(upstream "$known")" /usr/lib/tidesdb/hidden
    apt install --reinstall mariadb-server-core mariadb-server
  else
    strict_file
    restart
    engine_is_there "with settings without loose_"
    before=$(log_size)
    pin "$unknown"
    apt upgrade
  fi
  has "apt says that no build fits" "NO BUILD FITS MariaDB $(upstream "$unknown")" "$said"
  is "the server is $unknown" "$(upstream "$unknown")" "$(server)"
  engine_is_missing "a server without a build"
  has "the error log says what to install" "TidesDB: the engine is not there.*Install a mariadb-plugin-tidesdb" "$(log_since "$before")"
  restart
  engine_is_missing "the same, after a restart"
  upgrade_tables
  is "mariadb-upgrade without the engine leaves the store alone" yes "$([ -e '/var/lib/mysql/#tidesdb/OWNER' ] && echo yes)"
  [ ! -d /usr/lib/tidesdb/hidden ] || mv /usr/lib/tidesdb/hidden "/usr/lib/tidesdb/plugin/$(upstream "$known")"
  pin "$known"
  apt full-upgrade --reinstall mariadb-server-core mariadb-server
  has "apt says that a build is in place" "the engine for MariaDB $(upstream "$known") is in place" "$said"
  is "the server is $known again" "$(upstream "$known")" "$(server)"
  engine_is_there "a server with a build, just upgraded"
  is "new tables are TidesDB's again" TidesDB "$(sql 'SELECT @@default_storage_engine')"
}

removal() {
  local store
  loose_file
  restart
  apt remove mariadb-plugin-tidesdb
  is "the file that loads the engine is gone" no "$([ -e $load_file ] && echo yes || echo no)"
  is "the engine is gone" no "$([ -e $plugin ] || [ -L $plugin ] && echo yes || echo no)"
  restart
  engine_is_missing "removed, with loose_ settings"
  apt install mariadb-plugin-tidesdb
  restart
  engine_is_there "installed again"

  strict_file
  restart
  apt remove mariadb-plugin-tidesdb
  has "the removal names lines without loose_" "$user_file:3:tidesdb_block_cache_size" "$said"
  restart
  engine_is_missing "removed, with settings without loose_"
  apt purge mariadb-plugin-tidesdb
  restart
  engine_is_missing "purged, with settings without loose_"
  apt install mariadb-plugin-tidesdb
  loose_file
  restart
  engine_is_there "installed after the purge"

  store=$(sed -n 2p /var/lib/mysql/tidesdb_store)
  is "the store is in the data directory" "/var/lib/mysql/#tidesdb" "$(realpath "$store")"
  apt purge mariadb-plugin-tidesdb
  has "a purge keeps the tables by default" "the tables in .* are kept" "$said"
  is "the store is there" yes "$([ -e "$store/OWNER" ] && echo yes)"
  restart
  upgrade_tables
  is "without our option file mariadb-upgrade renames it" yes "$([ -e /var/lib/mysql/@0023tidesdb/OWNER ] && echo yes)"
  apt install mariadb-plugin-tidesdb
  restart
  engine_is_there "installed after a purge"
  echo 'mariadb-plugin-tidesdb mariadb-plugin-tidesdb/remove_stores boolean true' | debconf-set-selections
  apt purge mariadb-plugin-tidesdb
  is "a purge with yes removes the store" no "$([ -e "$store" ] && echo yes || echo no)"
  is "and all files of the package" "" "$(find /etc/mysql /usr/lib/mysql/plugin /usr/lib/tidesdb /var/lib/mysql -name '*tidesdb*' 2>/dev/null)"
  restart
  engine_is_missing "purged"
  is "its tables are dropped then" "" "$(sql 'DROP TABLE fruit, sbtest1, sbtest2; DROP DATABASE site')"
}

# A new release of Debian, with a server of another series.
full_upgrade() {
  loose_file
  cp /archive/trixie.list /etc/apt/sources.list
  apt update
  known=$(with_build 11.8)
  pin "$known"
  apt full-upgrade
  suite="$suite to trixie"
  # shellcheck source=/dev/null
  is "the system is Debian 13" 13 "$(. /etc/os-release && echo "$VERSION_ID")"
  is "the server is $known" "$(upstream "$known")" "$(server)"
  engine_is_there "a server of the next series"
  site_does "a later Django has nothing to change" manage.py migrate --no-color --check
}

libraries() {
  apt install --no-install-recommends libtidesdb-dev tidesdb-tools gcc libc6-dev pkgconf
  has "tidesdb-admin runs" "verify" "$(tidesdb-admin --help 2>&1)"
  has "tidelab runs" "Usage" "$(tidelab --help 2>&1)"
  printf '#include <tidesdb.h>\n#include <stdio.h>\nint main(void) { puts(tidesdb_version()); return 0; }\n' >/tmp/t.c
  # shellcheck disable=SC2046  # a list of words
  has "a program is built with the library" '^[0-9]+\.[0-9]' "$(cc /tmp/t.c -o /tmp/t $(pkg-config --cflags --libs tidesdb) 2>&1 && /tmp/t)"
}

case $suite in
  bookworm) series=10.11 ;;
  trixie) series=11.8 ;;
esac
prepare
install
upgrade_of_the_plugin
change_server
if [ "$suite" = bookworm ]; then full_upgrade; fi
removal
libraries
/etc/init.d/mariadb stop >&2 2>&1
echo "packages: end"
