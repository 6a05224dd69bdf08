#!/bin/bash
# server.sh commands: the commands of the README by hand: make server, make shell, make stop.
# server.sh backup: one backup of all engines: clients move money between tables of InnoDB and TidesDB, each time in one
#   transaction. A backup that has one moment for both has the same sum. With mariadb-backup where the server has it, and
#   with mariadb-dump.
# WORK is a directory that may go. Ends with a line "commands: N passed" or "backup: N passed".
set -euo pipefail
part=${1:?"usage: server.sh commands|backup"}
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=${WORK:?"make test-manual sets it"}
rm -rf "$work"
mkdir -p "$work"
passed=0

expect() { # expect WHAT TEXT PATTERN
  grep -q -- "$3" <<<"$2" || { printf '%s: %s: no "%s" in\n%s\n' "$part" "$1" "$3" "$2" >&2; exit 1; }
  passed=$((passed + 1))
}

commands() {
  export DATA=$work/data CNF='' PORT=''
  trap '"$repo/scripts/server.sh" stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

  # A server without TLS, which MariaDB's client refuses by default.
  printf '[mysqld]\nskip_ssl\n' >"$work/no-tls.cnf"
  CNF=$work/no-tls.cnf "$repo/scripts/server.sh" start 2>/dev/null
  readme=$(sed -n '/^## Ten lines of SQL/,/^```$/p' "$repo/README.md" | sed '1,/^```sql/d; /^```$/d; /tidesdb_backup_dir/d')
  answer=$({ echo "$readme"; echo "SELECT 1/0;"; } | "$repo/scripts/server.sh" shell 2>&1)
  expect "the README's SQL in make shell" "$answer" 'cherry'
  expect "make shell shows warnings" "$answer" 'Division by 0'
  expect "make shell opens a database" "$(echo 'SELECT DATABASE()' | "$repo/scripts/server.sh" shell)" '^test$'
  "$repo/scripts/server.sh" stop 2>/dev/null

  # One that turns its own client away: start says why, in place of waiting.
  echo "ALTER USER root@localhost IDENTIFIED BY 'x';" >"$work/password.sql"
  printf '[mysqld]\ninit_file=%s\n' "$work/password.sql" >"$work/password.cnf"
  status=0
  answer=$(CNF=$work/password.cnf timeout 60 "$repo/scripts/server.sh" start 2>&1) || status=$?
  expect "a server that refuses its client" "$answer" 'refuses its own client: ERROR 1045'
  expect "its exit status" "$status" '^1$'
}

stop_all() { for data in "$work"/*/; do DATA=$data "$repo/scripts/server.sh" stop >/dev/null 2>&1 || true; done; }
start() { DATA=$1 "$repo/scripts/server.sh" start 2>"$work/start.log" || { cat "$work/start.log" >&2; exit 1; }; }
# sql DATA: as `make shell`, without the table's frame
sql() { mariadb --no-defaults --skip-ssl --user=root --socket="$1/mysqld.sock" -NB test; }

take() { tidesdb_admin backup take "$work/$1" --socket "$work/old/mysqld.sock" "${@:2}"; }
tidesdb_admin() { "$TIDESDB_ADMIN" "$@"; }
state() { sql "$1" <<<"SELECT total, (SELECT COUNT(*) FROM plain), (SELECT COUNT(*) FROM versions FOR SYSTEM_TIME ALL),
  (SELECT COUNT(*) FROM mysql.user WHERE User = 'clerk'), (SELECT money FROM abroad WHERE id = 5) > 1000 FROM sums"; }

backup() {
  export PATH=$MARIADB_PREFIX/bin:$PATH PORT='' CNF=$work/my.cnf
  printf '[mysqld]\nlog_bin = binlog\nserver_id = 1\n' >"$CNF"
  trap 'touch "$work/stop"; stop_all; wait; rm -rf "$work"' EXIT

  start "$work/old"
  sql "$work/old" >/dev/null <<'SQL'
CREATE TABLE at_home (id INT PRIMARY KEY, money INT NOT NULL) ENGINE=InnoDB;
CREATE TABLE abroad (id INT PRIMARY KEY, money INT NOT NULL, KEY (money)) ENGINE=TidesDB;
CREATE TABLE settled (id INT PRIMARY KEY, pad CHAR(100)) ENGINE=TidesDB;
INSERT INTO settled SELECT seq, REPEAT('x', 100) FROM seq_1_to_1000;
OPTIMIZE TABLE settled;
CREATE SEQUENCE ids START WITH 7 ENGINE=TidesDB;
CREATE TABLE parts (id INT PRIMARY KEY DEFAULT NEXTVAL(ids), n INT, twice INT AS (n * 2) VIRTUAL, s INT AS (n * 3) STORED, KEY (twice))
  ENGINE=TidesDB PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO parts (n) SELECT seq FROM seq_1_to_50;
CREATE TABLE former (id INT PRIMARY KEY, x INT) ENGINE=TidesDB WITH SYSTEM VERSIONING
  PARTITION BY SYSTEM_TIME LIMIT 100 (PARTITION h HISTORY, PARTITION c CURRENT);
INSERT INTO former VALUES (1, 1);
UPDATE former SET x = 2;
CREATE TABLE plain (n INT) ENGINE=MyISAM;
CREATE VIEW sums AS SELECT (SELECT SUM(money) FROM at_home) + (SELECT SUM(money) FROM abroad) AS total;
CREATE TABLE versions (id INT PRIMARY KEY, x INT) ENGINE=InnoDB WITH SYSTEM VERSIONING;
CREATE SEQUENCE numbers ENGINE=InnoDB;
CREATE USER clerk@localhost;
INSERT INTO at_home SELECT seq, 1000 FROM seq_1_to_20;
INSERT INTO abroad SELECT seq, 1000 FROM seq_1_to_20;
INSERT INTO plain VALUES (1), (2), (3);
INSERT INTO versions VALUES (1, 1);
UPDATE versions SET x = 2;
delimiter |
CREATE PROCEDURE move(who INT)
BEGIN
  DECLARE n INT DEFAULT 0;
  WHILE n < 200 DO
    START TRANSACTION;
    UPDATE at_home SET money = money - 7 WHERE id = 1 + (n * 3 + who * 5) % 20;
    UPDATE abroad SET money = money + 7 WHERE id = 1 + (n * 7 + who * 5) % 20;
    COMMIT;
    SET n = n + 1;
  END WHILE;
END|
SQL
  # Deadlocks among them end a call, and undo its last transaction.
  for who in 1 2 3 4; do
    while [ ! -e "$work/stop" ]; do echo "CALL move($who)" | sql "$work/old" >/dev/null 2>&1 || true; done &
  done
  until [ "$(sql "$work/old" <<<'SELECT money > 1000 FROM abroad WHERE id = 5')" = 1 ]; do sleep 0.1; done

  right=$(printf '40000\t3\t2\t1\t1')

  take by-dump --with mariadb-dump >"$work/out"
  expect "the dump's place" "$(cat "$work/out")" "by-dump/rest.sql"
  expect "no table of TidesDB in the dump" "$(grep -c '`abroad`' "$work/by-dump/rest.sql" || true)" '^[01]$'
  expect "no statement on one" "$(grep -cE '(DROP|CREATE) TABLE.*`abroad`|INTO `abroad`' "$work/by-dump/rest.sql" || true)" '^0$'
  if [ -x "$MARIADB_PREFIX/bin/mariadb-backup" ]; then
    take by-files --rate 1000 >"$work/out"
    expect "mariadb-backup is the default" "$(cat "$work/out")" "by-files/rest:"
  fi
  take again --with nothing --base "$work/by-dump" >"$work/out"
  expect "equal files are shared" "$(tidesdb_admin backup show "$work/again")" 'shared with an earlier backup: [1-9]'
  mkdir "$work/unpacked"
  take passing --with nothing --links --stream | tar -x -C "$work/unpacked"
  expect "a stream" "$(tidesdb_admin backup verify "$work/unpacked")" 'unpacked/tidesdb: whole'
  expect "leaves nothing" "$(ls -d "$work/passing" 2>&1 || true)" 'No such file'
  touch "$work/stop"
  wait

  # Tables of every kind one by one: partitions, generated columns, defaults by a sequence, versions.
  for table in parts former; do
    tidesdb_admin backup restore "$work/again" --table test.$table --as test.${table}_back --socket "$work/old/mysqld.sock" >/dev/null
  done
  expect "one table's rows" "$(sql "$work/old" <<'SQL'
SELECT COUNT(*), SUM(a.twice = b.twice), SUM(a.s = b.s), (SELECT COUNT(*) FROM former_back FOR SYSTEM_TIME ALL)
  FROM parts a JOIN parts_back b FORCE INDEX (twice) USING (id);
SQL
  )" "$(printf '^50\t50\t50\t2$')"

  # Nothing is left of a backup that fails, in the server neither.
  status=0
  take "no/such" >"$work/out" 2>&1 || status=$?
  expect "a directory that cannot be made" "$status $(cat "$work/out")" '^1 .*no/such'
  status=0
  take twice --with nothing --base "$work/nowhere" >"$work/out" 2>&1 || status=$?
  expect "a base that is none" "$status $(cat "$work/out")" 'nowhere is not a finished backup'
  [ ! -e "$work/twice" ]
  "$MARIADB_PREFIX/bin/mariadb" --no-defaults --skip-ssl --user=root --socket="$work/old/mysqld.sock" -e 'BACKUP STAGE START; BACKUP STAGE END'
  expect "other backups are told" "$(cat "$work/old/error.log")" 'Warning. TidesDB: BACKUP STAGE START: .*tidesdb-admin backup take'
  expect "of this one alone" "$(grep -c 'TidesDB: BACKUP STAGE START' "$work/old/error.log")" '^1$'
  DATA=$work/old "$repo/scripts/server.sh" stop 2>/dev/null

  DATA=$work/new FROM=$work/by-dump "$repo/scripts/server.sh" restore >"$work/out" 2>&1
  expect "the next step is told" "$(cat "$work/out")" "then, with the server started: mariadb < $work/by-dump/rest.sql"
  start "$work/new"
  sql "$work/new" <"$work/by-dump/rest.sql" 2>"$work/out" || { cat "$work/out" >&2; exit 1; }
  expect "one moment, with a dump" "$(state "$work/new")" "^$right$"
  expect "whole" "$(sql "$work/new" <<<'CHECK TABLE abroad, at_home')" 'abroad.*OK'
  DATA=$work/new "$repo/scripts/server.sh" stop 2>/dev/null
  if [ -x "$MARIADB_PREFIX/bin/mariadb-backup" ]; then
    mkdir "$work/files"
    tidesdb_admin backup restore "$work/by-files" --data-dir "$work/files/data" >"$work/out"
    start "$work/files"
    expect "one moment, with mariadb-backup" "$(state "$work/files")" "^$right$"
    expect "whole" "$(sql "$work/files" <<<'CHECK TABLE abroad, at_home')" 'abroad.*OK'
  fi
}

"$part"
echo "$part: $passed passed"
