#!/bin/bash
# upgrade.sh WORK: what a server of 10.11 left is used by one of 11.8, in two ways. Its data directory and store are opened in
# place, after a stop in order, with a prepared XA transaction in them; and a replica of 11.8 follows a primary of 10.11.
# The last line is "upgrade: N passed, N failed".
set -euo pipefail
work=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
passed=0 failed=0

run() { make --no-print-directory "$@" >>"$work/log" 2>&1 </dev/null || { tail -n 20 "$work/log" >&2; exit 1; }; }
prefix_of() { TIDESDB_SERVER=$1 bash -c '. scripts/setup/where.sh && echo "$PREFIX"'; }
# sql DATA [OPTION...]: statements from standard input, answers without names.
sql() {
  local data=$1
  shift
  "$new/bin/mariadb" --no-defaults --skip-ssl -uroot -S "$data/mysqld.sock" -N -B --default-character-set=utf8mb4 test "$@"
}
# is WHAT WANTED GOT
is() {
  if [ "$2" = "$3" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'upgrade: FAILED: %s\n--- wanted\n%s\n--- got\n%s\n' "$1" "$2" "$3"
  fi
}
# Rows by the primary key, and of each index the rows that its entries lead to.
contents() {
  sql "$1" <<'SQL'
SELECT 'texts', COUNT(*), MD5(GROUP_CONCAT(HEX(a), HEX(b), HEX(c), HEX(d), HEX(e) ORDER BY id)) FROM texts;
SELECT 'by a', COUNT(*) FROM texts x JOIN texts y FORCE INDEX (a) ON x.a = y.a;
SELECT 'by b', COUNT(*) FROM texts x JOIN texts y FORCE INDEX (b) ON x.b = y.b;
SELECT 'by c', COUNT(*) FROM texts x JOIN texts y FORCE INDEX (c) ON x.c = y.c;
SELECT 'by d', COUNT(*) FROM texts x JOIN texts y FORCE INDEX (d) ON x.d = y.d;
SELECT 'by e', COUNT(*) FROM texts x JOIN texts y FORCE INDEX (e) ON x.e = y.e;
SELECT * FROM kinds ORDER BY u;
SELECT u FROM kinds FORCE INDEX (t) WHERE t > '2001-01-01' ORDER BY t;
SELECT i FROM kinds FORCE INDEX (i) WHERE i >= '::5' ORDER BY i;
SELECT id, v FROM parts FORCE INDEX (v) WHERE v > 1900 ORDER BY v;
SELECT COUNT(*), SUM(id) FROM parts;
SELECT id, LENGTH(l) FROM longs ORDER BY id;
SELECT b FROM hidden ORDER BY b;
SELECT * FROM xa ORDER BY id;
SQL
}
# A line for each collation: a sum of the weights that it gives to single characters and to pairs. Keys hold weights.
weights() {
  local queries
  sql "$1" <<'SQL'
CREATE TABLE IF NOT EXISTS points (seq INT PRIMARY KEY, t VARCHAR(3) CHARACTER SET utf8mb4) ENGINE=InnoDB;
INSERT IGNORE INTO points SELECT seq, CHAR(seq USING utf32) FROM seq_32_to_12543;
INSERT IGNORE INTO points SELECT 20000 + seq, CHAR(19968 + 7 * seq USING utf32) FROM seq_0_to_2000;
INSERT IGNORE INTO points SELECT 30000 + 128 * a.seq + b.seq, CONCAT(CHAR(a.seq USING utf32), CHAR(b.seq USING utf32))
  FROM seq_65_to_122 a, seq_32_to_122 b;
INSERT IGNORE INTO points SELECT 50000 + seq, CONCAT('a', CHAR(768 + seq USING utf32)) FROM seq_0_to_111;
SQL
  queries=$(sql "$1" -e "SELECT CONCAT('SELECT ''', full_collation_name, ''', SUM(CRC32(CONCAT(seq, HEX(WEIGHT_STRING(CONVERT(t USING ',
    character_set_name, ') COLLATE ', full_collation_name, '))))) FROM points;')
    FROM information_schema.collation_character_set_applicability WHERE character_set_name <> 'binary'")
  sql "$1" <<<"$queries" | sort -k 1,1
}
check() { sql "$1" -e "CHECK TABLE texts, kinds, parts, longs, hidden, xa, $2 EXTENDED" | awk '{ print $1, $3, $4 }'; }

rm -rf "$work"
mkdir -p "$work"
run plugin SERVER=10.11
run plugin SERVER=11.8
new=$(prefix_of 11.8)
data=$work/server
stop_all() {
  local series folder
  for series in 10.11 11.8; do
    for folder in "$data" "$work/replica"; do
      make stop SERVER=$series DATA="$folder" >>"$work/log" 2>&1 </dev/null || true
    done
  done
}
trap stop_all EXIT
printf '[mariadbd]\nlog_bin=log\nserver_id=1\nbinlog_format=ROW\n' >"$work/primary.cnf"
printf '[mariadbd]\nserver_id=2\n' >"$work/replica.cnf"

run server SERVER=10.11 DATA="$data" CNF="$work/primary.cnf"
sql "$data" <<'SQL'
CREATE TABLE texts (id INT PRIMARY KEY, a VARCHAR(30) CHARACTER SET latin1 COLLATE latin1_swedish_ci,
  b VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, c VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci,
  d CHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_nopad_ci, e VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  KEY (a), KEY (b), KEY (c), KEY (d), KEY (e)) ENGINE=TidesDB;
INSERT INTO texts SELECT seq, w, w, w, w, w FROM (SELECT seq, CONCAT(ELT(1 + seq % 9, 'a', 'Ä', 'ß', 'ss', 'straße ', 'Éé', 'zz', ' ', 'o'),
  seq DIV 20) AS w FROM seq_1_to_300) x;
CREATE TABLE kinds (u UUID PRIMARY KEY, i INET6, t TIMESTAMP(3) NULL, n DECIMAL(20, 5), f DOUBLE, KEY (i), KEY (t), KEY (n, f)) ENGINE=TidesDB;
INSERT INTO kinds SELECT CONCAT('123e4567-e89b-12d3-a456-4266554400', LPAD(seq, 2, '0')), CONCAT('::', seq), '2000-06-01' + INTERVAL seq MONTH,
  seq / 7, 1 / seq FROM seq_1_to_20;
CREATE TABLE parts (id INT PRIMARY KEY, v INT AS (id * 2) VIRTUAL, KEY (v)) ENGINE=TidesDB PARTITION BY HASH (id) PARTITIONS 4;
INSERT INTO parts (id) SELECT seq FROM seq_1_to_1000;
CREATE TABLE longs (id INT PRIMARY KEY, l TEXT, UNIQUE (l)) ENGINE=TidesDB;
INSERT INTO longs SELECT seq, REPEAT(seq, 3000) FROM seq_1_to_9;
CREATE TABLE hidden (b INT, KEY (b)) ENGINE=TidesDB;
INSERT INTO hidden SELECT seq % 4 FROM seq_1_to_12;
ALTER TABLE hidden ADD COLUMN c INT DEFAULT 7, ALGORITHM=INSTANT;
CREATE TABLE versioned (id INT PRIMARY KEY, v INT) ENGINE=TidesDB WITH SYSTEM VERSIONING;
INSERT INTO versioned VALUES (1, 1), (2, 2);
UPDATE versioned SET v = 3 WHERE id = 1;
CREATE TABLE xa (id INT PRIMARY KEY) ENGINE=TidesDB;
INSERT INTO xa VALUES (1);
XA START 'kept'; INSERT INTO xa VALUES (2); XA END 'kept'; XA PREPARE 'kept';
SQL
before=$(contents "$data")
weights "$data" >"$work/weights-10.11"
is "10.11 finds its own tables whole" "$(printf 'test.%s status OK\n' texts kinds parts longs hidden xa versioned)" "$(check "$data" versioned)"

# --- in place ---
run stop SERVER=10.11 DATA="$data"
cp -a "$data" "$work/kept"
run server SERVER=11.8 DATA="$data" CNF="$work/primary.cnf"
weights "$data" | join - "$work/weights-10.11" >"$work/weights"
is "the weights of a text are the same in each collation" "" "$(awk '$2 != $3' "$work/weights")"
is "in some hundred of them" yes "$([ "$(wc -l <"$work/weights")" -gt 200 ] && echo yes || wc -l <"$work/weights")"
is "11.8 finds the rows of 10.11, by each index" "$before" "$(contents "$data")"
"$new/bin/mariadb-upgrade" --no-defaults --skip-ssl -uroot -S "$data/mysqld.sock" >>"$work/log" 2>&1
is "11.8 finds the transaction that 10.11 prepared" kept "$(sql "$data" -e 'XA RECOVER' | cut -f4)"
sql "$data" -e "XA COMMIT 'kept'; ALTER TABLE versioned FORCE"
is "and commits it" "1 2" "$(sql "$data" -e 'SELECT * FROM xa ORDER BY id' | xargs)"
is "the rows of a versioned table, after ALTER ... FORCE" "1 3 2 2" "$(sql "$data" -e 'SELECT id, v FROM versioned ORDER BY id' | xargs)"
sql "$data" <<'SQL'
ALTER TABLE kinds ADD COLUMN later INT DEFAULT 5, ALGORITHM=INSTANT;
ALTER TABLE texts ADD KEY later (b, c), LOCK=NONE;
UPDATE texts SET c = CONCAT(c, '!') WHERE id % 3 = 0;
DELETE FROM texts WHERE b LIKE 'zz%';
INSERT INTO longs VALUES (10, REPEAT(10, 3000));
SQL
is "what 11.8 changes is whole" "$(printf 'test.%s status OK\n' texts kinds parts longs hidden xa versioned)" "$(check "$data" versioned)"
is "a long UNIQUE of 10.11 holds" "ERROR 1062" "$(sql "$data" -e 'INSERT INTO longs VALUES (11, REPEAT(7, 3000))' 2>&1 | grep -o 'ERROR 1062')"
run stop SERVER=11.8 DATA="$data"

# --- by replication ---
rm -rf "$data"
mv "$work/kept" "$data"
port=$((20000 + RANDOM % 10000))
run server SERVER=10.11 DATA="$data" CNF="$work/primary.cnf" PORT=$port
run server SERVER=11.8 DATA="$work/replica" CNF="$work/replica.cnf"
sql "$data" -e "XA ROLLBACK 'kept'; CREATE USER r@'127.0.0.1' IDENTIFIED BY 'r'; GRANT REPLICATION SLAVE ON *.* TO r@'127.0.0.1'"
sql "$work/replica" -e "CHANGE MASTER TO master_host='127.0.0.1', master_port=$port, master_user='r', master_password='r',
  master_ssl_verify_server_cert=0, master_log_file='log.000001', master_log_pos=4; START SLAVE"
sql "$data" <<'SQL'
UPDATE texts SET b = CONCAT(b, '?') WHERE id % 5 = 0;
DELETE FROM hidden WHERE b = 2;
BEGIN; INSERT INTO parts (id) VALUES (5000), (5001); UPDATE parts SET id = 6000 WHERE id = 5000; COMMIT;
XA START 'x'; INSERT INTO xa VALUES (9); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x';
SQL
caught_up=$(sql "$data" -e 'SELECT @@gtid_binlog_pos')
is "the replica of 11.8 comes to the end" 0 "$(sql "$work/replica" -e "SELECT MASTER_GTID_WAIT('$caught_up', 60)")"
is "with the rows of the primary of 10.11" "$(contents "$data")" "$(contents "$work/replica")"
is "and tables that are whole" "$(printf 'test.%s status OK\n' texts kinds parts longs hidden xa versioned)" "$(check "$work/replica" versioned)"
[ "$failed" = 0 ] || sql "$work/replica" -e 'SHOW SLAVE STATUS\G' | grep -E 'Error|Running' || true

echo "upgrade: $passed passed, $failed failed"
[ "$failed" = 0 ]
