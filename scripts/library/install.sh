#!/bin/bash
# make install, make uninstall: header, libraries and pkg-config's file.
# install.sh install DIRECTORY-OF-LIBRARIES, or install.sh uninstall. PREFIX and DESTDIR are in the environment.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
prefix=${PREFIX:-/usr/local}
case $prefix in
/*) ;;
*)
  echo "PREFIX=$prefix is not an absolute path" >&2
  exit 2
  ;;
esac
root=${DESTDIR:-}$prefix
interface=crates/tidesdb-capi
version=$(sed -n 's/^Version: //p' "$interface/tidesdb.pc")

case ${1-} in
install)
  built=$2
  install -d "$root/include" "$root/lib/pkgconfig"
  install -m 644 "$interface/include/tidesdb.h" "$root/include/"
  install -m 644 "$interface/tidesdb.pc" "$root/lib/pkgconfig/"
  install -m 644 "$built/libtidesdb.a" "$root/lib/"
  # A new file takes the name of the old one: programs that run keep theirs.
  install -m 755 "$built/libtidesdb.so.$version" "$root/lib/libtidesdb.so.$version.new"
  mv -f "$root/lib/libtidesdb.so.$version.new" "$root/lib/libtidesdb.so.$version"
  ln -sfn "libtidesdb.so.$version" "$root/lib/libtidesdb.so.0"
  ln -sfn libtidesdb.so.0 "$root/lib/libtidesdb.so"
  ;;
uninstall)
  rm -f "$root/include/tidesdb.h" "$root/lib/pkgconfig/tidesdb.pc" "$root/lib/libtidesdb.a" \
    "$root/lib/libtidesdb.so" "$root/lib/libtidesdb.so.0" "$root/lib/libtidesdb.so.$version"
  ;;
*)
  echo "usage: $0 install DIRECTORY | uninstall" >&2
  exit 2
  ;;
esac
# The loader's cache knows the directories of the system. With DESTDIR the files are not in their place yet.
if [ -z "${DESTDIR:-}" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi
