#!/bin/bash
# rocksdb.sh debian|source: RocksDB for the laboratory's comparison of bare engines. Installs what is missing from
# the system's own apt, then prints what the shell that builds must set (eval "$(scripts/setup/rocksdb.sh debian)").
#
# debian: the system's library, 7.8 in Debian 12 and 9.10 in 13; the bindings are made from its header. Debian
# builds it with assertions, which cost it time. source: nothing is set, and the crate compiles its own source.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./where.sh
. ./say.sh
. ./system-packages.sh

main() {
  local from=${1:-debian} wanted
  case $from in
    debian) wanted=(librocksdb-dev libclang-dev) ;;
    source) wanted=(libclang-dev) ;;
    *) fail "RocksDB comes from 'debian' or 'source', not from '$from'" ;;
  esac
  mkdir -p "$LOGS"
  install_missing rocksdb "${wanted[@]}"
  if [ "$from" = debian ]; then
    printf 'export ROCKSDB_LIB_DIR=/usr/lib/%s ROCKSDB_INCLUDE_DIR=/usr/include\n' "$MULTIARCH"
  else
    printf 'unset ROCKSDB_LIB_DIR ROCKSDB_INCLUDE_DIR\n'
  fi
}

main "$@"
