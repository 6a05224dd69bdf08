# Brings MariaDB's packages and source into $DOWNLOADS through an apt of our own,
# so that neither the system's package lists nor its installed packages change.
# Sourced, never run. apt checks the archive's signature; the sums that the signed
# lists name are checked here again for every file, because apt takes a file that
# already lies there by its size alone.

PACKAGES=(
  mariadb-server mariadb-client mariadb-plugin-rocksdb mariadb-plugin-spider
  mariadb-backup mariadb-test mariadb-test-data
)

# The mirror is the one that this system uses for its own release.
system_mirror() {
  local codename
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  apt-get update --print-uris 2>/dev/null |
    sed -n "s|^'\(.*\)/dists/$codename/InRelease'.*|\1|p" | sed -n 1p
}

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
    -o Acquire::Languages=none -o Acquire::Retries=3 -o Acquire::ForceHash=SHA256 \
    -o APT::Sandbox::User="$(id -un)" "$@"
}

# name_suite SUITE KIND...: what the private apt reads: binary packages (deb), sources (deb-src).
name_suite() {
  local suite=$1 mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  shift
  mirror=$(system_mirror)
  [ -n "$mirror" ] || fail "no Debian mirror found in this system's apt configuration"
  mkdir -p "$DOWNLOADS/lists/partial" "$DOWNLOADS/archives/partial" "$DOWNLOADS/source"
  : >"$DOWNLOADS/status"
  printf "%s [signed-by=$keyring] $mirror $suite main\n" "$@" >"$DOWNLOADS/sources.list"
}

prepare_private_apt() {
  name_suite "$MARIADB_SUITE" deb deb-src
  printf 'Package: src:mariadb\nPin: version 1:%s-*\nPin-Priority: 1001\n' \
    "$MARIADB_VERSION" >"$DOWNLOADS/preferences"
  private_apt apt-get update -q
  private_apt apt-cache policy mariadb-server | grep "Candidate: 1:$MARIADB_VERSION-" ||
    fail "MariaDB $MARIADB_VERSION is not in $MARIADB_SUITE on this system's mirror"
}

# Prints "sha256  name" for each file that apt would fetch, from the signed lists.
sums_of_uris() {
  sed -n "s/^'[^']*' \([^ ]*\) [0-9]* SHA256:\([0-9a-f]*\)\$/\2  \1/p"
}

install_command() {
  private_apt apt-get -y --no-install-recommends "$@" install "${PACKAGES[@]}"
}

# source_command FOLDER OPTION...: of the exact version, as source packages know no pins.
source_command() {
  local folder=$1 version
  shift
  version=$(private_apt apt-cache policy mariadb-server | sed -n 's/^ *Candidate: //p')
  (cd "$folder" && private_apt apt-get source "$@" "mariadb=$version")
}

# Removes every listed file whose sum is wrong; true when all are there and right.
verify_files() {
  local folder=$1 sums=$2 bad
  (
    cd "$folder" || exit 1
    bad=$(sha256sum --check --quiet "$sums" 2>/dev/null | sed -n 's/: FAILED.*//p')
    [ -z "$bad" ] && exit 0
    printf '%s\n' "$bad" | while read -r name; do
      [ -e "$name" ] && say "$name is not what the archive signed: fetching it again" &&
        rm -f "$name"
    done
    exit 1
  )
}

fetch_packages() {
  # Listed against an empty folder: apt leaves out what it takes for fetched.
  install_command --print-uris -o Dir::Cache::archives="$DOWNLOADS/lists" |
    sums_of_uris >"$DOWNLOADS/archives.sums"
  [ -s "$DOWNLOADS/archives.sums" ] || fail "apt names no packages to fetch"
  local try
  for try in 1 2 3; do
    verify_files "$DOWNLOADS/archives" "$DOWNLOADS/archives.sums" && return
    install_command --download-only || echo "try $try failed"
  done
  verify_files "$DOWNLOADS/archives" "$DOWNLOADS/archives.sums"
}

fetch_source() {
  # Listed in an empty folder, as above.
  rm -rf "$DOWNLOADS/empty"
  mkdir "$DOWNLOADS/empty"
  source_command "$DOWNLOADS/empty" --print-uris | sums_of_uris >"$DOWNLOADS/source.sums"
  [ -s "$DOWNLOADS/source.sums" ] || fail "apt names no source to fetch"
  local try
  for try in 1 2 3; do
    verify_files "$DOWNLOADS/source" "$DOWNLOADS/source.sums" && return
    source_command "$DOWNLOADS/source" --download-only || echo "try $try failed"
  done
  verify_files "$DOWNLOADS/source" "$DOWNLOADS/source.sums"
}
