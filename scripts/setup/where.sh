# Where setup keeps things and which versions it brings. Sourced, never run.
#
# The recipe number is part of the prefix's name: raise it with any change to
# what the prefix holds, and clones of both revisions live beside each other.

MARIADB_VERSION=${TIDESDB_MARIADB_VERSION:-11.8.6}
MARIADB_SUITE=trixie
PREFIX_RECIPE=1
RUST_MINIMUM=1.85

CACHE=${TIDESDB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tidesdb}
ARCH=$(dpkg --print-architecture)
MULTIARCH=$(gcc -print-multiarch 2>/dev/null || echo "$(uname -m)-linux-gnu")

# The patched programs hold absolute paths: the prefix works only where it is made.
PREFIX=$CACHE/mariadb-$MARIADB_VERSION-$ARCH-$PREFIX_RECIPE
DOWNLOADS=$CACHE/downloads-$MARIADB_VERSION-$ARCH
LOGS=$CACHE/logs
STAMP=$PREFIX/complete
