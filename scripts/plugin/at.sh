#!/bin/bash
# at.sh REVISION FOLDER: builds the plugin of another revision of this repository into FOLDER, for the server's release
# TIDESDB_SERVER, which the revision must know. The source is a worktree next to it, FOLDER.src: this stays, so the next
# revision compiles less.
set -eu -o pipefail
revision=${1:?'usage: make plugin-at REV=revision'} folder=$2
cd "$(dirname "$0")/../.."
commit=$(git rev-parse --verify "$revision^{commit}") || {
  echo "plugin-at: there is no revision '$revision' here" >&2
  exit 1
}
source=$folder.src
if [ -e "$source/.git" ]; then
  git -C "$source" checkout --quiet --detach "$commit"
else
  mkdir -p "$(dirname "$source")"
  git worktree add --quiet --detach "$source" "$commit"
fi
# Its own make, with nothing of the one that calls.
. scripts/setup/where.sh
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u PREFIX make --no-print-directory -C "$source" plugin SERVER="$SERIES"
mkdir -p "$folder"
cp "$source/$BUILD_FOLDER/ha_tidesdb.so" "$folder/ha_tidesdb.so"
echo "$commit" >"$folder/revision"
echo "plugin-at: $folder/ha_tidesdb.so is of $commit"
