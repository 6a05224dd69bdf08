#!/bin/bash
# run-with-innodb.sh PREFIX VARDIR [mtr option or test...]: the suite with InnoDB as the default engine, to
# record results that do not depend on TidesDB (--record), or to see that they still hold.
set -euo pipefail
prefix=$1 vardir=$2
shift 2
suite=$(cd "$(dirname "${BASH_SOURCE[0]}")/suite/tidesdb" && pwd)
tests=share/mariadb/mariadb-test
base=$vardir.base

rm -rf "$base"
mkdir -p "$base/$tests/suite/tidesdb" "$base/lib/mysql"
ln -s "$prefix/bin" "$prefix/sbin" "$base/"
find "$prefix/lib/" -mindepth 1 -maxdepth 1 -name '*-linux-gnu*' -exec ln -s -t "$base/lib" {} +
ln -s "$prefix/lib/mysql/plugin" "$base/lib/mysql/plugin"
find "$prefix/share/mariadb/" -mindepth 1 -maxdepth 1 ! -name mariadb-test -exec ln -s -t "$base/share/mariadb" {} +
find "$prefix/$tests/" -mindepth 1 -maxdepth 1 ! -name suite ! -name var -exec ln -s -t "$base/$tests" {} +
find "$prefix/$tests/suite/" -mindepth 1 -maxdepth 1 -exec ln -s -t "$base/$tests/suite" {} +
ln -s "$suite/t" "$suite/r" "$suite/include" "$base/$tests/suite/tidesdb/"
printf -- '--innodb\n--sequence\n--default-storage-engine=InnoDB\n' >"$base/$tests/suite/tidesdb/suite.opt"

cd "$base/$tests"
# shellcheck disable=SC2046  # a list of words
MTR_BUILD_THREAD=auto perl ./mtr --suite=tidesdb --parallel="${MTR_PARALLEL:-2}" --vardir="$vardir" \
  --client-bindir="$prefix/bin" --force --max-test-fail=0 --retry=0 --skip-test='engine_|refused_|variable_' \
  $([ "$(id -u)" != 0 ] || echo --user=root) "$@"
