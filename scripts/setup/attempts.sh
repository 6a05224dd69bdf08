# The ways to a server, in their order. Sourced by setup.sh, never run.
#
# An attempt brings one version by one way: programs, headers, and the plugin built and loaded.
# It runs in a shell of its own; its failure is one line, and the next attempt follows.

REASONS=() # a line for each way that failed

# attempt WHAT COMMAND...: true when COMMAND came to its end.
attempt() {
  local what=$1 status reason
  shift
  REASON_FILE=$LOGS/reason
  : >"$REASON_FILE"
  # No condition around it: the shell would go on after an error inside.
  set +e
  (
    set -e
    "$@"
  )
  status=$?
  set -e
  reason=$(head -n 1 "$REASON_FILE")
  REASON_FILE=
  TAKEN=$([ "$status" -ne 0 ] || echo yes)
  [ -n "$TAKEN" ] || give_reason "$what: ${reason:-ended with status $status}"
}

give_reason() {
  REASONS+=("$1")
  say "not $1"
}

# Whether this version is the one that was asked for, if one was.
is_asked_for() {
  [ -z "${TIDESDB_MARIADB_VERSION:-}" ] || [ "$TIDESDB_MARIADB_VERSION" = "$1" ] ||
    [ "$TIDESDB_MARIADB_VERSION" = "$(upstream "$1")" ]
}

is_of_series() { case $1. in "$SERIES".*) ;; *) false ;; esac; }

# --- 1: the newest version that the suite's archives list, with its source ---

listed_versions() {
  archives_of "$SUITE" | read_lists "$SUITE" deb deb-src
}

bring_listed() {
  local version=$1
  is_source_listed "$version" || fail "no source of it is listed"
  logged source "fetching MariaDB's source (40 to 120 MB)" fetch_source "$version"
  prefer "$version"
  fetch_programs
  make_prefix
}

is_source_listed() { listed mariadb Sources | grep -qxF "$1"; }

try_listed() {
  local version found=
  attempt "the archives of $SUITE" logged lists "reading the package lists of Debian $SUITE (10 to 30 MB)" listed_versions
  [ -n "$TAKEN" ] || { TAKEN=; return 0; }
  TAKEN=
  for version in $(listed mariadb-server Packages); do
    is_of_series "$(upstream "$version")" || continue
    found=yes
    is_asked_for "$version" || continue
    take_or_attempt "$version" listed bring_listed "$version"
    [ -z "$TAKEN" ] || return 0
  done
  [ -n "$found" ] || give_reason "the archives of $SUITE: they list no MariaDB $SERIES"
  [ -z "$found" ] || [ -z "${TIDESDB_MARIADB_VERSION:-}" ] ||
    listed mariadb-server Packages | grep -qE "^([0-9]+:)?$(sed 's/[.+]/\\&/g' <<<"$TIDESDB_MARIADB_VERSION")([+~-]|\$)" ||
    give_reason "the archives of $SUITE: they list $(listed mariadb-server Packages | xargs), not $TIDESDB_MARIADB_VERSION"
}

# --- 2 and 3: a version recorded in the tree, from the mirror's pool, or from a snapshot ---

# bring_recorded FILE VERSION ADDRESS; standard input: the archives with the other libraries.
bring_recorded() {
  local file=$1 version=$2 address=$3 archives=$4
  : >"$DOWNLOADS/sources.list"
  logged recorded "fetching MariaDB $(upstream "$version") from $(sizes_of "$file") files that the tree records" \
    fetch_recorded "$file" "$address"
  LOCAL_ARCHIVE=$DOWNLOADS/recorded
  logged lists "reading the package lists of Debian $SUITE (10 MB)" \
    read_lists "$SUITE" deb < <(printf '%s\n' "$archives")
  prefer "$version"
  fetch_programs
  make_prefix
}

sizes_of() { recorded_files "$1" | awk '{ sum += $2 } END { printf "%d MB in %d", sum / 1000000, NR }'; }

# try_recorded WAY ADDRESS ARCHIVES
try_recorded() {
  local way=$1 address=$2 archives=$3 file version found=
  TAKEN=
  for file in $(find "$RECORDED" -name "mariadb-$SERIES.*-$ARCH" | sort -rV); do
    version=$(sed -n 's/^version=//p' "$file")
    is_asked_for "$version" || continue
    found=yes
    take_or_attempt "$version" "$way" bring_recorded "$file" "$version" "$address" "$archives"
    [ -z "$TAKEN" ] || return 0
  done
  [ -n "$found" ] || give_reason "the $way: the tree records no MariaDB ${TIDESDB_MARIADB_VERSION:-$SERIES} for $ARCH"
}

try_pool() {
  local mirror
  TAKEN=
  mirror=$(mirror_of "$SUITE")
  if [ -z "$mirror" ]; then
    give_reason "the pool: this system's apt configuration names no mirror of Debian"
  else
    try_recorded pool "$mirror" "$(archives_of "$SUITE")"
  fi
}

try_snapshot() {
  TAKEN=
  if [ -z "${TIDESDB_SNAPSHOT_URL:-}" ]; then
    give_reason "a snapshot: TIDESDB_SNAPSHOT_URL is not set"
  else
    # Old lists are past the day until which they are valid; that is the point of a snapshot.
    CHECK_VALID_UNTIL=false
    try_recorded snapshot "$TIDESDB_SNAPSHOT_URL" "${TIDESDB_SNAPSHOT_URL%/} $SUITE"
  fi
}

# take_or_attempt VERSION WAY COMMAND...: a finished prefix of that version is taken as it is.
take_or_attempt() {
  local version=$1 way=$2
  shift 2
  use_version "$(upstream "$version")"
  if prefix_is_whole; then
    TAKEN=yes
  else
    say "trying MariaDB $version ($way)"
    attempt "MariaDB $version ($way)" "$@"
  fi
  [ -z "$TAKEN" ] || write_record "$MARIADB_VERSION" "$version" "$way"
}

write_record() {
  printf '%s\n' "version=$1" "package=$2" "way=$3" >"$RECORD.new"
  mv "$RECORD.new" "$RECORD"
}

# The first way that leads to a server; its prefix and record are then there.
choose_server() {
  local way
  REASONS=()
  for way in try_listed try_pool try_snapshot; do
    "$way"
    [ -z "$TAKEN" ] || return 0
  done
  TAKEN=
}
