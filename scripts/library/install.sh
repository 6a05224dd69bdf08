#!/bin/bash
# make install, make uninstall: header, libraries, files of pkg-config and CMake, and tidesdb-admin with man pages and
# completions.
# install.sh install DIRECTORY-OF-LIBRARIES DIRECTORY-OF-TOOLS, or install.sh uninstall. PREFIX, LIBDIR and DESTDIR are in the
# environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
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
interface=crates/tidesdb-capi
version=$(sed -n 's/^Version: //p' "$interface/tidesdb.pc")
# Where each shell looks for them, below share.
completions="bash-completion/completions/tidesdb-admin zsh/site-functions/_tidesdb-admin
  fish/vendor_completions.d/tidesdb-admin.fish"

case ${1-} in
install)
  built=$2
  tools=$3
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
  ;;
uninstall)
  rm -f "$include/tidesdb.h" "$lib/pkgconfig/tidesdb.pc" "$lib/libtidesdb.a" \
    "$lib"/cmake/tidesdb/tidesdb-config{,-version}.cmake \
    "$lib/libtidesdb.so" "$lib/libtidesdb.so.0" "$lib/libtidesdb.so.$version" "$root/bin/tidesdb-admin" \
    "$root"/share/man/man1/tidesdb-admin*.1
  for file in $completions; do rm -f "$root/share/$file"; done
  ;;
*)
  echo "usage: $0 install DIRECTORY DIRECTORY | uninstall" >&2
  exit 2
  ;;
esac
# The loader's cache knows the directories of the system. With DESTDIR the files are not in their place yet.
if [ -z "${DESTDIR:-}" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi
