# The words of setup for the person who waits. Sourced, never run.
# Everything goes to standard error: `make -s prefix` owns standard output. Descriptor 8
# keeps it, so that a step whose own output goes to a log can still be heard.

exec 8>&2
say() { printf '==> setup: %s\n' "$*" >&8; }

# fail TEXT: ends the shell. Inside an attempt (setup.sh) the text is its reason, and the next one follows.
fail() {
  if [ -n "${REASON_FILE:-}" ]; then
    [ -s "$REASON_FILE" ] || printf '%s\n' "$*" >"$REASON_FILE"
  else
    say "FAILED: $*"
  fi
  exit 1
}

# The line of a log that says most: the first error of apt, else the last line with an error, else the last one.
telling_line() {
  local line
  line=$(grep -aE "^E:" "$1" | head -n 1 || true)
  [ -n "$line" ] || line=$(grep -aE "([Ee]rror:|\bError\b|FAILED|fatal|cannot )" "$1" | tail -n 1 || true)
  [ -n "$line" ] || line=$(grep -av '^[[:space:]]*$' "$1" | tail -n 1 || true)
  printf '%s' "${line:0:200}"
}

# Every ten seconds: the seconds so far, and the last line of the log.
tell_progress() {
  local log=$1 start=$SECONDS line
  while sleep 10; do
    line=$(tail -c 400 "$log" 2>/dev/null | tr '\r' '\n' | grep -av '^[[:space:]]*$' | tail -n 1 || true)
    say "  $((SECONDS - start)) s: ${line:0:90}"
  done
}

# logged NAME WHAT COMMAND...: runs a step in a shell of its own that ends at the first
# error, output in $LOGS/NAME.log; tells the progress of a long one, and the time it took.
# A failure ends the caller's shell: with the log's end, or, in an attempt, with a reason.
logged() {
  local log=$LOGS/$1.log what=$2 start=$SECONDS status ticker
  shift 2
  say "$what"
  : >"$log"
  tell_progress "$log" 9>&- 2>/dev/null &
  ticker=$!
  set +e
  (
    set -e
    "$@"
  ) >"$log" 2>&1
  status=$?
  pkill -P "$ticker" 2>/dev/null
  kill "$ticker" 2>/dev/null
  wait "$ticker" 2>/dev/null
  set -e
  if [ "$status" -ne 0 ]; then
    [ -z "${REASON_FILE:-}" ] || fail "$what: $(telling_line "$log") (log: $log)"
    printf '==> setup: %s failed; the end of %s:\n' "$what" "$log" >&2
    tail -n 30 "$log" >&2
    exit "$status"
  fi
  [ $((SECONDS - start)) -lt 5 ] || say "$what: done in $((SECONDS - start)) s"
}
