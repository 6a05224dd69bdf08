#!/bin/bash
# The commands of the README by hand: make server, make shell, make stop. WORK is a directory that may go.
# Ends with a line "server: N passed".
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=${WORK:?"make test-manual sets it"}
rm -rf "$work"
mkdir -p "$work"
export DATA=$work/data CNF='' PORT=
trap '"$repo/scripts/server.sh" stop >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
passed=0

expect() { # expect WHAT TEXT PATTERN
  grep -q -- "$3" <<<"$2" || { printf 'server: %s: no "%s" in\n%s\n' "$1" "$3" "$2" >&2; exit 1; }
  passed=$((passed + 1))
}

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
echo "server: $passed passed"
