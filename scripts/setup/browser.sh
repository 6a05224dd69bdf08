#!/bin/bash
# What looks at the report's pages in `make test-report`: Debian's Chromium and Node, and a font. Installs what is
# missing by the system's apt; fails with a sentence where that cannot be.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./where.sh
. ./say.sh
. ./system-packages.sh

NODE_MINIMUM=18

node_is_recent() {
  local have
  have=$(node --version 2>/dev/null) && [ "${have//[!0-9.]/}" ] &&
    printf '%s\n%s\n' "$NODE_MINIMUM" "${have#v}" | sort -C -V
}

mkdir -p "$LOGS"
wanted=(chromium fonts-liberation)
node_is_recent || wanted+=(nodejs)
install_missing browser "${wanted[@]}"
chromium --version >/dev/null 2>&1 || fail "the report is looked at in Chromium, and Debian's does not run here"
node_is_recent || fail "the report's test needs Node $NODE_MINIMUM or newer, found: $(node --version 2>&1)"
