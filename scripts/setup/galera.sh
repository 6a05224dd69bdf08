#!/bin/bash
# Galera's provider for `make test-galera`: Debian's package. Installs what is missing by the system's apt, and prints
# the path of the library. It knows no server's version: the system's own serves the servers of both releases.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./where.sh
. ./say.sh
. ./system-packages.sh

mkdir -p "$LOGS"
install_missing galera galera-4 >&2
provider=$(dpkg -L galera-4 | grep '/libgalera_smm\.so$' | head -n 1)
[ -n "$provider" ] || fail "the package galera-4 has no libgalera_smm.so"
echo "$provider"
