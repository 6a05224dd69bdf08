# Makes $DATA/data on the first start. Sourced by start.

# Options that InnoDB settles when it makes its files: with one of them the template
# does not fit, and the directory is bootstrapped with them.
SETTLED_AT_BIRTH='^(loose[-_])?innodb[-_](page[-_]size|data[-_]file[-_]path|data[-_]home[-_]dir|log[-_]group[-_]home[-_]dir|undo[-_]directory|undo[-_]tablespaces|checksum[-_]algorithm)|^lower[-_]case[-_]table[-_]names'

make_datadir() {
  [ ! -d "$DATA/data/mysql" ] || return 0
  [ ! -e "$DATA/data" ] || rmdir "$DATA/data" 2>/dev/null ||
    fail "$DATA/data is there but holds no MariaDB data directory"
  local fresh=$DATA/data.new option settled=()
  rm -rf "$fresh"
  while IFS= read -r option; do
    settled+=("--$(sed 's/ = "\(.*\)"$/=\1/' <<<"$option")")
  done < <(grep -i -E "$SETTLED_AT_BIRTH" "$OPTIONS")
  if [ ${#settled[@]} = 0 ]; then
    cp -a --reflink=auto --sparse=always "$PREFIX/template" "$fresh"
  else
    "$PREFIX/bin/mariadb-install-db" --no-defaults "${settled[@]}" --basedir="$PREFIX" \
      --datadir="$fresh" --user="$(id -un)" --skip-test-db --skip-name-resolve \
      --auth-root-authentication-method=normal >>"$ERROR_LOG" 2>&1 ||
      fail "the data directory could not be made, see $ERROR_LOG"
    mkdir -p "$fresh/test"
  fi
  mv "$fresh" "$DATA/data"
  say "made a data directory in $DATA/data"
}
