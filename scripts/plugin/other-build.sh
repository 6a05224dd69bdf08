#!/bin/bash
# other-build.sh revision REVISION FOLDER: builds the plugin of another revision of this repository into FOLDER, for the
#   server's release TIDESDB_SERVER, which the revision must know. The source is a worktree next to it, FOLDER.src: this
#   stays, so the next revision compiles less.
# other-build.sh profile PREFIX PLUGIN FOLDER: the plugin optimised by a profile (rustc's and gcc's), into FOLDER: a build
#   that counts, the two loads of training/ on it, and a build that uses what was counted. What lies between stays in
#   FOLDER.work. One that is newer than PLUGIN, the plugin as it is built otherwise, is left as it is.
set -euo pipefail
cd "$(dirname "$0")/../.."

revision() {
  local revision=${1:?'usage: make plugin-at REV=revision'} folder=$2 commit source
  commit=$(git rev-parse --verify "$revision^{commit}") || {
    echo "plugin-at: there is no revision '$revision' here" >&2
    exit 1
  }
  source=$folder.src
  if [ -e "$source/.git" ]; then
    git -C "$source" checkout --quiet --detach "$commit"
  else
    mkdir -p "$(dirname "$source")"
    git worktree add --quiet --detach "$source" "$commit"
  fi
  # Its own make, with nothing of the one that calls.
  . scripts/setup/where.sh
  env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u PREFIX make --no-print-directory -C "$source" plugin SERVER="$SERIES"
  mkdir -p "$folder"
  cp "$source/$BUILD_FOLDER/ha_tidesdb.so" "$folder/ha_tidesdb.so"
  echo "$commit" >"$folder/revision"
  echo "plugin-at: $folder/ha_tidesdb.so is of $commit"
}

say() { echo "==> pgo: $*" >&2; }

# rustc's profiles are read by the tool of its own LLVM's major version.
profdata_of() {
  local major=$1 candidate
  for candidate in "$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata" "llvm-profdata-$major" llvm-profdata; do
    if "$candidate" show --version 2>/dev/null | grep -q "LLVM version $major\."; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

build() { # FLAGS-OF-RUST FLAGS-OF-C++ FLAGS-OF-LINKER
  RUSTFLAGS=$1 CARGO_TARGET_DIR=$work/target cargo build --quiet --profile dist -p tidesdb-capi --target "$host"
  env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make --no-print-directory -s -f plugin/build.mk -j2 PREFIX="$prefix" \
    BUILD="$work" ENGINE="$work/target/$host/dist/libtidesdb_capi.a" CXXFLAGS="$2" LDFLAGS="$3" >&2
}

profile() {
  local prefix=$1 plugin=$2 folder=$3 work=$3.work merged=$3.work/merged.profdata host major profdata
  if [ "$folder/ha_tidesdb.so" -nt "$plugin" ]; then
    say "$folder/ha_tidesdb.so is newer than $plugin"
    exit 0
  fi
  host=$(rustc -vV | sed -n 's/^host: //p')
  major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
  profdata=$(profdata_of "$major") || { scripts/setup/packages.sh "llvm-$major" && profdata=$(profdata_of "$major"); } || {
    say "FAILED: rustc's profiles need llvm-profdata of LLVM $major (rustup component add llvm-tools, or Debian's llvm-$major)"
    exit 1
  }

  rm -rf "$work/counted" "$work/plugin" "$work/runs"
  mkdir -p "$work/counted" "$folder"
  say "a build that counts"
  build "-Cprofile-generate=$work/counted" "-fprofile-generate -fprofile-update=atomic" \
    "-fprofile-generate -Wl,-u,__llvm_profile_runtime"
  say "the training loads"
  cargo run --quiet --release -p tidelab -- run --prefix "$prefix" --plugin "$work/ha_tidesdb.so" --data "$work/data" \
    --out "$work/runs" scripts/plugin/training/tpcc.toml scripts/plugin/training/sysbench.toml >"$work/training.log" 2>&1 || {
    tail -20 "$work/training.log" >&2
    say "FAILED: the training loads, see $work/training.log"
    exit 1
  }
  "$profdata" merge -o "$merged" "$work"/counted/*.profraw
  [ -n "$(find "$work/plugin" -name '*.gcda' -print -quit)" ] || { say "FAILED: the plugin's C++ counted nothing"; exit 1; }
  say "a build that uses what was counted"
  build "-Cprofile-use=$merged" "-fprofile-use -fprofile-partial-training -Wno-missing-profile" "-fprofile-use"
  cp "$work/ha_tidesdb.so" "$folder/ha_tidesdb.so"
  say "$folder/ha_tidesdb.so"
}

case ${1-} in
  revision | profile) "$@" ;;
  *)
    echo "usage: $0 revision REVISION FOLDER | profile PREFIX PLUGIN FOLDER" >&2
    exit 2
    ;;
esac
