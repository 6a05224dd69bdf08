#!/bin/bash
# servers.sh FILE: writes a line for each exact version of MariaDB that users of Debian 12 and 13 meet: those that the
# suites' archives list, and those that the tree records. "VERSION PREFIX" where its headers can be had, else
# "VERSION - REASON". The file stays as it is while its prefixes are there; UPDATE=1 asks the archives again.
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../setup"

# known_of SERIES: the package versions of a series, "1:10.11.18-0+deb12u1", a line each, the oldest first.
known_of() (
  export TIDESDB_SERVER=$1
  . ./where.sh
  . ./say.sh
  . ./apt.sh
  DOWNLOADS=$CACHE/lists-$SERIES-$ARCH
  mkdir -p "$DOWNLOADS" "$LOGS"
  {
    sed -n 's/^version=//p' recorded/mariadb-"$SERIES".*-"$ARCH"
    # Without a network the recorded versions are the known ones.
    if (read_lists "$SUITE" deb < <(archives_of "$SUITE")) >"$LOGS/package-lists.log" 2>&1; then
      listed mariadb-server Packages
    else
      say "the lists of Debian $SUITE cannot be read: only recorded versions of MariaDB $SERIES count"
    fi
  } | grep -E "^([0-9]+:)?${SERIES//./\\.}\." | sort -uV
)

# bring SERIES PACKAGE-VERSION: a line of the file. Setup makes the prefix, tries its server, and gives a reason else.
bring() {
  local series=$1 package=$2 version log choice
  version=$(sed -E 's/^[0-9]+://; s/^([0-9]+(\.[0-9]+)+).*/\1/' <<<"$package")
  choice=$work/$version log=$work/$version.log
  if TIDESDB_SERVER=$series TIDESDB_MARIADB_VERSION=$version TIDESDB_CHOICE=$choice UPDATE='' \
    ./setup.sh 2> >(tee "$log" >&2); then
    echo "$version $(TIDESDB_SERVER=$series TIDESDB_CHOICE=$choice bash -c '. ./where.sh && echo "$PREFIX"')"
  else
    # The package shows the reason: without paths and addresses of this machine.
    echo "$version - $(sed -n "s/^==> setup: not MariaDB [^ ]* ([a-z]*): //p" "$log" |
      sed -E 's|https?://[^ ]*/||g; s| \[IP: [^]]*\]||; s| \(log: .*||; s|^fetching [^(]*\([^)]*\): E: |its source: |' |
      sed -n 1p | grep . || echo 'it cannot be had, or the plugin does not build for it')"
  fi
}

is_current() {
  local prefix
  [ -z "${UPDATE:-}" ] && [ -s "$out" ] || return 1
  while read -r _ prefix _; do
    [ "$prefix" = - ] || [ -e "$prefix/complete" ] || return 1
  done <"$out"
}

if is_current; then exit 0; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$(dirname "$out")"
for series in 10.11 11.8; do
  for package in $(known_of "$series"); do bring "$series" "$package"; done
done >"$out.new"
grep -qv ' - ' "$out.new" || { echo "no server's headers can be had" >&2; exit 1; }
mv "$out.new" "$out"
