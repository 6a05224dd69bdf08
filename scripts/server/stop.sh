#!/bin/bash
# make stop [DATA=dir]: ends the server on DATA in order and waits until it is gone.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/instance.sh"

pid=$(server_pid)
if [ -z "$pid" ]; then
  say "none runs on $DATA"
  exit 0
fi
# The same as a SHUTDOWN, and works when no connection is to be had.
kill -TERM "$pid"
start=$SECONDS told=0
while kill -0 "$pid" 2>/dev/null && [ "$(ps -o stat= -p "$pid" | cut -c1)" != Z ]; do
  if [ $((SECONDS - start)) -ge $((told + 10)) ]; then
    told=$((SECONDS - start))
    say "stopping for $told s: $(tail -n 1 "$ERROR_LOG")"
  fi
  [ $told -lt 600 ] || fail "process $pid does not end; see $ERROR_LOG"
  sleep 0.1
done
say "stopped on $DATA"
