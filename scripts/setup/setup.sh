#!/bin/bash
# make setup: build packages by apt, and MariaDB with MyRocks, backup, test suite and
# plugin headers in a prefix that all clones share (TIDESDB_CACHE, by default
# ~/.cache/tidesdb). Safe to run twice, at once, and after being killed anywhere.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./where.sh
. ./say.sh
. ./system-packages.sh
. ./check.sh
. ./fetch.sh
. ./unpack.sh
. ./relink.sh
. ./headers.sh
. ./template.sh

make_programs() {
  logged unpack "unpacking the packages" unpack_packages
  logged relink "pointing the programs to their libraries" relink_prefix usr/sbin/mariadbd
  link_programs
  logged template "making the template of a data directory" make_template
}

make_headers() {
  local work=$PREFIX/source
  logged source "unpacking MariaDB's source" unpack_source "$work"
  logged headers "generating the server's headers (about a minute)" generate_headers "$work"
  logged keep "keeping the headers" keep_headers "$work"
}

make_prefix() {
  rm -rf "$PREFIX"
  mkdir -p "$PREFIX"
  logged lists "reading the package lists of Debian $MARIADB_SUITE" prepare_private_apt
  logged packages "fetching MariaDB $MARIADB_VERSION (108 MB)" fetch_packages
  make_programs &
  local programs=$!
  logged fetch-source "fetching MariaDB's source (121 MB)" fetch_source
  make_headers
  wait "$programs"
  prefix_works || fail "the new prefix does not work: $REASON"
  write_stamp
  rm -rf "$DOWNLOADS"
}

main() {
  local start=$SECONDS
  mkdir -p "$LOGS"
  exec 9>"$CACHE/lock"
  if ! flock -n 9; then
    say "another setup is at work on $CACHE: waiting for it"
    flock 9
  fi
  install_system_packages
  REASON=
  if prefix_is_whole; then
    say "MariaDB $MARIADB_VERSION is ready in $PREFIX"
  else
    [ ! -e "$PREFIX" ] || say "the prefix is not whole ($REASON): making it again"
    say "bringing MariaDB $MARIADB_VERSION into $PREFIX (about three minutes)"
    make_prefix
    say "MariaDB $MARIADB_VERSION is ready in $PREFIX after $((SECONDS - start)) s"
  fi
}

main "$@"
