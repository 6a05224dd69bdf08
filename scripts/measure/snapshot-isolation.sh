#!/bin/bash
# make bench-isolation [ROUNDS=5] [SECONDS_EACH=10]: sysbench's oltp_read_write over 2,000 rows with keys by
# pareto at REPEATABLE READ, with snapshot isolation ON and OFF, TidesDB and InnoDB in one server, in turn.
# Without a sync at commit. Conflicts (1020, 1213, 1205) are repeated by sysbench and counted.
set -euo pipefail
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-10}
threads=${THREADS:-8}
socket=$DATA/mysqld.sock
sql() { "$MARIADB_PREFIX/bin/mariadb" --no-defaults -u root -S "$socket" -N -B -e "$1"; }

load() {
  sysbench oltp_read_write --db-driver=mysql --mysql-socket="$socket" --mysql-user=root --mysql-db="$1" --tables=1 \
    --table-size=2000 --threads="$threads" --rand-type=pareto --mysql-storage-engine="$1" \
    --mysql-ignore-errors=1020,1205,1213 --time="$seconds" --report-interval=0 "$2"
}

for engine in tidesdb innodb; do
  sql "DROP DATABASE IF EXISTS $engine; CREATE DATABASE $engine"
  load "$engine" prepare >/dev/null
done
printf 'round engine   isolates  transactions/s  refused/s\n'
for round in $(seq "$rounds"); do
  for engine in tidesdb innodb; do
    for isolates in ON OFF; do
      sql "SET GLOBAL tidesdb_snapshot_conflicts=$isolates, GLOBAL innodb_snapshot_isolation=$isolates"
      load "$engine" run | awk -v round="$round" -v engine="$engine" -v isolates="$isolates" '
        { gsub(/[()]/, "") }
        $1 == "transactions:" { done = $3 }
        $1 == "ignored" { refused = $4 }
        END { printf "%-5d %-8s %-9s %14.1f %10.1f\n", round, engine, isolates, done, refused }'
    done
  done
done | tee "$DATA/rounds.txt"
printf '\nmedians\n'
for engine in tidesdb innodb; do
  for isolates in ON OFF; do
    awk -v engine="$engine" -v isolates="$isolates" '$2 == engine && $3 == isolates { print $4 }' "$DATA/rounds.txt" |
      sort -n | awk -v name="$engine $isolates" '{ v[NR] = $1 }
        END { printf "%-13s %8.0f (%.0f - %.0f)\n", name, v[int((NR + 1) / 2)], v[1], v[NR] }'
  done
done
