# shellcheck shell=bash disable=SC2034  # those that source it use the names
# The folders that setup uses, and the server that it chose. Sourced, never run; needs no network.
#
# The record of the choice names the prefix. PREFIX is empty until setup has made one.

# The server's release series that the plugin is built for, and Debian's suite that has it: one of two, beside each other.
SERIES=${TIDESDB_SERVER:-11.8}
BUILD_FOLDER=build/$SERIES # in the clone; the default series has build/ itself
# The packages with the headers that the server's build generates. Those of bookworm have none.
HEADER_PACKAGES=()
case $SERIES in
  11.8) SUITE=trixie BUILD_FOLDER=build HEADER_PACKAGES=(libmariadbd-dev libmariadb-dev) ;;
  10.11) SUITE=bookworm ;;
  *)
    echo "==> setup: FAILED: SERVER=$SERIES: the plugin is for MariaDB 10.11 and 11.8" >&2
    exit 1
    ;;
esac
# Part of the prefix's name: raise it with any change to the contents of a prefix.
PREFIX_RECIPE=2
RUST_MINIMUM=1.85

CACHE=${TIDESDB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tidesdb}
ARCH=$(dpkg --print-architecture)
MULTIARCH=$(gcc -print-multiarch 2>/dev/null || echo "$(uname -m)-linux-gnu")
DOWNLOADS=$CACHE/downloads-$SERIES-$ARCH
LOGS=$CACHE/logs
# TIDESDB_CHOICE: another record, for a server that is not the one to work with (scripts/package.sh servers).
RECORD=${TIDESDB_CHOICE:-$CACHE/server-$SERIES-$ARCH-$PREFIX_RECIPE}

recorded() { sed -n "s/^$1=//p" "$RECORD" 2>/dev/null; }

# use_version UPSTREAM: sets the names that follow from the server's version. The patched
# programs hold absolute paths: a prefix works only in the place where it was made.
use_version() {
  MARIADB_VERSION=$1
  PREFIX=${1:+$CACHE/mariadb-$1-$ARCH-$PREFIX_RECIPE}
  STAMP=$PREFIX/complete
}

# A cache of an earlier revision has no record: its newest finished prefix is the choice.
newest_finished() {
  local prefix
  for prefix in "$CACHE/mariadb-$SERIES".*-"$ARCH-$PREFIX_RECIPE"/complete; do
    [ ! -e "$prefix" ] || [ -e "${prefix%/complete}/server" ] ||
      basename "$(dirname "$prefix")" | cut -d- -f2
  done | sort -V | tail -n 1
}

use_version "$(recorded version)"
[ -n "$MARIADB_VERSION" ] || use_version "$(newest_finished)"
