#!/bin/bash
# build.sh OUT: the manual as a book of HTML in OUT, by mdBook. A missing mdBook is built from its crate, once for all
# clones, into the cache's folder tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. scripts/setup/where.sh
out=$1

# 0.4.52 compiles with the Rust of setup; 0.5 needs a newer one.
MDBOOK=0.4.52
tools=$CACHE/tools
mdbook=$tools/bin/mdbook

say() { printf '==> manual: %s\n' "$*" >&2; }

is_right() { [ "$("$mdbook" --version 2>/dev/null)" = "mdbook v$MDBOOK" ]; }

mkdir -p "$tools"
exec 9>"$tools/lock"
flock 9
if ! is_right; then
  say "building mdBook $MDBOOK, once (five minutes on two cores)"
  cargo install mdbook --version "$MDBOOK" --locked --no-default-features --features search --root "$tools" \
    --target-dir "$tools/build" --quiet 9>&-
  rm -rf "$tools/build"
  is_right || { say "FAILED: $mdbook does not run"; exit 1; }
fi
exec 9>&-

source=$out-source
python3 scripts/manual/prepare.py "$source"
rm -rf "$out"
RUST_LOG=warn "$mdbook" build "$source" --dest-dir "$out"
python3 scripts/manual/check-html.py "$out"
say "made $out/index.html in $SECONDS s"
