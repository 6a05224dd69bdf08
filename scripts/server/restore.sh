#!/bin/bash
# make restore FROM=backup [DATA=dir]: verifies a backup that SET GLOBAL tidesdb_backup_dir or
# tidesdb_checkpoint_dir took, and restores it into DATA: into the data directory of an ended server without
# TidesDB tables, or into a new one. `make server DATA=dir` starts it then.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
. "$here/instance.sh"
. "$here/options.sh"
. "$here/datadir.sh"

[ -n "${FROM:-}" ] || fail "which backup? make restore FROM=directory [DATA=dir]"
[ -d "$FROM" ] || fail "there is no directory FROM=$FROM"
FROM=$(realpath -- "$FROM")
mkdir -p "$DATA/tmp"
exec 9>"$DATA/lock"
flock 9
[ -z "$(server_pid)" ] || fail "a server runs on $DATA: make stop DATA=$DATA first"
# Before anything is made.
"$TIDESDB_ADMIN" backup show "$FROM" >/dev/null
write_options "" "$OPTIONS"
fresh=
[ -e "$DATA/data" ] || fresh=1
make_datadir
if ! "$TIDESDB_ADMIN" backup restore "$FROM" --data-dir "$DATA/data"; then
  # What was made for it goes; a store that was begun is not opened, and the message of the next restore names it.
  [ -z "$fresh" ] || rm -rf "$DATA/data"
  exit 1
fi
say "restored $FROM into $DATA: make server DATA=$DATA starts it"
