#!/bin/bash
# make bench-engine: RocksDB for the laboratory's comparison of bare engines, and what makes its bindings, from
# the system's own apt; then prints where they are, for the shell that builds (eval "$(scripts/setup/rocksdb.sh)").
# Debian 12 has RocksDB 7.8, Debian 13 has 9.10: the bindings are made from the header that is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./where.sh
. ./say.sh
. ./system-packages.sh

ROCKSDB_PACKAGES=(librocksdb-dev libclang-dev)

main() {
  local missing
  mkdir -p "$LOGS"
  missing=$(missing_packages "${ROCKSDB_PACKAGES[@]}")
  if [ -n "$missing" ]; then
    logged apt-update "refreshing the package lists" as_root apt-get update -q
    # shellcheck disable=SC2086  # a list of words
    logged apt-rocksdb "installing $(echo $missing)" \
      as_root env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -q --no-install-recommends $missing
  fi
  printf 'export ROCKSDB_LIB_DIR=/usr/lib/%s ROCKSDB_INCLUDE_DIR=/usr/include\n' "$MULTIARCH"
}

main "$@"
