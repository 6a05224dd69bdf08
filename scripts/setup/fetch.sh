# Brings packages and sources into $DOWNLOADS, each file checked against its SHA-256.
# Sourced, never run. apt checks the archive's signature; the sums that the signed lists
# name are checked here again, because apt takes a file that lies there by its size alone.

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
