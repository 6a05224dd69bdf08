#!/bin/bash
# check.sh symbols PREFIX SO: every symbol that the plugin leaves open must be one that the server or its libraries have.
#   The linker cannot say so (a plugin's symbols come from the program that loads it); without this the first to say it is
#   a server's log.
# check.sh loads PREFIX SO: whether the prefix's server loads the plugin and works with it: a table, a row, an answer.
set -euo pipefail

names() { awk '{ sub(/@.*/, "", $NF); print $NF }' | LC_ALL=C sort -u; }

symbols() {
  local prefix=$1 so=$2 server libraries open have unknown file
  server=$prefix/usr/sbin/mariadbd
  libraries=$(dirname "$(find "$prefix/usr/lib/" -maxdepth 2 -name libc.so.6 -print -quit)")
  open=$(nm -D --undefined-only "$so" | awk '$1 != "w" && $1 != "v"' | names)
  have=$(for file in "$server" "$libraries"/{libc.so.6,libm.so.6,libstdc++.so.6,libgcc_s.so.1} \
    "$libraries"/ld-linux*.so.*; do nm -D --defined-only "$file"; done | names)
  unknown=$(LC_ALL=C comm -23 <(printf '%s\n' "$open") <(printf '%s\n' "$have"))
  if [ -n "$unknown" ]; then
    echo "$so needs symbols that neither the server nor its libraries have:" >&2
    printf '%s\n' "$unknown" | c++filt | sed 's/^/  /' >&2
    exit 1
  fi
}

loads() {
  local prefix=$1 so=$2
  work=$(mktemp -d "${TMPDIR:-/tmp}/tidesdb-loads.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  cp -a "$prefix/template" "$work/data"
  "$prefix/bin/mariadbd" --no-defaults --bootstrap --basedir="$prefix" --datadir="$work/data" --tmpdir="$work" \
    --user="$(id -un)" --plugin-dir="$(dirname "$so")" --plugin-maturity=experimental \
    --plugin-load-add="$(basename "$so")" >"$work/out" 2>&1 <<'SQL' || { cat "$work/out"; exit 1; }
CREATE TABLE test.loads (a INT PRIMARY KEY, b INT, KEY (b)) ENGINE=TidesDB;
INSERT INTO test.loads VALUES (1, 2), (3, 4);
UPDATE test.loads SET b = 5 WHERE a = 3;
DROP TABLE test.loads;
SQL
}

case ${1-} in
  symbols | loads) "$@" ;;
  *)
    echo "usage: $0 symbols|loads PREFIX SO" >&2
    exit 2
    ;;
esac
