#!/bin/bash
# packages.sh PACKAGE...: what only some targets need, by the system's own apt. Installs only what is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./where.sh
. ./say.sh
. ./system-packages.sh
mkdir -p "$LOGS"
install_missing "$1" "$@"
