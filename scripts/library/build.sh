#!/bin/bash
# make library: libtidesdb.a and libtidesdb.so.0 for programs in C and C++, of the archive that cargo built.
# build.sh ARCHIVE DIRECTORY
#
# Both have the functions of tidesdb.h and no other symbol. So a program may have an allocator or Rust code of its
# own: the engine's mimalloc and standard library are not visible to it, and not in its way.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
archive=$1 out=$2
interface=crates/tidesdb-capi
version=$(sed -n 's/^Version: //p' "$interface/tidesdb.pc")
soname=libtidesdb.so.0

library=$out/libtidesdb.so.$version
if [ "$library" -nt "$archive" ] && [ "$library" -nt "$interface/tidesdb.map" ] &&
  [ "$library" -nt scripts/library/build.sh ]; then
  exit 0
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
