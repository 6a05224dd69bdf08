#!/bin/bash
# make bench-foreign-keys [ROUNDS=5] [CHILDREN=200000] [PARENTS="1000 1000000"] [SOURCE=table]: INSERT ... SELECT of many
# children, with one and three foreign keys against the same tables without them, on TidesDB and InnoDB in one server,
# in turn. The references come in random order and in the order of the parents. The figure is the CPU time of the server's
# thread for the statement, COMMIT included (schedstat): background threads and waits are not in it. Logs are not synced.
# SOURCE=sequence takes the rows from seq_1_to_N in place of a table of the same engine.
set -euo pipefail
rounds=${ROUNDS:-5}
children=${CHILDREN:-200000}
sizes=${PARENTS:-1000 1000000}
source=${SOURCE:-table}
socket=$DATA/mysqld.sock
process=$(cat "$DATA/mysqld.pid")

coproc CLIENT { exec "$MARIADB_PREFIX/bin/mariadb" --no-defaults -u root -S "$socket" -N -B --unbuffered 2>&1; }
# ask STATEMENTS: the last line that they print before a mark.
ask() {
  local line
  answer=
  printf '%s;\nSELECT "asked";\n' "$1" >&"${CLIENT[1]}"
  while IFS= read -r line <&"${CLIENT[0]}"; do
    case $line in
      asked) return ;;
      ERROR*) echo "$line" >&2 && exit 1 ;;
    esac
    answer=$line
  done
  exit 1
}

cpu() { cut -d ' ' -f 1 "/proc/$process/task/$thread/schedstat"; }

# reference SHIFT: the expression of one, in the order that is measured.
reference() {
  case $order in
    random) echo "1 + (seq * 2654435761 + $1) % $parents" ;;
    sorted) echo "1 + (seq - 1) * $parents DIV $children" ;;
  esac
}

columns='id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, c INT NOT NULL, v INT NOT NULL'
keys=('' ', KEY (a)' '' ', KEY (a), KEY (b), KEY (c)')
foreign=('' ', FOREIGN KEY (a) REFERENCES pa (id)' ''
  ', FOREIGN KEY (a) REFERENCES pa (id), FOREIGN KEY (b) REFERENCES pb (id), FOREIGN KEY (c) REFERENCES pc (id)')

# prepare ENGINE: parents and the rows to be inserted.
prepare() {
  ask "CREATE OR REPLACE DATABASE fk_$1; USE fk_$1"
  for parent in pa pb pc; do
    ask "CREATE TABLE $parent (id INT PRIMARY KEY, v INT NOT NULL) ENGINE=$1;
      INSERT INTO $parent SELECT seq, seq FROM seq_1_to_$parents"
  done
  rows="SELECT seq AS id, $(reference 0) AS a, $(reference 977) AS b, $(reference 7919) AS c, seq AS v FROM seq_1_to_$children"
  ask "CREATE TABLE source ($columns) ENGINE=$1; INSERT INTO source $rows"
  ask "SELECT COUNT(*) FROM pa, source WHERE pa.id = source.a"
}

# measure ENGINE COUNT DEFINITION: CPU in ms.
measure() {
  local before from='SELECT * FROM source'
  [ "$source" = table ] || from=$rows
  ask "USE fk_$1; CREATE OR REPLACE TABLE child ($columns$3) ENGINE=$1; DO SLEEP(0.3)"
  before=$(cpu)
  ask "INSERT INTO child $from"
  echo "$parents $order $1 $2 $4 $((($(cpu) - before) / 1000000))"
}

ask 'SELECT TID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()'
thread=$answer
for parents in $sizes; do
  for order in random sorted; do
    for engine in ${ENGINES:-tidesdb innodb}; do prepare "$engine"; done
    for _ in $(seq "$rounds"); do
      for engine in ${ENGINES:-tidesdb innodb}; do
        for count in ${COUNTS:-1 3}; do
          measure "$engine" "$count" "${keys[count]}" without
          measure "$engine" "$count" "${keys[count]}${foreign[count]}" with
        done
      done
    done
  done
done >"$DATA/rounds.txt"
printf 'parents  order   engine   keys  ms without  ms with  ratio (spread)\n'
awk '{ cell = $1 " " $2 " " $3 " " $4
    if (!(cell in rounds)) order[++cells] = cell
    if ($5 == "without") { without[cell, ++rounds[cell]] = $6 } else { with[cell, rounds[cell]] = $6 } }
  function sort(v, n,  i, j, x) { for (i = 2; i <= n; i++) { x = v[i]
      for (j = i - 1; j > 0 && v[j] > x; j--) v[j + 1] = v[j]
      v[j + 1] = x } }
  END { for (c = 1; c <= cells; c++) { cell = order[c]; n = rounds[cell]
      for (i = 1; i <= n; i++) { a[i] = without[cell, i]; b[i] = with[cell, i]; r[i] = b[i] / a[i] }
      sort(a, n); sort(b, n); sort(r, n); m = int((n + 1) / 2); split(cell, name)
      printf "%-8s %-7s %-8s %4d %11d %8d  %.2f (%.2f to %.2f)\n", name[1], name[2], name[3], name[4], a[m], b[m],
        r[m], r[1], r[n] } }' "$DATA/rounds.txt"
