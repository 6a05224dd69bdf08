#!/bin/bash
# make install, make uninstall: header, libraries, pkg-config's file, and tidesdb-admin with man pages and completions.
# install.sh install DIRECTORY-OF-LIBRARIES DIRECTORY-OF-TOOLS, or install.sh uninstall. PREFIX and DESTDIR are in the environment.
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
# Where each shell looks for them, below share.
completions="bash-completion/completions/tidesdb-admin zsh/site-functions/_tidesdb-admin
  fish/vendor_completions.d/tidesdb-admin.fish"

case ${1-} in
install)
  built=$2
  tools=$3
  install -d "$root/include" "$root/lib/pkgconfig"
  install -m 644 "$interface/include/tidesdb.h" "$root/include/"
  install -m 644 "$interface/tidesdb.pc" "$root/lib/pkgconfig/"
  install -m 644 "$built/libtidesdb.a" "$root/lib/"
  # A new file takes the name of the old one: programs that run keep theirs.
  install -m 755 "$built/libtidesdb.so.$version" "$root/lib/libtidesdb.so.$version.new"
  mv -f "$root/lib/libtidesdb.so.$version.new" "$root/lib/libtidesdb.so.$version"
  ln -sfn "libtidesdb.so.$version" "$root/lib/libtidesdb.so.0"
  ln -sfn libtidesdb.so.0 "$root/lib/libtidesdb.so"
  install -d "$root/bin" "$root/share/man/man1"
  install -m 755 "$tools/bin/tidesdb-admin" "$root/bin/tidesdb-admin.new"
  mv -f "$root/bin/tidesdb-admin.new" "$root/bin/tidesdb-admin"
  install -m 644 "$tools"/share/man/man1/tidesdb-admin*.1 "$root/share/man/man1/"
  for file in $completions; do
    install -D -m 644 "$tools/share/$file" "$root/share/$file"
  done
  ;;
uninstall)
  rm -f "$root/include/tidesdb.h" "$root/lib/pkgconfig/tidesdb.pc" "$root/lib/libtidesdb.a" \
    "$root/lib/libtidesdb.so" "$root/lib/libtidesdb.so.0" "$root/lib/libtidesdb.so.$version" "$root/bin/tidesdb-admin" \
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
