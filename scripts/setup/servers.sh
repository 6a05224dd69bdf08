#!/bin/bash
# servers.sh [NAME...]: brings servers of other versions and families, from Debian's suites on
# the mirror that this system is configured for, each into a prefix of its own next to that of
# `make setup`, lab-FAMILY-VERSION (servers.list has the names; without one all are brought). A server that is there
# and whole is left as it is. Safe to run again after being killed anywhere: what was fetched
# stays until the prefix is done, and apt goes on within a file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./where.sh
. ./say.sh
. ./apt.sh
. ./prefix.sh

# Part of the prefixes' names; raise it with any change to what such a prefix holds.
SERVER_RECIPE=1

catalogue() { grep -v -e '^#' -e '^$' servers.list; }

# entry NAME: sets FAMILY, SERIES, SUITE and PACKAGES.
entry() {
  local line
  line=$(catalogue | grep "^$1 ") ||
    fail "there is no server '$1'; there are: $(catalogue | cut -d' ' -f1 | xargs)"
  read -r _ FAMILY SERIES SUITE PACKAGES <<<"$line"
  read -r -a PACKAGES <<<"$PACKAGES"
  case $FAMILY in
    mariadb) PROGRAM=usr/sbin/mariadbd ;;
    mysql) PROGRAM=usr/sbin/mysqld ;;
    *) fail "servers.list: $1 is of no known family: $FAMILY" ;;
  esac
}

# What a prefix says of itself.
facts_of() { sed -n "s/^$1=//p" "$PREFIX/server" 2>/dev/null; }

# A finished prefix of this name, if there is one: the newest.
existing_prefix() {
  local candidate
  for candidate in $(ls -d "$CACHE/lab-$FAMILY-$SERIES".*-"$ARCH-$SERVER_RECIPE" 2>/dev/null | sort -rV); do
    [ "$(sed -n 's/^name=//p' "$candidate/server" 2>/dev/null)" = "$1" ] || continue
    echo "$candidate"
    return
  done
}

# Since when the stamp stands, every file has the size that it had; and the server runs.
server_is_whole() {
  STAMP=$PREFIX/complete
  [ -e "$STAMP" ] || { REASON="no stamp of a finished one"; return 1; }
  local lost
  lost=$(LC_ALL=C comm -23 "$STAMP" <(list_files) | sed -n 1p)
  [ -z "$lost" ] || { REASON="lost or changed: ${lost#* }"; return 1; }
  server_runs "$(facts_of version)"
}

server_runs() {
  [ -d "$PREFIX/lib/mysql/plugin" ] || { REASON="lib/mysql/plugin is not there"; return 1; }
  "$PREFIX/$PROGRAM" --no-defaults --version 2>/dev/null | grep -F "Ver $1-" >/dev/null ||
    { REASON="$(basename "$PROGRAM") does not run"; return 1; }
}

# The version of the suite's server, as the archive writes it: 1:10.5.23-0+deb11u1.
candidate() { private_apt apt-cache policy "${PACKAGES[0]}" | sed -n 's/^ *Candidate: //p'; }

# Users: root without password, through the socket.
make_server_template() {
  case $FAMILY in
    mariadb)
      "$PREFIX/bin/mariadb-install-db" --no-defaults --basedir="$PREFIX" \
        --datadir="$PREFIX/template" --user="$(id -un)" --skip-test-db --skip-name-resolve \
        --auth-root-authentication-method=normal --innodb-log-file-size=4M
      ;;
    mysql)
      "$PREFIX/$PROGRAM" --no-defaults --initialize-insecure --basedir="$PREFIX" \
        --datadir="$PREFIX/template" --user="$(id -un)" --innodb-redo-log-capacity=8M \
        --secure-file-priv=
      # Each copy gets an identity and keys of its own.
      rm -f "$PREFIX"/template/{auto.cnf,*.pem}
      ;;
  esac
}

make_server() {
  local name=$1 version=$2 what=$3
  rm -rf "$PREFIX"
  mkdir -p "$PREFIX"
  logged "$name-unpack" "unpacking $what" unpack_packages
  logged "$name-relink" "pointing its programs to their libraries" relink_prefix "$PROGRAM"
  link_programs
  logged "$name-template" "making the template of a data directory" make_server_template
  server_runs "$version" || fail "the new prefix does not work: $REASON"
  printf '%s\n' "name=$name" "family=$FAMILY" "version=$version" "suite=$SUITE" \
    "package=$(candidate)" >"$PREFIX/server"
  STAMP=$PREFIX/complete
  write_stamp
  rm -rf "$DOWNLOADS"
}

bring() {
  local name=$1 start=$SECONDS archived version what size
  entry "$name"
  if [ "${PACKAGES[0]}" = - ]; then
    # A process of its own: it has globals, and a lock, of its own.
    TIDESDB_SERVER=$SERIES ./setup.sh
    return
  fi
  exec 9>"$CACHE/$name.lock"
  if ! flock -n 9; then
    say "another one brings $name: waiting for it"
    flock 9
  fi
  PREFIX=$(existing_prefix "$name")
  REASON=
  if [ -n "$PREFIX" ]; then
    if server_is_whole; then
      say "$name is ready in $PREFIX"
      return
    fi
    say "$name is not whole ($REASON): making it again"
  fi
  DOWNLOADS=$CACHE/downloads-$name-$ARCH
  mkdir -p "$DOWNLOADS"
  say "$name: reading the package lists of Debian $SUITE"
  if ! (archives_of "$SUITE" | read_lists "$SUITE" deb) >"$LOGS/$name-lists.log" 2>&1; then
    tail -n 5 "$LOGS/$name-lists.log" >&2
    fail "Debian $SUITE cannot be read from this system's mirror: $name cannot be had here"
  fi
  archived=$(candidate)
  version=$(printf '%s\n' "${archived#*:}" | grep -oE '^[0-9]+(\.[0-9]+)+') ||
    fail "Debian $SUITE on this system's mirror has no ${PACKAGES[0]}: $name cannot be had here"
  case $version. in
    "$SERIES".*) ;;
    *) fail "Debian $SUITE on this system's mirror has $FAMILY $version, none of $SERIES: $name cannot be had here" ;;
  esac
  PREFIX=$CACHE/lab-$FAMILY-$version-$ARCH-$SERVER_RECIPE
  what="$FAMILY $version"
  size=$(size_of_fetch)
  logged "$name-packages" "fetching $what ($size MB)" fetch_packages
  make_server "$name" "$version" "$what"
  say "$what is ready in $PREFIX after $((SECONDS - start)) s"
}

# needs PROGRAM...: what `make setup` installs.
needs() {
  local program
  for program; do
    command -v "$program" >/dev/null || fail "$program is missing: make setup installs it"
  done
}

main() {
  local name names=("$@") failed=()
  [ ${#names[@]} -gt 0 ] || read -r -d '' -a names < <(catalogue | cut -d' ' -f1) || true
  needs patchelf readelf dpkg-deb flock apt-get
  mkdir -p "$LOGS"
  for name in "${names[@]}"; do
    set +e
    (set -e; bring "$name")
    [ $? -eq 0 ] || failed+=("$name")
    set -e
  done
  [ ${#failed[@]} -eq 0 ] || fail "not brought: ${failed[*]}"
}

main "$@"
