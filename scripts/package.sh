#!/bin/bash
# package.sh servers FILE: writes a line for each exact version of MariaDB that users of Debian 12 and 13 meet: those that
#   the suites' archives list, and those that the tree records. "VERSION PREFIX" where its headers can be had, else
#   "VERSION - REASON". The file stays as it is while its prefixes are there; UPDATE=1 asks the archives again.
# package.sh plugins FILE OUT: the plugin for each server of that list, tried on that server, as OUT/VERSION/ha_tidesdb.so;
#   and OUT/absent/ha_tidesdb.so for all other servers.
# package.sh deb BUILD RELEASE: Debian packages of what is built, in BUILD/deb, checked by lintian. RELEASE is cargo's
#   folder. DEB_VERSION: another version than the changelog's, for tests. DBGSYM=1: debugging symbols too.
# package.sh man-page PROGRAM: a manual page of the program's --help, for a program without a written one.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# --- servers ---

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
  local out=$1 prefix
  [ -z "${UPDATE:-}" ] && [ -s "$out" ] || return 1
  while read -r _ prefix _; do
    [ "$prefix" = - ] || [ -e "$prefix/complete" ] || return 1
  done <"$out"
}

servers() {
  local out series package
  out=$(realpath -m "$1")
  cd "$repo/scripts/setup"
  if is_current "$out"; then return 0; fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$(dirname "$out")"
  for series in 10.11 11.8; do
    for package in $(known_of "$series"); do bring "$series" "$package"; done
  done >"$out.new"
  grep -qv ' - ' "$out.new" || { echo "no server's headers can be had" >&2; exit 1; }
  mv "$out.new" "$out"
}

# --- plugins ---

# builds FILE: version and prefix of each server that can be had.
builds() { awk '$2 != "-" { print $1, $2 }' "$1"; }

# names PREFIX SO: the variables that the server has with the plugin, without their first word.
names() {
  "$1/bin/mariadbd" --no-defaults --basedir="$1" --plugin-dir="$(realpath "$(dirname "$2")")" \
    --plugin-maturity=experimental --plugin-load-add="$(basename "$2")" --verbose --help 2>/dev/null |
    sed -nE 's/^  --tidesdb-([a-z0-9-]+).*/\1/p' | tr - _
}

plugins() {
  local servers out=$2 jobs=${JOBS:--j2} version prefix oldest='' headers release
  servers=$(realpath "$1")
  cd "$repo"
  mkdir -p "$out/absent"
  : >"$out/absent/all"
  while read -r version prefix; do
    make --no-print-directory -f plugin/build.mk $jobs PREFIX="$prefix" BUILD="$out/$version" </dev/null
    scripts/plugin/check.sh loads "$prefix" "$(realpath "$out/$version/ha_tidesdb.so")" </dev/null
    names "$prefix" "$out/$version/ha_tidesdb.so" >>"$out/absent/all"
    # The oldest server's headers serve all newer ones too.
    oldest=${oldest:-$prefix}
  done < <(builds "$servers" | sort -V)

  sort -u "$out/absent/all" | sed 's/.*/SETTING(&)/' >"$out/absent/names.h"
  [ "$(wc -l <"$out/absent/names.h")" -gt 50 ] || { echo "the engine's variables were not found" >&2; exit 1; }
  headers=$oldest/include/server
  release=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | sed -n 1p)
  cc -shared -fPIC -O2 -g -Wall -Wextra -fstack-protector-strong -D_FORTIFY_SOURCE=2 -Wl,-z,relro,-z,now \
    -DMYSQL_DYNAMIC_PLUGIN -DRELEASE="\"$release\"" -DBUILDS="\"$(builds "$servers" | sort -V | awk '{ printf "%s%s", sep, $1; sep = ", " }')\"" \
    -I"$out/absent" -isystem "$headers/generated" -isystem "$headers/include" \
    -o "$out/absent/ha_tidesdb.so" debian/plugin/absent.c
}

# --- Debian packages ---

deb() {
  local deb
  cd "$repo"
  TIDESDB_ROOT=$PWD TIDESDB_RELEASE=$(realpath "$2")
  export TIDESDB_ROOT TIDESDB_RELEASE
  deb=$(realpath "$1")/deb

  # The crates in the built files, with their licences, for each package's copyright.
  mkdir -p "$deb/doc"
  cargo tree --locked -e normal -p tidesdb-capi -p tidesdb-admin -p tidelab --prefix none -f '{p} {l}' | sed 's/ ([^)]*)//g' | sort -u >"$deb/doc/crates"
  sed -E 's/ - / no build: /; s/ \/.*/ has a build/' "$deb/servers" >"$deb/doc/servers"

  # The packaging works in a copy: dpkg's tools write next to it, and into it.
  rm -rf "$deb/source" "$deb"/*.deb "$deb"/*.changes "$deb"/*.buildinfo
  mkdir -p "$deb/source"
  cp -a debian "$deb/source/"
  cd "$deb/source"
  [ -z "${DEB_VERSION:-}" ] || sed -i "1s/(.*)/($DEB_VERSION)/" debian/changelog
  [ -n "${DBGSYM:-}" ] || export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:+$DEB_BUILD_OPTIONS }noautodbgsym"
  # Warnings about symbols: a plugin's are the server's, which is no library.
  dpkg-buildpackage --build=binary --no-sign --no-pre-clean 2>&1 | grep -v '^dpkg-shlibdeps: warning: .*symbol'
  cd ..
  lintian --fail-on error,warning --profile debian --tag-display-limit 0 ./*.changes
  rm -rf source
  ls -l ./*.deb
}

section() { printf '.SH %s\n' "$1"; }
text() { sed -e 's/\\/\\e/g' -e "s/'/\\\\(aq/g" -e 's/-/\\-/g' -e 's/^\./\\\&./'; }

man_page() {
  local name help what
  name=$(basename "$1")
  help=$("$1" --help)
  case $name in
    tidelab) what='compare and check storage engines of MariaDB' ;;
    *) echo "$0: no line says what $name is" >&2 && exit 1 ;;
  esac
  printf '.TH %s 1\n' "${name^^}"
  section NAME
  printf '%s \\- %s\n' "${name/-/\\-}" "$what"
  section SYNOPSIS
  printf '.B %s\n\\-\\-help\n' "${name/-/\\-}"
  section DESCRIPTION
  printf '.nf\n'
  text <<<"$help"
  printf '.fi\n'
}

case ${1-} in
  servers | plugins | deb) "$@" ;;
  man-page) man_page "$2" ;;
  *)
    echo "usage: $0 servers FILE | plugins FILE OUT | deb BUILD RELEASE | man-page PROGRAM" >&2
    exit 2
    ;;
esac
