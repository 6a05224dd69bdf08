#!/bin/sh
# Checks docs/manual/alerts.yml with promtool: its syntax, silence on a server that works, an alert for each trouble.
# promtool is the system's, or that of Debian's package `prometheus`, unpacked below WORK: no daemon is installed.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
work=${WORK:-$here/build/alerts-test}
mkdir -p "$work"
promtool=$(command -v promtool || echo "$work/unpacked/usr/bin/promtool")
if [ ! -x "$promtool" ]; then
  rm -f "$work"/prometheus_*.deb
  (cd "$work" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download prometheus)
  dpkg -x "$work"/prometheus_*.deb "$work/unpacked"
fi
cp "$here/docs/manual/alerts.yml" "$here/scripts/test/alerts-test.yml" "$work"
cd "$work"
"$promtool" check rules alerts.yml
"$promtool" test rules alerts-test.yml
