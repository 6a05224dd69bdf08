#!/bin/bash
# make setup: build packages by apt, and a MariaDB with MyRocks, backup, test suite and
# plugin headers in a prefix that all clones share (TIDESDB_CACHE, by default
# ~/.cache/tidesdb). TIDESDB_SERVER is its release series. The choice of its version is made once
# for each series and recorded there; UPDATE=1 makes it again, TIDESDB_MARIADB_VERSION picks one. Safe to run twice, at once, and after a kill.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./where.sh
. ./say.sh
. ./packages.sh
. ./apt.sh
. ./prefix.sh

RECORDED=${TIDESDB_RECORDED:-$PWD/recorded}
ROOT=$(cd ../.. && pwd)

# fetch_programs VERSION
fetch_programs() {
  prefer "$1"
  [ ${#HEADER_PACKAGES[@]} = 0 ] ||
    logged header-packages "fetching ${HEADER_PACKAGES[*]} (7 MB)" fetch_header_packages "$1"
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
  if [ ${#HEADER_PACKAGES[@]} -gt 0 ]; then
    logged headers "taking the generated headers out of ${HEADER_PACKAGES[*]}" take_headers "$work"
  else
    logged headers "generating the server's headers (about a minute)" generate_headers "$work"
  fi
  logged keep "keeping the headers" keep_headers "$work"
}

# The stamp comes last: a prefix without one is no prefix.
make_prefix() {
  rm -rf "$PREFIX"
  mkdir -p "$PREFIX"
  make_programs
  make_headers
  prefix_works || fail "the new prefix does not work: $REASON"
  logged plugin "building the plugin for it (about four minutes when nothing is built) and loading it" try_plugin
  write_stamp
  rm -rf "$DOWNLOADS"
}

# The engine, while the server is fetched and its headers are made; building the plugin waits for the end, and tells what
# is wrong.
build_engine_meanwhile() {
  command -v cargo >/dev/null || return 0
  env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL nice make -C "$ROOT" --no-print-directory build-engine \
    >"$LOGS/engine.log" 2>&1 9>&- &
}

# The plugin of this tree, built for the prefix, loaded by its server.
try_plugin() {
  env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL \
    make -C "$ROOT" --no-print-directory build-plugin SERVER="$SERIES" MARIADB_PREFIX="$PREFIX"
  ../plugin/check.sh loads "$PREFIX" "$ROOT/$BUILD_FOLDER/ha_tidesdb.so"
}

# --- the ways to a server, in their order ---
#
# An attempt brings one version by one way: programs, headers, and the plugin built and loaded.
# It runs in a shell of its own; its failure is one line, and the next attempt follows.

REASONS=() # a line for each way that failed

# attempt WHAT COMMAND...: true when COMMAND came to its end.
attempt() {
  local what=$1 status reason
  shift
  REASON_FILE=$LOGS/reason
  : >"$REASON_FILE"
  # No condition around it: the shell would go on after an error inside.
  set +e
  (
    set -e
    "$@"
  )
  status=$?
  set -e
  reason=$(head -n 1 "$REASON_FILE")
  REASON_FILE=
  TAKEN=$([ "$status" -ne 0 ] || echo yes)
  [ -n "$TAKEN" ] || give_reason "$what: ${reason:-ended with status $status}"
}

give_reason() {
  REASONS+=("$1")
  say "not $1"
}

# Whether this version is the one that was asked for, if one was.
is_asked_for() {
  [ -z "${TIDESDB_MARIADB_VERSION:-}" ] || [ "$TIDESDB_MARIADB_VERSION" = "$1" ] ||
    [ "$TIDESDB_MARIADB_VERSION" = "$(upstream "$1")" ]
}

is_of_series() { case $1. in "$SERIES".*) ;; *) false ;; esac; }

# --- 1: the newest version that the suite's archives list, with its source ---

listed_versions() {
  archives_of "$SUITE" | read_lists "$SUITE" deb deb-src
}

bring_listed() {
  local version=$1
  is_source_listed "$version" || fail "no source of it is listed"
  logged source "fetching MariaDB's source (40 to 120 MB)" fetch_source "$version"
  fetch_programs "$version"
  make_prefix
}

is_source_listed() { listed mariadb Sources | grep -qxF "$1"; }

try_listed() {
  local version found=
  attempt "the archives of $SUITE" logged lists "reading the package lists of Debian $SUITE (10 to 30 MB)" listed_versions
  [ -n "$TAKEN" ] || { TAKEN=; return 0; }
  TAKEN=
  for version in $(listed mariadb-server Packages); do
    is_of_series "$(upstream "$version")" || continue
    found=yes
    is_asked_for "$version" || continue
    take_or_attempt "$version" listed bring_listed "$version"
    [ -z "$TAKEN" ] || return 0
  done
  [ -n "$found" ] || give_reason "the archives of $SUITE: they list no MariaDB $SERIES"
  [ -z "$found" ] || [ -z "${TIDESDB_MARIADB_VERSION:-}" ] ||
    listed mariadb-server Packages | grep -qE "^([0-9]+:)?$(sed 's/[.+]/\\&/g' <<<"$TIDESDB_MARIADB_VERSION")([+~-]|\$)" ||
    give_reason "the archives of $SUITE: they list $(listed mariadb-server Packages | xargs), not $TIDESDB_MARIADB_VERSION"
}

# --- 2 and 3: a version recorded in the tree, from the mirror's pool, or from a snapshot ---

# bring_recorded FILE VERSION ADDRESS; standard input: the archives with the other libraries.
bring_recorded() {
  local file=$1 version=$2 address=$3 archives=$4
  : >"$DOWNLOADS/sources.list"
  logged recorded "fetching MariaDB $(upstream "$version") from $(sizes_of "$file") files that the tree records" \
    fetch_recorded "$file" "$address"
  LOCAL_ARCHIVE=$DOWNLOADS/recorded
  logged lists "reading the package lists of Debian $SUITE (10 MB)" \
    read_lists "$SUITE" deb < <(printf '%s\n' "$archives")
  fetch_programs "$version"
  make_prefix
}

sizes_of() { recorded_files "$1" | awk '{ sum += $2 } END { printf "%d MB in %d", sum / 1000000, NR }'; }

# try_recorded WAY ADDRESS ARCHIVES
try_recorded() {
  local way=$1 address=$2 archives=$3 file version found=
  TAKEN=
  for file in $(find "$RECORDED" -name "mariadb-$SERIES.*-$ARCH" | sort -rV); do
    version=$(sed -n 's/^version=//p' "$file")
    is_asked_for "$version" || continue
    found=yes
    take_or_attempt "$version" "$way" bring_recorded "$file" "$version" "$address" "$archives"
    [ -z "$TAKEN" ] || return 0
  done
  [ -n "$found" ] || give_reason "the $way: the tree records no MariaDB ${TIDESDB_MARIADB_VERSION:-$SERIES} for $ARCH"
}

try_pool() {
  local mirror
  TAKEN=
  mirror=$(mirror_of "$SUITE")
  if [ -z "$mirror" ]; then
    give_reason "the pool: this system's apt configuration names no mirror of Debian"
  else
    try_recorded pool "$mirror" "$(archives_of "$SUITE")"
  fi
}

try_snapshot() {
  TAKEN=
  if [ -z "${TIDESDB_SNAPSHOT_URL:-}" ]; then
    give_reason "a snapshot: TIDESDB_SNAPSHOT_URL is not set"
  else
    # Old lists are past the day until which they are valid; that is the point of a snapshot.
    CHECK_VALID_UNTIL=false
    try_recorded snapshot "$TIDESDB_SNAPSHOT_URL" "${TIDESDB_SNAPSHOT_URL%/} $SUITE"
  fi
}

# take_or_attempt VERSION WAY COMMAND...: a finished prefix of that version is taken as it is.
take_or_attempt() {
  local version=$1 way=$2
  shift 2
  use_version "$(upstream "$version")"
  if prefix_is_whole; then
    TAKEN=yes
  else
    say "trying MariaDB $version ($way)"
    attempt "MariaDB $version ($way)" "$@"
  fi
  [ -z "$TAKEN" ] || write_record "$MARIADB_VERSION" "$version" "$way"
}

write_record() {
  printf '%s\n' "version=$1" "package=$2" "way=$3" >"$RECORD.new"
  mv "$RECORD.new" "$RECORD"
}

# The first way that leads to a server; its prefix and record are then there.
choose_server() {
  local way
  REASONS=()
  for way in try_listed try_pool try_snapshot; do
    "$way"
    [ -z "$TAKEN" ] || return 0
  done
  TAKEN=
}

# --- the choice ---

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
  say "bringing a MariaDB $SERIES into $CACHE (240 MB to fetch; five to seven minutes with the plugin's build)"
  # A cache of an earlier revision has a prefix and no record.
  before=$(! prefix_is_whole || recorded version || true)
  build_engine_meanwhile
  choose_server
  [ -n "$TAKEN" ] || end_without_server "$before"
  say "MariaDB $MARIADB_VERSION is ready in $PREFIX after $((SECONDS - start)) s ($(recorded way): $(recorded package))"
}

main "$@"
