#!/bin/sh
# Runs every loom test of the workspace: small protocols in every interleaving.
#
#   scripts/test/loom.sh [FILTER]     FILTER: only tests whose name contains it
#
# A target directory of its own, because --cfg loom changes every crate. With the crates built the tests
# take seconds; LOOM_MAX_PREEMPTIONS (default 3 where a test does not say) bounds the interleavings.
set -eu
cd "$(dirname "$0")/../.."
export RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
export CARGO_PROFILE_DEV_DEBUG=0
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}"
if [ $# -eq 0 ]; then
    set -- loom lock::handover::model
fi
exec cargo test -p tidesdb --lib -- "$@"
