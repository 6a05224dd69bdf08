#!/bin/bash
# run-orm.sh WORKDIR KNOWN [pytest argument...]: SQLAlchemy's own tests of its MariaDB dialect, and those of its engine
# layer that talk to a server, over one server of ours: once with InnoDB as the default engine, once with TidesDB. A
# test that passes with InnoDB and not with TidesDB must stand in the file KNOWN with its reason, else the end is an
# error. The last line is "orm: N passed, M failed, K skipped".
#
# SQLAlchemy, its driver and pytest are installed by pip into an environment of their own in the cache; the tests come
# from SQLAlchemy's source package. For TidesDB they are copied with the word InnoDB changed into TidesDB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. scripts/setup/where.sh
. scripts/setup/say.sh
. scripts/setup/packages.sh

SQLALCHEMY=2.1.9
WITH=(pymysql==1.2.4 pytest==9.2.0 pytest-xdist==3.8.0)
# Of the engine layer, what does not wait for connections that die.
TESTS=(test/dialect/test_suite.py test/dialect/test_all.py test/dialect/mysql test/engine
  --ignore=test/engine/test_reconnect.py --ignore=test/engine/test_pool.py)
# Fails in its set-up with TidesDB and leaves a table that tests of reflection then find.
LEAVES=test/dialect/mysql/test_query.py::MatchTest

[ $# -ge 2 ] || fail "usage: run-orm.sh WORKDIR KNOWN [pytest argument...]"
work=$(realpath -m -- "$1") known=$2
shift 2
environment=$CACHE/orm-sqlalchemy-$SQLALCHEMY

install_environment() {
  [ ! -e "$environment/complete" ] || return 0
  mkdir -p "$LOGS" "$CACHE"
  exec 7>"$environment.lock"
  flock 7
  [ ! -e "$environment/complete" ] || return 0
  rm -rf "$environment"
  if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    logged orm-update "refreshing the package lists" as_root apt-get update -q
    logged orm-install "installing python3-venv" as_root env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -q --no-install-recommends python3 python3-venv
  fi
  logged orm-venv "making $environment" python3 -m venv "$environment"
  logged orm-pip "installing SQLAlchemy $SQLALCHEMY, its driver and pytest" \
    "$environment/bin/pip" install -q "sqlalchemy==$SQLALCHEMY" "${WITH[@]}"
  logged orm-source "fetching SQLAlchemy's source package" \
    "$environment/bin/pip" download -q --no-deps --no-binary :all: "sqlalchemy==$SQLALCHEMY" -d "$environment/source"
  tar xzf "$environment/source/sqlalchemy-$SQLALCHEMY.tar.gz" -C "$environment/source"
  touch "$environment/complete"
}

# The tests in a folder of their own: pytest writes caches next to them.
copy_source() {
  local tree=$1 engine=$2
  rm -rf "$tree"
  cp -r "$environment/source/sqlalchemy-$SQLALCHEMY" "$tree"
  [ "$engine" = InnoDB ] ||
    grep -rlw --include='*.py' InnoDB "$tree/test" "$tree/lib/sqlalchemy/testing" |
      xargs sed -i "s/\bInnoDB\b/$engine/g"
}

sql() { "$PREFIX/bin/mariadb" --no-defaults --user=root --socket="$DATA/mysqld.sock" "$@"; }

# run ENGINE [pytest argument...]: the tests with ENGINE as default; their outcomes in $work/ENGINE.xml.
run() {
  local engine=$1 schema
  shift
  copy_source "$work/$engine" "$engine"
  sql -e "SET GLOBAL default_storage_engine = $engine"
  for schema in test test_schema test_schema_2; do
    sql -e "DROP DATABASE IF EXISTS $schema; CREATE DATABASE $schema CHARACTER SET utf8mb4"
  done
  say "SQLAlchemy's tests with $engine"
  (
    cd "$work/$engine"
    # An exit status of 1: some tests failed. They are judged together below.
    # shellcheck disable=SC2046  # a list of words
    "$environment/bin/python" -m pytest -q -p no:cacheprovider -p no:warnings -n "${ORM_PARALLEL:-2}" --maxfail=10000 \
      --dburi "mariadb+pymysql://root@localhost/test?unix_socket=$DATA/mysqld.sock&charset=utf8mb4" \
      --backend-only --nomemory --notimingintensive --nomypy --junitxml="$work/$engine.xml" --tb=short \
      $([ "$engine" = InnoDB ] || echo "--deselect=$LEAVES") \
      "$@" >"$work/$engine.log" 2>&1 || [ $? = 1 ]
  ) || fail "pytest did not come to its end, see $work/$engine.log"
  tail -n 1 "$work/$engine.log" >&2
}

install_environment
mkdir -p "$work"
# The tests make and drop tables all the time, and nothing asks for them after a crash: memory, where there is some.
DATA=$work/server
[ ! -w /dev/shm ] || DATA=$(mktemp -d /dev/shm/tidesdb-orm.XXXXXX)/server
export DATA CNF=$work/server.cnf
cat >"$CNF" <<'CNF'
[mariadbd]
character-set-server = utf8mb4
innodb-buffer-pool-size = 128M
innodb-flush-log-at-trx-commit = 0
innodb-flush-method = nosync
tidesdb-unified-memtable-sync-mode = NONE
max-connections = 300
CNF
rm -f "$work"/*.xml
end_server() {
  scripts/server.sh stop
  [ "$DATA" = "$work/server" ] || { cp "$DATA/error.log" "$work/" && rm -rf "${DATA%/server}"; }
}
scripts/server.sh stop
rm -rf "$DATA"
trap end_server EXIT
scripts/server.sh start

[ $# -gt 0 ] || set -- "${TESTS[@]}"
for engine in InnoDB TidesDB; do run "$engine" "$@"; done
"$environment/bin/python" scripts/test/orm-compare.py "$work/InnoDB.xml" "$work/TidesDB.xml" "$known"
