#!/bin/bash
# Installs the library and tidesdb-admin into a directory of its own and builds the C example against it as a stranger does:
# in an empty directory, by pkg-config and by CMake, with the shared library and with the static one; as C and as C++.
# install.sh: called by make test-install.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0

fail() {
  echo "install: $*" >&2
  exit 1
}

pass() {
  passed=$((passed + 1))
  echo "install: $*"
}

make --no-print-directory install DESTDIR="$work/dest" PREFIX=/opt/tides
lib=$work/dest/opt/tides/lib
export PKG_CONFIG_PATH=$lib/pkgconfig

# readelf alone: nm asks plugins of the linker, and an old one does not read what a new compiler wrote.
symbols() { readelf --wide "$@" 2>/dev/null | awk '$5 != "LOCAL" && $7 ~ /^[0-9]+$/ && $4 != "SECTION" { sub(/@.*/, "", $8); print $8 }' | sort -u; }
grep -oE '^[a-z].*\btidesdb_[a-z0-9_]+\(' crates/tidesdb-capi/include/tidesdb.h | grep -v '^static\|^typedef' |
  grep -oE 'tidesdb_[a-z0-9_]+\($' | tr -d '(' | sort -u >"$work/declared"
[ "$(wc -l <"$work/declared")" -gt 80 ] || fail "the header's functions were not found"
symbols --dyn-syms "$lib/libtidesdb.so.0" >"$work/shared"
symbols --syms "$lib/libtidesdb.a" >"$work/static"
for kind in shared static; do
  diff "$work/declared" "$work/$kind" || fail "the $kind library has other symbols than the header has functions"
  pass "the $kind library has the header's functions and no other symbol"
done
readelf -d "$lib/libtidesdb.so" | grep -q 'SONAME.*\[libtidesdb\.so\.0\]' || fail "the soname is not libtidesdb.so.0"
pass "the soname is libtidesdb.so.0"

admin=$work/dest/opt/tides/bin/tidesdb-admin
[ "$("$admin" --version)" = "tidesdb-admin 0.1.0" ] || fail "tidesdb-admin does not say its version"
share=$work/dest/opt/tides/share
for page in tidesdb-admin tidesdb-admin-dump-wal tidesdb-admin-advise; do
  grep -q '^\.SH OPTIONS' "$share/man/man1/$page.1" || fail "there is no man page $page.1"
done
# Each shell that is here reads its file.
bash -c '. "$1" && complete -p tidesdb-admin' - "$share/bash-completion/completions/tidesdb-admin" >/dev/null ||
  fail "bash does not take the completions"
grep -q '#compdef tidesdb-admin' "$share/zsh/site-functions/_tidesdb-admin" || fail "there are no completions for zsh"
grep -q 'complete -c tidesdb-admin' "$share/fish/vendor_completions.d/tidesdb-admin.fish" ||
  fail "there are no completions for fish"
pass "tidesdb-admin has its man pages and completions"

mkdir "$work/fresh"
cp crates/tidesdb-capi/examples/quickstart.c "$work/fresh"
cd "$work/fresh"
# shellcheck disable=SC2046  # lists of words
{
  cc -std=c11 -Wall -Wextra -Werror quickstart.c $(pkg-config --cflags --libs tidesdb) -o shared
  c++ -std=c++17 -Wall -Wextra -Werror -x c++ quickstart.c $(pkg-config --cflags --libs tidesdb) -o shared-cxx
  cc -std=c11 -Wall -Wextra -Werror quickstart.c -static $(pkg-config --static --cflags --libs tidesdb) -o static
}
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.18)
project(fresh C)
find_package(tidesdb 0.1 CONFIG REQUIRED)
add_executable(cmake-shared quickstart.c)
target_link_libraries(cmake-shared tidesdb::tidesdb)
add_executable(cmake-static quickstart.c)
target_link_libraries(cmake-static tidesdb::tidesdb-static)
CMAKE
{ cmake -DCMAKE_PREFIX_PATH="$work/dest/opt/tides" -S . -B cmake && cmake --build cmake; } >cmake.log 2>&1 ||
  { cat cmake.log >&2; fail "CMake does not build with the installed files"; }
cp cmake/cmake-shared cmake/cmake-static .
if readelf -d cmake-static | grep -q 'NEEDED.*tidesdb'; then fail "the static program of CMake asks for the shared library"; fi
readelf -d shared | grep -q 'NEEDED.*\[libtidesdb\.so\.0\]' || fail "the program does not ask for libtidesdb.so.0"
if readelf -d static 2>/dev/null | grep -q NEEDED; then fail "the static program asks for shared libraries"; fi
for program in shared shared-cxx static cmake-shared cmake-static; do
  # One store for all of them: each but the first meets the rows of the one before.
  LD_LIBRARY_PATH=$lib "./$program" "$work/fresh/store" >"$program.out" || fail "$program failed"
  [ "$(tail -n 1 "$program.out")" = closed ] || fail "$program printed: $(cat "$program.out")"
  pass "the program $program runs in a directory of its own"
done
"$admin" stats "$work/fresh/store" >stats.out || fail "tidesdb-admin stats: $(cat stats.out)"
grep -q "^family '" stats.out || fail "tidesdb-admin stats printed: $(cat stats.out)"
pass "tidesdb-admin reads the store that these programs wrote"

cd - >/dev/null
make --no-print-directory uninstall DESTDIR="$work/dest" PREFIX=/opt/tides
left=$(find "$work/dest" ! -type d)
[ -z "$left" ] || fail "uninstall left $left"
pass "uninstall leaves no file"

# As a distribution has it: libraries in a folder of the architecture.
arch=/usr/lib/x86_64-linux-gnu
make --no-print-directory install DESTDIR="$work/arch" PREFIX=/usr LIBDIR=$arch
flags=$(PKG_CONFIG_PATH=$work/arch$arch/pkgconfig pkg-config --cflags --libs tidesdb)
cd "$work/fresh"
# shellcheck disable=SC2086  # a list of words
cc -std=c11 quickstart.c $flags -o arch || fail "pkg-config's file does not find the folder of an architecture"
cmake -DCMAKE_PREFIX_PATH="$work/arch/usr" -Dtidesdb_DIR="$work/arch$arch/cmake/tidesdb" -S . -B cmake-arch >cmake.log 2>&1 &&
  cmake --build cmake-arch >>cmake.log 2>&1 || { cat cmake.log >&2; fail "CMake's file does not find the folder of an architecture"; }
pass "LIBDIR names the folder of the libraries"
echo "install: $passed passed"
