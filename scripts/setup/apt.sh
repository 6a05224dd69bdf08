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
    -o Dir::Cache::pkgcache="$DOWNLOADS/lists.cache" -o Dir::Cache::srcpkgcache= \
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
  # shellcheck source=/dev/null
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
  rm -f "$DOWNLOADS/lists.cache"
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

# --- fetching ---
#
# Packages and sources come into $DOWNLOADS, each file checked against its SHA-256. apt checks the archive's signature;
# the sums that the signed lists name are checked here again, because apt takes a file that lies there by its size alone.

PACKAGES=(
  mariadb-server mariadb-client mariadb-plugin-rocksdb mariadb-plugin-spider
  mariadb-backup mariadb-test mariadb-test-data
)

# Prints "sha256  name" for each file that apt would fetch, from the signed lists.
sums_of_uris() {
  sed -n "s/^'[^']*' \([^ ]*\) [0-9]* SHA256:\([0-9a-f]*\)\$/\2  \1/p"
}

install_command() {
  private_apt apt-get -y --no-install-recommends "$@" install "${PACKAGES[@]}"
}

# Megabytes of all that apt would fetch.
size_of_fetch() {
  install_command --print-uris -o Dir::Cache::archives="$DOWNLOADS/lists" |
    sed -n "s/^'[^']*' [^ ]* \([0-9]*\) SHA256:.*/\1/p" |
    awk '{ sum += $1 } END { printf "%.0f\n", sum / 1000000 }'
}

# Removes every listed file whose sum is wrong; true when all are there and right.
verify_files() {
  local folder=$1 sums=$2 bad
  (
    cd "$folder" || exit 1
    bad=$(sha256sum --check --quiet "$sums" 2>/dev/null | sed -n 's/: FAILED.*//p')
    [ -z "$bad" ] && exit 0
    printf '%s\n' "$bad" | while read -r name; do
      [ -e "$name" ] && say "$name is not the file that was signed: fetching it again" &&
        rm -f "$name"
    done
    exit 1
  )
}

# fetch_verified FOLDER SUMS COMMAND...: COMMAND fetches into FOLDER; three tries.
fetch_verified() {
  local folder=$1 sums=$2 try
  shift 2
  for try in 1 2 3; do
    if verify_files "$folder" "$sums"; then return 0; fi
    "$@" || echo "try $try failed"
  done
  verify_files "$folder" "$sums"
}

fetch_packages() {
  # Listed against an empty folder: apt leaves out the files that it takes for fetched.
  install_command --print-uris -o Dir::Cache::archives="$DOWNLOADS/lists" |
    sums_of_uris >"$DOWNLOADS/archives.sums"
  [ -s "$DOWNLOADS/archives.sums" ] || fail "apt names no packages to fetch"
  fetch_verified "$DOWNLOADS/archives" "$DOWNLOADS/archives.sums" install_command --download-only
}

# header_command FOLDER VERSION OPTION...
header_command() {
  local folder=$1 version=$2
  shift 2
  (cd "$folder" && private_apt apt-get download "$@" "${HEADER_PACKAGES[@]/%/=$version}")
}

# fetch_header_packages VERSION: without their libraries, which no header needs.
fetch_header_packages() {
  mkdir -p "$DOWNLOADS/headers"
  header_command "$DOWNLOADS/headers" "$1" --print-uris | sums_of_uris >"$DOWNLOADS/headers.sums"
  [ "$(wc -l <"$DOWNLOADS/headers.sums")" = ${#HEADER_PACKAGES[@]} ] || fail "apt names no ${HEADER_PACKAGES[*]} of $1"
  fetch_verified "$DOWNLOADS/headers" "$DOWNLOADS/headers.sums" header_command "$DOWNLOADS/headers" "$1"
}

# source_command FOLDER VERSION OPTION...
source_command() {
  local folder=$1 version=$2
  shift 2
  (cd "$folder" && private_apt apt-get source "$@" "mariadb=$version")
}

# fetch_source VERSION: the source that the lists name.
fetch_source() {
  rm -rf "$DOWNLOADS/empty"
  mkdir "$DOWNLOADS/empty"
  source_command "$DOWNLOADS/empty" "$1" --print-uris | sums_of_uris >"$DOWNLOADS/source.sums"
  [ -s "$DOWNLOADS/source.sums" ] || fail "apt names no source to fetch"
  fetch_verified "$DOWNLOADS/source" "$DOWNLOADS/source.sums" \
    source_command "$DOWNLOADS/source" "$1" --download-only
}

# The recorded files (recorded/): lines "sha256 size path", the path below a mirror's address.
recorded_files() { grep -E '^[0-9a-f]{64} ' "$1"; }

# fetch_recorded FILE ADDRESS: the packages go into $DOWNLOADS/recorded, which becomes an
# archive for the private apt, so that it finds the rest of their libraries in the lists.
fetch_recorded() {
  local sum size path folder name
  mkdir -p "$DOWNLOADS/recorded" "$DOWNLOADS/source"
  : >"$DOWNLOADS/source.sums"
  while read -r sum size path; do
    name=${path##*/}
    case $name in
      *.deb) folder=$DOWNLOADS/recorded ;;
      *) folder=$DOWNLOADS/source && echo "$sum  $name" >>"$DOWNLOADS/source.sums" ;;
    esac
    echo "$sum  $name" >"$DOWNLOADS/one.sums"
    if verify_files "$folder" "$DOWNLOADS/one.sums"; then continue; fi
    echo "$name ($((size / 1000000)) MB)"
    private_apt /usr/lib/apt/apt-helper download-file "${2%/}/$path" "$folder/$name" "SHA256:$sum" </dev/null ||
      fail "$name cannot be fetched from ${2%/}/${path%/*}, or is not the recorded file"
  done < <(recorded_files "$1")
  (cd "$DOWNLOADS/recorded" && dpkg-scanpackages --multiversion . >Packages)
}
