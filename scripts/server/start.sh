#!/bin/bash
# make server [DATA=dir] [CNF=file] [PORT=number]: starts a server with TidesDB and
# returns when it answers. Exit status 0 only when SHOW ENGINES lists TidesDB.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
. "$here/instance.sh"
. "$here/options.sh"
. "$here/datadir.sh"
CNF=${CNF:-}

log_end() {
  say "the end of $ERROR_LOG:"
  tail -n 40 "$ERROR_LOG" >&2 || true
}

check_engine() {
  has_tidesdb && return
  log_end
  return 1
}

# A server that recovers a large log may take its time: as long as it lives, we wait. One that has opened its
# socket and turns its own client away does so for good: after 10 s that ends the wait.
wait_until_it_answers() {
  local pid=$1 start=$SECONDS told=0 refused=
  until answers; do
    if ! kill -0 "$pid" 2>/dev/null; then
      log_end
      fail "the server ended before it answered"
    fi
    # 2002, 2003: nobody listens yet.
    case $REFUSAL in
      *'ERROR 2002 '* | *'ERROR 2003 '*) refused= ;;
      *) refused=${refused:-$SECONDS} ;;
    esac
    if [ -n "$refused" ] && [ $((SECONDS - refused)) -ge 10 ]; then
      say "the server runs (process $pid), and refuses its own client: $REFUSAL"
      fail "an option of ${CNF:-$OPTIONS} may be why; make stop DATA=$DATA ends the server"
    fi
    if [ $((SECONDS - start)) -ge $((told + 10)) ]; then
      told=$((SECONDS - start))
      say "starting for $told s: $(tail -n 1 "$ERROR_LOG")"
    fi
    [ $told -lt 600 ] || fail "no answer after $told s; it still runs (process $pid)"
    sleep 0.1
  done
}

# What decides whether a running server is the one that is asked for.
same_options() { cmp -s <(grep -v '^#' "$1") <(grep -v '^#' "$2"); }

[ ${#SOCKET} -le 107 ] || fail "$SOCKET is longer than a socket's path may be (107)"
mkdir -p "$DATA/tmp"
exec 9>"$DATA/lock"
flock 9

write_options "$CNF" "$OPTIONS.new"
pid=$(server_pid)
if [ -n "$pid" ]; then
  same_options "$OPTIONS" "$OPTIONS.new" || {
    rm -f "$OPTIONS.new"
    fail "a server with other options runs on $DATA (process $pid): make stop DATA=$DATA first"
  }
  rm -f "$OPTIONS.new"
  say "already runs on $DATA (process $pid)"
  wait_until_it_answers "$pid"
  check_engine || fail "the server on $DATA has no TidesDB"
  exit 0
fi
mv "$OPTIONS.new" "$OPTIONS"
make_datadir

rm -f "$SOCKET"
# A session of its own: neither the terminal's Ctrl-C nor make's end reaches it.
setsid "$PREFIX/bin/mariadbd" --defaults-file="$OPTIONS" </dev/null >>"$ERROR_LOG" 2>&1 9>&- &
pid=$!
disown
wait_until_it_answers "$pid"
if ! check_engine; then
  kill "$pid" 2>/dev/null || true
  while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
  fail "the server came up without TidesDB and was ended again"
fi
say "ready on $SOCKET (process $pid, log $ERROR_LOG)"
