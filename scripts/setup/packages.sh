#!/bin/bash
# packages.sh PACKAGE...: what only some targets need, by the system's own apt. Installs only what is missing; needs root
# or sudo only then.
# packages.sh generating: what a server without packages of its headers needs, as `make setup` would install it.
# packages.sh browser: Debian's Chromium and Node, and a font, which look at the report's pages in `make test-report`.
# packages.sh galera: Galera's provider for `make test-galera`; prints the path of the library. It knows no server's
#   version: the system's own serves the servers of both releases.
# packages.sh promtool FOLDER: the system's promtool for `make test-alerts`, or that of Debian's package prometheus, unpacked
#   in FOLDER: no daemon is installed; prints the path of the program.
# packages.sh rocksdb debian|source: RocksDB for the laboratory's comparison of bare engines; prints what the shell that
#   builds must set (eval "$(scripts/setup/packages.sh rocksdb debian)").
#   debian: the system's library, 7.8 in Debian 12 and 9.10 in 13; the bindings are made from its header. Debian
#   builds it with assertions, which cost it time. source: nothing is set, and the crate compiles its own source.
#
# setup.sh and others source it for its functions; they have where.sh and say.sh already.

BUILD_PACKAGES=(
  gcc g++ make perl patchelf dpkg-dev xz-utils util-linux sysbench procps python3 debian-archive-keyring
)
# For a server whose source is configured to generate its headers.
GENERATING_PACKAGES=(
  cmake bison libncurses-dev libssl-dev zlib1g-dev libpcre2-dev libfmt-dev libxml2-dev
  libcurl4-openssl-dev libgnutls28-dev libaio-dev
)

missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null |
    sed -n 's/^installed //p')
  printf '%s\n' "$@" | grep -vxF -f <(printf '%s\n' "$installed") || true
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "packages are missing and this is not root: run '$*' as root, then again"
  fi
}

rust_is_recent() {
  local have
  have=$(cargo --version 2>/dev/null | cut -d' ' -f2) && [ -n "$have" ] &&
    printf '%s\n%s\n' "$RUST_MINIMUM" "$have" | sort -C -V
}

# Debian 12's own Rust is too old; its rustc-web packages follow the browsers' needs.
rust_packages() {
  rust_is_recent && return
  if apt-cache show rustc-web >/dev/null 2>&1; then
    echo cargo-web rustc-web
  else
    echo cargo rustc rustfmt rust-clippy
  fi
}

# install_missing NAME PACKAGE...: those that are not there; NAME names the logs.
install_missing() {
  local name=$1 missing
  shift
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  logged "$name-update" "refreshing the package lists" as_root apt-get update -q
  # shellcheck disable=SC2086  # a list of words
  logged "$name-install" "installing $(echo $missing)" as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends $missing
}

install_system_packages() {
  # Which Rust there is, the package lists say.
  rust_is_recent || logged apt-lists "refreshing the package lists" as_root apt-get update -q
  local wanted=("${BUILD_PACKAGES[@]}")
  [ ${#HEADER_PACKAGES[@]} -gt 0 ] || wanted+=("${GENERATING_PACKAGES[@]}")
  # shellcheck disable=SC2046  # a list of words
  install_missing apt "${wanted[@]}" $(rust_packages)
  # An old archive keyring does not know the suite that MariaDB comes from.
  if ! [ -e "/usr/share/keyrings/debian-archive-$SUITE-stable.gpg" ]; then
    logged apt-keyring "renewing Debian's archive keyring" as_root sh -c \
      'apt-get update -q && apt-get install -y -q --only-upgrade debian-archive-keyring'
  fi
  rust_is_recent || fail "cargo $RUST_MINIMUM or newer is needed, found: $(cargo --version 2>&1)"
}

NODE_MINIMUM=18

node_is_recent() {
  local have
  have=$(node --version 2>/dev/null) && [ "${have//[!0-9.]/}" ] &&
    printf '%s\n%s\n' "$NODE_MINIMUM" "${have#v}" | sort -C -V
}

install_browser() {
  local wanted=(chromium fonts-liberation)
  node_is_recent || wanted+=(nodejs)
  install_missing browser "${wanted[@]}"
  chromium --version >/dev/null 2>&1 || fail "the report is looked at in Chromium, and Debian's does not run here"
  node_is_recent || fail "the report's test needs Node $NODE_MINIMUM or newer, found: $(node --version 2>&1)"
}

install_galera() {
  local provider
  install_missing galera galera-4 rsync >&2
  provider=$(dpkg -L galera-4 | grep '/libgalera_smm\.so$' | head -n 1)
  [ -n "$provider" ] || fail "the package galera-4 has no libgalera_smm.so"
  echo "$provider"
}

unpack_promtool() {
  local folder=$1
  command -v promtool && return
  if [ ! -x "$folder/usr/bin/promtool" ]; then
    mkdir -p "$folder"
    rm -f "$folder"/prometheus_*.deb
    (cd "$folder" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download prometheus)
    dpkg -x "$folder"/prometheus_*.deb "$folder"
  fi
  echo "$folder/usr/bin/promtool"
}

install_rocksdb() {
  case $1 in
    debian)
      install_missing rocksdb librocksdb-dev libclang-dev
      printf 'export ROCKSDB_LIB_DIR=/usr/lib/%s ROCKSDB_INCLUDE_DIR=/usr/include\n' "$MULTIARCH"
      ;;
    source)
      install_missing rocksdb libclang-dev
      printf 'unset ROCKSDB_LIB_DIR ROCKSDB_INCLUDE_DIR\n'
      ;;
    *) fail "RocksDB comes from 'debian' or 'source', not from '$1'" ;;
  esac
}

install_named() {
  cd "$(dirname "${BASH_SOURCE[0]}")"
  . ./where.sh
  . ./say.sh
  mkdir -p "$LOGS"
  case $1 in
    browser | galera) "install_$1" ;;
    generating) install_missing generating "${GENERATING_PACKAGES[@]}" ;;
    promtool) unpack_promtool "$2" ;;
    rocksdb) install_rocksdb "${2:-debian}" ;;
    *) install_missing "$1" "$@" ;;
  esac
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  install_named "$@"
fi
