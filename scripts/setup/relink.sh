# Points every program and library in $PREFIX to the loader and libraries next to it:
# they need another C library than the system's. Sourced, never run.

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

# relink_prefix PROGRAM: PROGRAM is the server, below $PREFIX.
relink_prefix() {
  local server=$PREFIX/$1 loader
  loader=$LIBRARIES/$(basename "$(patchelf --print-interpreter "$server")")
  [ -x "$loader" ] || fail "the packages brought no loader at $loader"
  export -f is_elf relink_one
  # The C library and the loader are what the others find; they stay as they are.
  local folder folders=()
  for folder in usr/bin usr/sbin usr/libexec usr/lib usr/share/mariadb/mariadb-test; do
    [ ! -d "$PREFIX/$folder" ] || folders+=("$PREFIX/$folder")
  done
  find "${folders[@]}" -type f ! -name 'libc.so.6' ! -name 'libc-2.*.so' ! -name 'ld-*' -size +1k \
    \( -perm /111 -o -name '*.so*' \) -print0 |
    xargs -0 -P "$(nproc)" -n 8 bash -c \
      'for f in "${@:2}"; do relink_one "$f" "$0" "$1" || exit 255; done' \
      "$loader" "$LIBRARIES"
  # A library that comes from elsewhere would be the system's, of another C library.
  local stranger
  stranger=$("$loader" --list "$server" |
    grep -v -e "$PREFIX" -e linux-vdso || true)
  [ -z "$stranger" ] || fail "${1##*/} would load from outside its prefix: $stranger"
}
