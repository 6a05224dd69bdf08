#!/bin/bash
# loads.sh PREFIX SO: whether the prefix's server loads the plugin and works with it: a table, a row, an answer.
set -euo pipefail
prefix=$1 so=$2
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
