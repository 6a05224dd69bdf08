#!/bin/bash
# plugins.sh SERVERS OUT: the plugin for each server of the list (servers.sh), tried on that server, as
# OUT/VERSION/ha_tidesdb.so; and OUT/absent/ha_tidesdb.so for all other servers.
set -euo pipefail
servers=$(realpath "$1") out=$2
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
jobs=${JOBS:--j2}

builds() { awk '$2 != "-" { print $1, $2 }' "$servers"; }

# names PREFIX SO: the variables that the server has with the plugin, without their first word.
names() {
  "$1/bin/mariadbd" --no-defaults --basedir="$1" --plugin-dir="$(realpath "$(dirname "$2")")" \
    --plugin-maturity=experimental --plugin-load-add="$(basename "$2")" --verbose --help 2>/dev/null |
    sed -nE 's/^  --tidesdb-([a-z0-9-]+).*/\1/p' | tr - _
}

mkdir -p "$out/absent"
: >"$out/absent/all"
while read -r version prefix; do
  make --no-print-directory -f plugin/build.mk $jobs PREFIX="$prefix" BUILD="$out/$version" </dev/null
  scripts/plugin/loads.sh "$prefix" "$(realpath "$out/$version/ha_tidesdb.so")" </dev/null
  names "$prefix" "$out/$version/ha_tidesdb.so" >>"$out/absent/all"
  # The oldest server's headers serve all newer ones too.
  oldest=${oldest:-$prefix}
done < <(builds | sort -V)

sort -u "$out/absent/all" | sed 's/.*/SETTING(&)/' >"$out/absent/names.h"
[ "$(wc -l <"$out/absent/names.h")" -gt 50 ] || { echo "the engine's variables were not found" >&2; exit 1; }
headers=$oldest/include/server
release=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | sed -n 1p)
cc -shared -fPIC -O2 -g -Wall -Wextra -fstack-protector-strong -D_FORTIFY_SOURCE=2 -Wl,-z,relro,-z,now \
  -DMYSQL_DYNAMIC_PLUGIN -DRELEASE="\"$release\"" -DBUILDS="\"$(builds | sort -V | awk '{ printf "%s%s", sep, $1; sep = ", " }')\"" \
  -I"$out/absent" -isystem "$headers/generated" -isystem "$headers/include" \
  -o "$out/absent/ha_tidesdb.so" debian/plugin/absent.c
