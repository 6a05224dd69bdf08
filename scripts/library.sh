#!/bin/bash
# library.sh build ARCHIVE DIRECTORY: make library: libtidesdb.a and libtidesdb.so.0 for programs in C and C++, of the
#   archive that cargo built.
# library.sh tools PROGRAM DIRECTORY: tidesdb-admin in DIRECTORY as it is installed below a prefix: bin, share/man,
#   completions.
# library.sh install DIRECTORY-OF-LIBRARIES DIRECTORY-OF-TOOLS, library.sh uninstall: make install, make uninstall: header,
#   libraries, files of pkg-config and CMake, and tidesdb-admin with man pages and completions. PREFIX, LIBDIR and DESTDIR
#   are in the environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
interface=crates/tidesdb-capi
version=$(sed -n 's/^Version: //p' "$interface/tidesdb.pc")
# Where each shell looks for its completions, below share.
completions="bash-completion/completions/tidesdb-admin zsh/site-functions/_tidesdb-admin
  fish/vendor_completions.d/tidesdb-admin.fish"

# Both libraries have the functions of tidesdb.h and no other symbol. So a program may have an allocator or Rust code of
# its own: the engine's mimalloc and standard library are not visible to it, and not in its way.
build() {
  local archive=$1 out=$2 soname=libtidesdb.so.0 library functions
  library=$out/libtidesdb.so.$version
  if [ "$library" -nt "$archive" ] && [ "$library" -nt "$interface/tidesdb.map" ] &&
    [ "$library" -nt scripts/library.sh ]; then
    return 0
  fi
  rm -rf "$out"
  mkdir -p "$out"

  # One object of the members that the functions need; then all but the functions become its own. The names come from the
  # header: nm may have a plugin that does not read this compiler's objects. The bitcode is for the compiler's own linking.
  mapfile -t functions < <(sed -n 's/^[a-z].*[ *]\(tidesdb_[a-z0-9_]*\)(.*/\1/p' "$interface/include/tidesdb.h" |
    sort -u | grep -vxF "$(sed -n 's/^static inline .*[ *]\(tidesdb_[a-z0-9_]*\)(.*/\1/p' "$interface/include/tidesdb.h")")
  [ ${#functions[@]} -gt 80 ] || { echo "only ${#functions[@]} functions were found in tidesdb.h" >&2; exit 1; }
  ld --relocatable --force-group-allocation "${functions[@]/#/--require-defined=}" -o "$out/tidesdb.o" "$archive"
  objcopy --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd \
    --wildcard --keep-global-symbol='tidesdb_*' "$out/tidesdb.o"
  ar rcsD "$out/libtidesdb.a" "$out/tidesdb.o"

  cc -shared -Wl,-soname,$soname -Wl,--version-script="$interface/tidesdb.map" -Wl,--gc-sections \
    -Wl,-z,relro,-z,now -Wl,-z,defs -o "$library" "$out/tidesdb.o" -lpthread -ldl -lm
  rm "$out/tidesdb.o"
  ln -s "libtidesdb.so.$version" "$out/$soname"
  ln -s "$soname" "$out/libtidesdb.so"
}

tools() {
  local program=$1 directory=$2 share=$2.new/share place file
  rm -rf "$directory.new"
  mkdir -p "$directory.new/bin"
  install -m 755 "$program" "$directory.new/bin/"
  "$program" man "$share/man/man1" >/dev/null
  for place in "bash bash-completion/completions/tidesdb-admin" "zsh zsh/site-functions/_tidesdb-admin" \
    "fish fish/vendor_completions.d/tidesdb-admin.fish"; do
    file=$share/${place#* }
    mkdir -p "$(dirname "$file")"
    "$program" completions "${place%% *}" >"$file"
  done
  rm -rf "$directory"
  mv "$directory.new" "$directory"
}

# Sets the folders of an installation.
folders() {
  prefix=${PREFIX:-/usr/local}
  libdir=${LIBDIR:-$prefix/lib}
  for path in "PREFIX=$prefix" "LIBDIR=$libdir"; do
    case ${path#*=} in
    /*) ;;
    *)
      echo "$path is not an absolute path" >&2
      exit 2
      ;;
    esac
  done
  root=${DESTDIR:-}$prefix
  include=$root/include
  lib=${DESTDIR:-}$libdir
}

install_all() {
  folders
  local built=$1 tools=$2 back file
  install -d "$include" "$lib/pkgconfig" "$lib/cmake/tidesdb"
  install -m 644 "$interface/include/tidesdb.h" "$include/"
  # Relative paths: the installation may be moved as a whole.
  back=$(realpath -ms --relative-to="$libdir/pkgconfig" "$prefix")
  sed -e "s|^prefix=.*|prefix=\${pcfiledir}/$back|" \
    -e "s|^libdir=.*|libdir=\${prefix}/$(realpath -ms --relative-to="$prefix" "$libdir")|" \
    "$interface/tidesdb.pc" >"$lib/pkgconfig/tidesdb.pc"
  for file in tidesdb-config tidesdb-config-version; do
    sed -e "s|@INCLUDE@|$(realpath -ms --relative-to="$libdir" "$prefix/include")|" -e "s|@VERSION@|$version|" \
      "$interface/cmake/$file.cmake" >"$lib/cmake/tidesdb/$file.cmake"
  done
  chmod 644 "$lib/pkgconfig/tidesdb.pc" "$lib"/cmake/tidesdb/*
  install -m 644 "$built/libtidesdb.a" "$lib/"
  # A new file takes the name of the old one: programs that run keep theirs.
  install -m 755 "$built/libtidesdb.so.$version" "$lib/libtidesdb.so.$version.new"
  mv -f "$lib/libtidesdb.so.$version.new" "$lib/libtidesdb.so.$version"
  ln -sfn "libtidesdb.so.$version" "$lib/libtidesdb.so.0"
  ln -sfn libtidesdb.so.0 "$lib/libtidesdb.so"
  install -d "$root/bin" "$root/share/man/man1"
  install -m 755 "$tools/bin/tidesdb-admin" "$root/bin/tidesdb-admin.new"
  mv -f "$root/bin/tidesdb-admin.new" "$root/bin/tidesdb-admin"
  install -m 644 "$tools"/share/man/man1/tidesdb-admin*.1 "$root/share/man/man1/"
  for file in $completions; do
    install -D -m 644 "$tools/share/$file" "$root/share/$file"
  done
  update_loader
}

uninstall_all() {
  folders
  rm -f "$include/tidesdb.h" "$lib/pkgconfig/tidesdb.pc" "$lib/libtidesdb.a" \
    "$lib"/cmake/tidesdb/tidesdb-config{,-version}.cmake \
    "$lib/libtidesdb.so" "$lib/libtidesdb.so.0" "$lib/libtidesdb.so.$version" "$root/bin/tidesdb-admin" \
    "$root"/share/man/man1/tidesdb-admin*.1
  for file in $completions; do rm -f "$root/share/$file"; done
  update_loader
}

# The loader's cache knows the directories of the system. With DESTDIR the files are not in their place yet.
update_loader() {
  if [ -z "${DESTDIR:-}" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi
}

case ${1-} in
  build | tools) "$@" ;;
  install | uninstall) "$1_all" "${@:2}" ;;
  *)
    echo "usage: $0 build ARCHIVE DIRECTORY | tools PROGRAM DIRECTORY | install DIRECTORY DIRECTORY | uninstall" >&2
    exit 2
    ;;
esac
