# What setup tells the person who waits. Sourced, never run.
# Everything goes to standard error: `make -s prefix` owns standard output. Descriptor 8
# keeps it, so that a step whose own output goes to a log can still be heard.

exec 8>&2
say() { printf '==> setup: %s\n' "$*" >&8; }

fail() {
  say "FAILED: $*"
  exit 1
}

# logged NAME WHAT COMMAND...: runs a step in a shell of its own that ends at the first
# error, output in $LOGS/NAME.log; says how long it took, shows the log's end on failure.
logged() {
  local log=$LOGS/$1.log what=$2 start=$SECONDS status
  shift 2
  say "$what"
  set +e
  (
    set -e
    "$@"
  ) >"$log" 2>&1
  status=$?
  set -e
  if [ "$status" -ne 0 ]; then
    printf '==> setup: %s failed; the end of %s:\n' "$what" "$log" >&2
    tail -n 30 "$log" >&2
    exit "$status"
  fi
  [ $((SECONDS - start)) -lt 5 ] || say "$what: done in $((SECONDS - start)) s"
}
