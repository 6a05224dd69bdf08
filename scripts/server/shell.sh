#!/bin/bash
# make shell [DATA=dir]: a client on the server of DATA, as root, over the socket.
# It shows warnings, and the database `test` is open.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/instance.sh"

[ -n "$(server_pid)" ] || fail "none runs on $DATA: make server DATA=$DATA starts one"
# A new server has the database `test`: examples make their tables there.
database=()
[ "$(client -N -B -e "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'test'")" = 0 ] ||
  database=(test)
exec "$PREFIX/bin/mariadb" --no-defaults --skip-ssl --user=root --socket="$SOCKET" \
  --default-character-set=utf8mb4 --show-warnings "${database[@]}"
