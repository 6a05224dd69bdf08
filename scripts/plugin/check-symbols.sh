#!/bin/bash
# check-symbols.sh PREFIX SO: every symbol that the plugin leaves open must be one that
# the server or its libraries have. The linker cannot say so (a plugin's symbols come
# from the program that loads it); without this the first to say it is a server's log.
set -euo pipefail
prefix=$1 so=$2
server=$prefix/usr/sbin/mariadbd
libraries=$(dirname "$(find "$prefix/usr/lib/" -maxdepth 2 -name libc.so.6 -print -quit)")

names() { awk '{ sub(/@.*/, "", $NF); print $NF }' | LC_ALL=C sort -u; }

open=$(nm -D --undefined-only "$so" | awk '$1 != "w" && $1 != "v"' | names)
have=$(for file in "$server" "$libraries"/{libc.so.6,libm.so.6,libstdc++.so.6,libgcc_s.so.1} \
  "$libraries"/ld-linux*.so.*; do nm -D --defined-only "$file"; done | names)
unknown=$(LC_ALL=C comm -23 <(printf '%s\n' "$open") <(printf '%s\n' "$have"))
if [ -n "$unknown" ]; then
  echo "$so needs symbols that neither the server nor its libraries have:" >&2
  printf '%s\n' "$unknown" | c++filt | sed 's/^/  /' >&2
  exit 1
fi
