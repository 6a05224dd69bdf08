#!/bin/bash
# run-mtr.sh PREFIX BASEDIR VARDIR SUITE [TEST...]: MariaDB's test runner over a suite,
# in a tree of links that has our plugin and suite (scripts/plugin/basedir.sh). Ends with
# a line "mtr: N passed, N failed, N skipped".
# The suite tidesdb_innodb: the tests of tidesdb with InnoDB as the default engine, to record results that do not
# depend on TidesDB (MTR_FLAGS=--record), or to see that they still hold.
set -euo pipefail
prefix=$1 base=$2 vardir=$3 suite=$4
shift 4

if [ "$suite" = tidesdb_innodb ]; then
  suites=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../plugin/mysql-test/suite" && pwd)
  own=$base/share/mariadb/mariadb-test/suite/$suite
  mkdir -p "$own"
  ln -sfn -t "$own" "$suites"/tidesdb/{t,r,include}
  printf -- '--innodb\n--sequence\n--default-storage-engine=InnoDB\n' >"$own/suite.opt"
  MTR_FLAGS="--skip-test=engine_|refused_|variable_ ${MTR_FLAGS:-}"
fi

# What a test that failed has left mounted (tidesdb_cluster.disk_full) keeps the runner from removing its directory.
unmount_all() {
  local place
  while read -r _ place _; do
    place=$(printf '%b' "$place")
    [[ $place != "$vardir"/* ]] || umount -l "$place"
  done </proc/mounts
}
trap unmount_all EXIT
unmount_all

mkdir -p "$vardir"
log=$vardir.log
status=0
# --force: one failure does not hide the rest. Ports are taken by sight, so that several
# clones can run at once. Tests wait for servers more than for processors: six at a time on two.
(
  cd "$base/share/mariadb/mariadb-test"
  # shellcheck disable=SC2046,SC2086  # lists of words
  MTR_BUILD_THREAD=auto perl ./mtr --suite="$suite" --parallel="${MTR_PARALLEL:-6}" \
    --vardir="$vardir" --client-bindir="$prefix/bin" --force --max-test-fail=0 --retry=0 \
    --verbose-restart \
    $([ "$(id -u)" != 0 ] || echo --user=root) ${MTR_FLAGS:-} "$@"
) </dev/null 2>&1 | tee "$log" || status=$?

# Not by the begin of a line: what a test prints may stand before its result.
count() { { grep -o -E "\[ $1 \]" "$log" || true; } | wc -l; }
passed=$(count pass) failed=$(count fail) skipped=$(count '(skipped|disabled)')
echo "mtr: $passed passed, $failed failed, $skipped skipped"
if [ "$status" = 0 ] && [ "$passed" = 0 ]; then
  echo "mtr: no test of suite $suite ran" >&2
  exit 1
fi
exit "$status"
