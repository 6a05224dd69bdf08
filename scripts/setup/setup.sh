#!/bin/bash
# make setup: build packages by apt, and a MariaDB with MyRocks, backup, test suite and
# plugin headers in a prefix that all clones share (TIDESDB_CACHE, by default
# ~/.cache/tidesdb). TIDESDB_SERVER is its release series. The choice of its version is made once
# for each series and recorded there; UPDATE=1 makes it again, TIDESDB_MARIADB_VERSION picks one. Safe to run twice, at once, and after a kill.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./where.sh
. ./say.sh
. ./system-packages.sh
. ./check.sh
. ./apt.sh
. ./fetch.sh
. ./attempts.sh

RECORDED=${TIDESDB_RECORDED:-$PWD/recorded}
ROOT=$(cd ../.. && pwd)

fetch_programs() {
  logged packages "fetching MariaDB and its libraries ($(size_of_fetch) MB)" fetch_packages
}

make_programs() {
  logged unpack "unpacking the packages" unpack_packages
  name_share
  logged relink "pointing the programs to their libraries" relink_prefix usr/sbin/mariadbd
  link_programs
  logged template "making the template of a data directory" make_template
}

make_headers() {
  local work=$PREFIX/source
  logged unpack-source "unpacking MariaDB's source" unpack_source "$work"
  logged headers "generating the server's headers (about a minute)" generate_headers "$work"
  logged keep "keeping the headers" keep_headers "$work"
}

# The stamp comes last: a prefix without one is no prefix.
make_prefix() {
  rm -rf "$PREFIX"
  mkdir -p "$PREFIX"
  . ./unpack.sh
  . ./relink.sh
  . ./headers.sh
  . ./template.sh
  make_programs
  build_engine_meanwhile
  make_headers
  prefix_works || fail "the new prefix does not work: $REASON"
  logged plugin "building the plugin for it (about four minutes when nothing is built) and loading it" try_plugin
  write_stamp
  rm -rf "$DOWNLOADS"
}

# The engine, while the headers are made; building the plugin waits for the end, and tells what is wrong.
build_engine_meanwhile() {
  command -v cargo >/dev/null || return 0
  env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL nice make -C "$ROOT" --no-print-directory build-engine \
    >"$LOGS/engine.log" 2>&1 9>&- &
}

# The plugin of this tree, built for the prefix, loaded by its server.
try_plugin() {
  env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL \
    make -C "$ROOT" --no-print-directory build-plugin SERVER="$SERIES" MARIADB_PREFIX="$PREFIX"
  ../plugin/loads.sh "$PREFIX" "$ROOT/$BUILD_FOLDER/ha_tidesdb.so"
}

# A recorded prefix wins, unless it is not whole, or another version is asked for.
is_ready() {
  [ -z "${UPDATE:-}" ] || { REASON="UPDATE=${UPDATE} asks for the choice to be made again"; return 1; }
  [ -n "$MARIADB_VERSION" ] || { REASON=; return 1; }
  is_asked_for "$MARIADB_VERSION" || is_asked_for "$(recorded package)" ||
    { REASON="MariaDB $TIDESDB_MARIADB_VERSION is asked for"; return 1; }
  prefix_is_whole
}

end_without_server() {
  local before=$1 reason
  say "no server of MariaDB ${TIDESDB_MARIADB_VERSION:-$SERIES} can be had:"
  for reason in "${REASONS[@]}"; do say "  $reason"; done
  [ -z "$before" ] || say "MariaDB $before, the recorded one, stays in use"
  fail "set TIDESDB_MARIADB_VERSION to a version that the mirror has with its source, or TIDESDB_SNAPSHOT_URL" \
    "to a mirror as it was when $SUITE listed $(find "$RECORDED" -name "mariadb-$SERIES.*" -printf '%f ' | sed 's/mariadb-\([0-9.]*\)[^ ]*/\1/'); then make setup"
}

main() {
  local start=$SECONDS before
  mkdir -p "$LOGS"
  exec 9>"$CACHE/lock"
  if ! flock -n 9; then
    say "another setup is at work on $CACHE: waiting for it"
    flock 9
    . ./where.sh
  fi
  case ${TIDESDB_MARIADB_VERSION:-$SERIES.}. in
    "$SERIES".* | *:"$SERIES".*) ;;
    *) fail "TIDESDB_MARIADB_VERSION=$TIDESDB_MARIADB_VERSION: with SERVER=$SERIES the plugin is for MariaDB $SERIES" ;;
  esac
  install_system_packages
  REASON=
  if is_ready; then
    [ -e "$RECORD" ] || write_record "$MARIADB_VERSION" "$MARIADB_VERSION" cache
    say "MariaDB $MARIADB_VERSION is ready in $PREFIX"
    return
  fi
  [ -z "$REASON" ] || say "making a server's prefix: $REASON"
  say "bringing a MariaDB $SERIES into $CACHE (230 MB to fetch; about seven minutes with the plugin's build)"
  # A cache of an earlier revision has a prefix and no record.
  before=$(! prefix_is_whole || recorded version || true)
  choose_server
  [ -n "$TAKEN" ] || end_without_server "$before"
  say "MariaDB $MARIADB_VERSION is ready in $PREFIX after $((SECONDS - start)) s ($(recorded way): $(recorded package))"
}

main "$@"
