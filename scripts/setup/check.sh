# Whether the prefix is whole. Sourced, never run.
#
# The stamp is written last, so a half-made prefix has none. It lists every file with
# its size: what was lost or cut short since shows in a fraction of a second. Files
# that came in addition are nobody's harm.

list_files() {
  find "$PREFIX" -mindepth 1 ! -type d ! -path "$STAMP*" -printf '%s %P\n' | LC_ALL=C sort
}

write_stamp() {
  list_files >"$STAMP.new"
  mv "$STAMP.new" "$STAMP"
}

prefix_is_whole() {
  [ -e "$STAMP" ] || { REASON="no stamp of a finished one"; return 1; }
  local lost
  lost=$(LC_ALL=C comm -23 "$STAMP" <(list_files) | sed -n 1p)
  [ -z "$lost" ] || { REASON="lost or changed: ${lost#* }"; return 1; }
  prefix_works
}

prefix_works() {
  local key
  for key in usr/lib/mysql/plugin/ha_rocksdb.so bin/mariadb-backup bin/mariadb-dump \
    bin/mariadb-binlog bin/mtr include/server/sql/handler.h include/server/sql/lex_hash.h \
    include/server/generated/mysqld_error.h include/server/libmysqlservices.a \
    template/mysql/db.frm template/ibdata1; do
    [ -e "$PREFIX/$key" ] || { REASON="lacks $key"; return 1; }
  done
  "$PREFIX/bin/mariadbd" --no-defaults --version 2>/dev/null | grep -F "Ver $MARIADB_VERSION-" >/dev/null ||
    { REASON="mariadbd does not run"; return 1; }
}
