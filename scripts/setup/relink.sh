# Points every program and library in $PREFIX to the loader and libraries beside it:
# they need a newer C library than Debian 12's. Sourced, never run.

is_elf() { [ "$(head -c 4 "$1" | tail -c 3)" = ELF ]; }

relink_one() {
  local file=$1 loader=$2 libraries=$3
  is_elf "$file" 2>/dev/null || return 0
  if patchelf --print-interpreter "$file" >/dev/null 2>&1; then
    patchelf --set-interpreter "$loader" "$file" || return 1
  fi
  # Static programs have no dynamic section and need nothing.
  readelf -d "$file" 2>/dev/null | grep -q NEEDED || return 0
  patchelf --force-rpath --set-rpath "$libraries" "$file"
}

relink_prefix() {
  local loader
  loader=$LIBRARIES/$(basename "$(patchelf --print-interpreter "$PREFIX/usr/sbin/mariadbd")")
  [ -x "$loader" ] || fail "the packages brought no loader at $loader"
  export -f is_elf relink_one
  # The C library and the loader are what the others find; they stay as they are.
  find "$PREFIX"/usr/{bin,sbin,lib} "$PREFIX/usr/share/mariadb/mariadb-test" \
    -type f ! -name 'libc.so.6' ! -name 'ld-linux*' -size +1k \
    \( -perm /111 -o -name '*.so*' \) -print0 |
    xargs -0 -P "$(nproc)" -n 8 bash -c \
      'for f in "${@:2}"; do relink_one "$f" "$0" "$1" || exit 255; done' \
      "$loader" "$LIBRARIES"
  # A library that comes from elsewhere would be the system's, of another C library.
  local stranger
  stranger=$("$loader" --list "$PREFIX/usr/sbin/mariadbd" |
    grep -v -e "$PREFIX" -e linux-vdso || true)
  [ -z "$stranger" ] || fail "mariadbd would load from outside its prefix: $stranger"
}
