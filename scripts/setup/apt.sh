# An apt of our own, with lists, cache and status in $DOWNLOADS: neither the system's package
# lists nor its installed packages change. It asks the mirrors of the system's configuration.
# Sourced, never run.

# TIDESDB_KEYRING: the keys of a mirror that signs its lists itself.
KEYRING=${TIDESDB_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}
TIMEOUT=${TIDESDB_NET_TIMEOUT:-30} # seconds that a silent mirror gets

private_apt() {
  local program=$1
  shift
  "$program" -o Dir::State="$DOWNLOADS" -o Dir::State::lists="$DOWNLOADS/lists" \
    -o Dir::State::status="$DOWNLOADS/status" -o Dir::Cache="$DOWNLOADS" \
    -o Dir::Cache::archives="$DOWNLOADS/archives" \
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
    -o Dir::Etc::sourcelist="$DOWNLOADS/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::Etc::preferences="$DOWNLOADS/preferences" -o Dir::Etc::preferencesparts="$DOWNLOADS/lists/partial" \
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
    -o Acquire::IndexTargets::deb::CNF::DefaultEnabled=false \
    -o Acquire::Languages=none -o Acquire::Retries=1 -o Acquire::ForceHash=SHA256 \
    -o Acquire::http::Timeout="$TIMEOUT" -o Acquire::https::Timeout="$TIMEOUT" \
    -o APT::Sandbox::User="$(id -un)" "$@"
}

# archives_of SUITE: "ADDRESS SUITE" for SUITE and for each archive that the system reads
# alongside its own release (-updates, -security), by the names that they have for SUITE.
archives_of() {
  local own address release
  own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  apt-get update --print-uris 2>/dev/null |
    sed -n "s|^'\(.*\)/dists/\([^/]*\)/InRelease'.*|\1 \2|p" |
    while read -r address release; do
      case $release in
        "$own" | "$own-updates" | "$own-security") echo "$address $1${release#"$own"}" ;;
        stable | oldstable | testing) echo "$address $1" ;;
        stable-* | oldstable-* | testing-*) echo "$address $1-${release#*-}" ;;
      esac
    done
}

# The address that has SUITE itself, as the system reads its own release from it.
mirror_of() { archives_of "$1" | sed -n "s| $1\$||p" | sed -n 1p; }

# read_lists SUITE KIND...: the private apt's lists of "ADDRESS SUITE" lines on standard
# input: binary packages (deb), sources (deb-src). Only those of SUITE itself must be there.
# $LOCAL_ARCHIVE is a folder of verified packages that counts as one more archive.
read_lists() {
  local suite=$1 address of kind
  shift
  mkdir -p "$DOWNLOADS/lists/partial" "$DOWNLOADS/archives/partial" "$DOWNLOADS/source"
  # A list of another mirror would answer for the one that is asked now.
  find "$DOWNLOADS/lists" -maxdepth 1 -type f -delete
  : >"$DOWNLOADS/status"
  : >"$DOWNLOADS/preferences"
  while read -r address of; do
    for kind; do printf '%s [signed-by=%s] %s %s main\n' "$kind" "$KEYRING" "$address" "$of"; done
  done >"$DOWNLOADS/sources.list"
  [ -z "${LOCAL_ARCHIVE:-}" ] || echo "deb [trusted=yes] copy:$LOCAL_ARCHIVE ./" >>"$DOWNLOADS/sources.list"
  [ -s "$DOWNLOADS/sources.list" ] || fail "this system's apt configuration names no mirror of Debian"
  private_apt apt-get update -q -o Acquire::Check-Valid-Until="${CHECK_VALID_UNTIL:-true}" 2>&1 || true
  find "$DOWNLOADS/lists" -maxdepth 1 -name "*dists_${suite}_main_binary-${ARCH}_Packages*" | grep -q . ||
    fail "the package lists of $suite cannot be read from $(sed -n "s|^deb .*\] \(.*\) $suite main\$|\1|p" "$DOWNLOADS/sources.list" | head -n 1)"
}

# upstream VERSION: 11.8.9 of 1:11.8.9+ds-0+deb13u1.
upstream() { printf '%s\n' "${1#*:}" | grep -oE '^[0-9]+(\.[0-9]+)+'; }

# listed PACKAGE KIND: its versions in the lists, the newest first; KIND is Packages or Sources.
listed() {
  private_apt apt-cache madison "$1" 2>/dev/null |
    sed -n "s/^ *[^ ]* | *\([^ ]*\) | .*$2\$/\1/p" | awk '!seen[$0]++'
}

# prefer VERSION: the version of every package of MariaDB's source that apt installs.
prefer() {
  printf 'Package: src:mariadb\nPin: version %s\nPin-Priority: 1001\n' "$1" >"$DOWNLOADS/preferences"
}
