#!/bin/bash
# deb.sh BUILD RELEASE: Debian packages of what is built, in BUILD/deb, checked by lintian. RELEASE is cargo's folder.
# DEB_VERSION: another version than the changelog's, for tests. DBGSYM=1: debugging symbols too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
TIDESDB_ROOT=$PWD TIDESDB_RELEASE=$(realpath "$2")
export TIDESDB_ROOT TIDESDB_RELEASE
deb=$(realpath "$1")/deb

# The crates in the built files, with their licences, for each package's copyright.
mkdir -p "$deb/doc"
cargo tree --locked -e normal -p tidesdb-capi -p tidesdb-admin -p tidelab --prefix none -f '{p} {l}' | sed 's/ ([^)]*)//g' | sort -u >"$deb/doc/crates"
sed -E 's/ - / no build: /; s/ \/.*/ has a build/' "$deb/servers" >"$deb/doc/servers"

# The packaging works in a copy: dpkg's tools write next to it, and into it.
rm -rf "$deb/source" "$deb"/*.deb "$deb"/*.changes "$deb"/*.buildinfo
mkdir -p "$deb/source"
cp -a debian "$deb/source/"
cd "$deb/source"
[ -z "${DEB_VERSION:-}" ] || sed -i "1s/(.*)/($DEB_VERSION)/" debian/changelog
[ -n "${DBGSYM:-}" ] || export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:+$DEB_BUILD_OPTIONS }noautodbgsym"
# Warnings about symbols: a plugin's are the server's, which is no library.
dpkg-buildpackage --build=binary --no-sign --no-pre-clean 2>&1 | grep -v '^dpkg-shlibdeps: warning: .*symbol'
cd ..
lintian --fail-on error,warning --profile debian --tag-display-limit 0 ./*.changes
rm -rf source
ls -l ./*.deb
