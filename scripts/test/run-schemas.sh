#!/bin/bash
# run-schemas.sh WORKDIR KNOWN [NAME...]: schemas of applications (schemas/schemas.list) on one server of ours, with InnoDB
# and with TidesDB: definitions, rows that follow the foreign keys, dumps (schemas/compare.py says how). What differs must
# stand in the file KNOWN with its reason, else the end is an error. The last line is "schemas: N passed, M failed, K skipped".
#
# The packages come from Debian's archive by an apt of our own, and stay in the cache. They are unpacked, not installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. scripts/setup/where.sh
. scripts/setup/say.sh
. scripts/setup/apt.sh

[ $# -ge 2 ] || fail "usage: run-schemas.sh WORKDIR KNOWN [NAME...]"
work=$(realpath -m -- "$1") known=$2
shift 2
list=scripts/test/schemas/schemas.list
# Whatever the server's own suite is: the list's versions are those of one.
debian=trixie
schemas=$CACHE/schemas
DOWNLOADS=$schemas/apt

# Once in a run, and only when something is to be fetched.
lists_are_read=
fetch() {
  local package=$1 wanted=$2 found
  if [ -z "$lists_are_read" ]; then
    mkdir -p "$DOWNLOADS" "$LOGS"
    logged schemas-lists "reading the package lists of Debian $debian" read_lists "$debian" deb < <(archives_of "$debian")
    lists_are_read=1
  fi
  found=$(listed "$package" Packages)
  grep -qxF -e "$wanted" <<<"$found" || {
    say "the archive has no $package $wanted any more: taking $(sed -n 1p <<<"$found")"
    wanted=$(sed -n 1p <<<"$found")
    [ -n "$wanted" ] || fail "Debian $debian has no package $package"
  }
  VERSION=$wanted
  FOLDER=$schemas/$package-${wanted/:/_}
  [ ! -e "$FOLDER/complete" ] || return 0
  rm -rf "$FOLDER" "$FOLDER.new"
  mkdir -p "$FOLDER.new/package"
  (cd "$FOLDER.new" && logged "schemas-$package" "fetching $package $wanted" private_apt apt-get download -q "$package=$wanted")
  dpkg-deb -x "$FOLDER.new"/*.deb "$FOLDER.new/package"
  rm "$FOLDER.new"/*.deb
  mv "$FOLDER.new" "$FOLDER"
  touch "$FOLDER/complete"
}

# NAME=FILE,FILE for compare.py.
prepare() {
  local name=$1 package=$2 file files=() plain
  VERSION=$3
  FOLDER=$schemas/$package-${VERSION/:/_}
  shift 3
  [ -e "$FOLDER/complete" ] || fetch "$package" "$VERSION"
  for file; do
    plain=$work/$name-$(basename "${file%.gz}")
    case $file in
      *.gz) gzip -dc "$FOLDER/package/$file" >"$plain" ;;
      *) cp "$FOLDER/package/$file" "$plain" ;;
    esac
    files+=("$plain")
  done
  arguments+=("$name=$(IFS=, && echo "${files[*]}")")
}

mkdir -p "$work" "$schemas"
exec 7>"$schemas/lock"
flock 7
arguments=()
for name; do grep -q "^$name " "$list" || fail "$list has no schema $name"; done
while read -r name package version files; do
  [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
  # shellcheck disable=SC2086  # a list of words
  prepare "$name" "$package" "$version" $files
done < <(grep -v -e '^#' -e '^$' "$list")
exec 7>&-

# Tables are made and dropped all the time, and nothing asks for them after a crash: memory, where there is some.
DATA=$work/server
[ ! -w /dev/shm ] || DATA=$(mktemp -d /dev/shm/tidesdb-schemas.XXXXXX)/server
export DATA CNF=$work/server.cnf
cat >"$CNF" <<'CNF'
[mariadbd]
innodb-buffer-pool-size = 128M
innodb-flush-log-at-trx-commit = 0
innodb-flush-method = nosync
tidesdb-unified-memtable-sync-mode = NONE
max-allowed-packet = 64M
log-bin-trust-function-creators = ON
CNF
end_server() {
  scripts/server.sh stop
  [ "$DATA" = "$work/server" ] || { cp "$DATA/error.log" "$work/" && rm -rf "${DATA%/server}"; }
}
scripts/server.sh stop
rm -rf "$DATA"
trap end_server EXIT
scripts/server.sh start
python3 scripts/test/schemas/compare.py "$PREFIX/bin/mariadb" "$PREFIX/bin/mariadb-dump" "$DATA/mysqld.sock" "$work" "$known" \
  "${arguments[@]}"
