# The packages that the build and the tests need from the system's own apt.
# Sourced, never run. Installs only what is missing; needs root or sudo only then.

BUILD_PACKAGES=(
  gcc g++ make perl patchelf cmake bison dpkg-dev xz-utils util-linux
  libncurses-dev libssl-dev zlib1g-dev libpcre2-dev libfmt-dev libxml2-dev
  libcurl4-openssl-dev libgnutls28-dev libaio-dev
  clang-format clang-tidy sysbench procps python3 debian-archive-keyring
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
  # shellcheck disable=SC2046  # a list of words
  install_missing apt "${BUILD_PACKAGES[@]}" $(rust_packages)
  # An old archive keyring does not know the suite that MariaDB comes from.
  if ! [ -e "/usr/share/keyrings/debian-archive-$SUITE-stable.gpg" ]; then
    logged apt-keyring "renewing Debian's archive keyring" as_root sh -c \
      'apt-get update -q && apt-get install -y -q --only-upgrade debian-archive-keyring'
  fi
  rust_is_recent || fail "cargo $RUST_MINIMUM or newer is needed, found: $(cargo --version 2>&1)"
}
