#!/bin/bash
# make shell [DATA=dir]: a client on the server of DATA, as root, over the socket.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/instance.sh"

[ -n "$(server_pid)" ] || fail "none runs on $DATA: make server DATA=$DATA starts one"
exec "$PREFIX/bin/mariadb" --no-defaults --user=root --socket="$SOCKET" \
  --default-character-set=utf8mb4
