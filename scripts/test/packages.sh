#!/bin/bash
# packages.sh DEB WORK [SUITE...]: the packages in the folder DEB, on chroots of Debian 12 and 13, alongside their servers:
# installed by apt, used, upgraded, with servers that a build fits and that none fits, removed, purged.
# As root, by make test-deb. The last line is "packages: N passed, N failed".
#
# packages-inside.sh runs in the chroot. Its server is started by the distribution's own scripts.
set -euo pipefail
deb=$(realpath "$1") work=$(realpath -m "$2")
shift 2
suites=("$@")
[ ${#suites[@]} -gt 0 ] || suites=(bookworm trixie)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ "$(id -u)" = 0 ] || { echo "packages: chroots are made by root" >&2; exit 1; }
mkdir -p "$work"
# One run at a time has the folder.
exec 7>"$work/lock"
flock 7
(
  cd scripts/setup
  . ./where.sh
  . ./say.sh
  . ./apt.sh
  for suite in bookworm trixie; do archives_of "$suite" | sed 's/^/deb /; s/$/ main/' >"$work/$suite.list"; done
)
[ -s "$work/bookworm.list" ] || { echo "packages: this system's apt configuration names no mirror of Debian" >&2; exit 1; }

# The dependencies of what is tested.
packages=ca-certificates,debconf,procps,sysbench,galera-4,lsof,socat,rsync,psmisc,iproute2,libdbi-perl,libdbd-mariadb-perl
packages+=,python3-django,python3-mysqldb

# A system with them, made once: rm -r to make it anew.
base_of() {
  local suite=$1 base=$work/$1.tar
  [ ! -e "$base" ] || [ "$(cat "$base.packages" 2>/dev/null)" != "$packages" ] || return 0
  echo "packages: making a Debian $suite (two minutes)" >&2
  mmdebstrap --quiet --variant=minbase --include="$packages" "$suite" "$work/new.tar" "$work/$suite.list"
  mv "$work/new.tar" "$base"
  echo "$packages" >"$base.packages"
}

# fetch_servers SERIES: the server's packages that the tree records, from the pool.
fetch_servers() (
  cd scripts/setup
  export TIDESDB_SERVER=$1
  . ./where.sh
  . ./say.sh
  . ./apt.sh
  DOWNLOADS=$work/recorded
  mkdir -p "$DOWNLOADS/lists/partial"
  : >"$DOWNLOADS/status"
  : >"$DOWNLOADS/preferences"
  : >"$DOWNLOADS/sources.list"
  cat recorded/mariadb-"$1".*-"$ARCH" | grep -E '\.deb$' | grep -vE 'mariadb-(test|backup|plugin)' >"$DOWNLOADS/wanted"
  fetch_recorded "$DOWNLOADS/wanted" "$(mirror_of "$SUITE")" >"$DOWNLOADS/log" 2>&1
)

# A trusted archive: our packages, a lower version of the plugin's, and server packages that no list names any more.
make_archive() {
  local archive=$work/archive
  rm -rf "$archive"
  mkdir -p "$archive" "$work/recorded"
  cp "$deb"/*.deb "$archive/"
  dpkg-deb -R "$deb"/mariadb-plugin-tidesdb_*.deb "$work/before"
  sed -i 's/^Version: .*/Version: 0.0.9/' "$work/before/DEBIAN/control"
  dpkg-deb -Znone -b "$work/before" "$archive/mariadb-plugin-tidesdb_0.0.9_before.deb" >/dev/null
  rm -rf "$work/before"
  fetch_servers 10.11
  fetch_servers 11.8
  cp "$work"/recorded/recorded/*.deb "$archive/"
  (cd "$archive" && dpkg-scanpackages -m . 2>/dev/null >Packages)
}

run_inside() {
  local suite=$1 root=$work/root-$1
  rm -rf "$root"
  mkdir -p "$root"
  tar -xf "$work/$suite.tar" -C "$root" --exclude='./dev/*'
  cp -a "$work/archive" "$root/archive"
  cp "$work"/*.list "$root/archive/"
  cp scripts/test/packages-inside.sh "$root/"
  cp -r scripts/test/site "$root/site"
  # Processes end with their namespace, and so do mounts.
  unshare --mount --pid --fork --uts --kill-child bash -euc '
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    hostname packages-test
    exec chroot "$1" /bin/bash /packages-inside.sh "$2"' - "$root" "$suite" 2>"$work/$suite.log" |
    tee "$work/$suite.out"
}

make_archive
for suite in "${suites[@]}"; do
  base_of "$suite"
  run_inside "$suite" || echo "packages: FAILED: $suite: not come to its end; see $work/$suite.log"
done
passed=$(for suite in "${suites[@]}"; do grep -h '^packages: ok' "$work/$suite.out" || true; done | wc -l)
failed=$(for suite in "${suites[@]}"; do
  grep -h '^packages: FAILED' "$work/$suite.out" || true
  grep -q '^packages: end' "$work/$suite.out" || echo "no end"
done | wc -l)
[ "$failed" != 0 ] || for suite in "${suites[@]}"; do rm -rf "$work/root-$suite"; done
echo "packages: $passed passed, $failed failed"
[ "$failed" = 0 ]
