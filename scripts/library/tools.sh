#!/bin/bash
# tools.sh PROGRAM DIRECTORY: tidesdb-admin in DIRECTORY as it is installed below a prefix: bin, share/man, completions.
set -euo pipefail
program=$1 directory=$2
rm -rf "$directory.new"
mkdir -p "$directory.new/bin"
install -m 755 "$program" "$directory.new/bin/"
share=$directory.new/share
"$program" man "$share/man/man1" >/dev/null
for place in "bash bash-completion/completions/tidesdb-admin" "zsh zsh/site-functions/_tidesdb-admin" \
  "fish fish/vendor_completions.d/tidesdb-admin.fish"; do
  file=$share/${place#* }
  mkdir -p "$(dirname "$file")"
  "$program" completions "${place%% *}" >"$file"
done
rm -rf "$directory"
mv "$directory.new" "$directory"
