#!/bin/bash
# basedir.sh PREFIX BASEDIR SO: a folder of this clone that looks like an installed
# MariaDB, made of links: the prefix's programs, plugins and test suites, with our
# plugin and our test suites among them. Clones share the prefix, so nothing of ours
# may lie in it. Links made before are kept; those of another prefix are replaced.
set -euo pipefail
prefix=$1 base=$2 so=$3
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tests=share/mariadb/mariadb-test

mkdir -p "$(dirname "$base")"
exec 9>"$base.lock"
flock 9
# The stamp tells whether the links are of this very prefix; it changes when that is made anew.
made_from="$prefix $(stat -c %Y "$prefix/complete" 2>/dev/null || echo none)"
if [ "$(cat "$base/made-from" 2>/dev/null)" != "$made_from" ]; then
  rm -rf "$base"
  # Programs of 10.11 look in share/mysql, and its test runner takes the suites' names from paths through mysql-test.
  if [ -e "$prefix/share/mysql" ]; then
    mkdir -p "$base/share/mariadb/mysql-test"
    ln -s mysql-test "$base/$tests"
    ln -s mariadb "$base/share/mysql"
  fi
  mkdir -p "$base/lib/mysql/plugin" "$base/$tests/suite"
  ln -s "$prefix/bin" "$prefix/sbin" "$base/"
  find "$prefix/lib/" -mindepth 1 -maxdepth 1 -name '*-linux-gnu*' -exec ln -s -t "$base/lib" {} +
  find "$prefix/lib/mysql/plugin/" -mindepth 1 -maxdepth 1 -exec ln -s -t "$base/lib/mysql/plugin" {} +
  find "$prefix/share/mariadb/" -mindepth 1 -maxdepth 1 ! -name "*-test" \
    -exec ln -s -t "$base/share/mariadb" {} +
  find "$prefix/$tests/" -mindepth 1 -maxdepth 1 ! -name suite ! -name var \
    -exec ln -s -t "$base/$tests" {} +
  find "$prefix/$tests/suite/" -mindepth 1 -maxdepth 1 -exec ln -s -t "$base/$tests/suite" {} +
  printf '%s\n' "$made_from" >"$base/made-from"
fi
for suite in tidesdb tidesdb_rpl tidesdb_galera tidesdb_cluster tidesdb_galera_keys; do
  [ -e "$base/$tests/suite/$suite" ] ||
    ln -s "$repo/plugin/mysql-test/suite/$suite" "$base/$tests/suite/$suite"
done
[ "$(readlink "$base/lib/mysql/plugin/ha_tidesdb.so")" = "$so" ] ||
  ln -sfn "$so" "$base/lib/mysql/plugin/ha_tidesdb.so"
