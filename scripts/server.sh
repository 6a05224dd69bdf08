#!/bin/bash
# server.sh start|stop|shell|restore: one server of ours, for make's targets. MARIADB_PREFIX, DATA and the rest come from
# the Makefile's environment.
#
# start    make server [DATA=dir] [CNF=file] [PORT=number]: starts a server with TidesDB and returns when it answers.
#          Exit status 0 only when SHOW ENGINES lists TidesDB.
# stop     make stop [DATA=dir]: ends the server on DATA in order and waits until it is gone.
# shell    make shell [DATA=dir]: a client on the server of DATA, as root, over the socket. It shows warnings, and the
#          database `test` is open.
# restore  make restore FROM=backup [DATA=dir]: verifies a backup that SET GLOBAL tidesdb_backup_dir or
#          tidesdb_checkpoint_dir took, and restores it into DATA: into the data directory of an ended server without
#          TidesDB tables, or into a new one. `make server DATA=dir` starts it then.
set -euo pipefail

PREFIX=${MARIADB_PREFIX:?"make server sets it"}

DATA=$(realpath -m -- "${DATA:-.run/server}")
SOCKET=$DATA/mysqld.sock
ERROR_LOG=$DATA/error.log
PID_FILE=$DATA/mysqld.pid
OPTIONS=$DATA/my.cnf
CNF=${CNF:-}

say() { printf '==> server: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 1
}

# The process of the server on $DATA, nothing when none runs. A pid file that a crash
# left over may name a stranger by now: the options file on its command line decides.
server_pid() {
  local pid
  pid=$(cat "$PID_FILE" 2>/dev/null) || pid=
  if [ -n "$pid" ] && tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" |
    grep -xF -e "--defaults-file=$OPTIONS" >/dev/null; then
    echo "$pid"
  else
    pgrep -x -f "[^ ]*/mariadbd --defaults-file=$(sed 's/[][\.*^$+?(){}|]/\\&/g' <<<"$OPTIONS")" |
      sed -n 1p || true
  fi
}

# (No TLS over a socket: a server without it refuses a client that asks for it.)
client() { "$PREFIX/bin/mariadb" --no-defaults --skip-ssl --user=root --socket="$SOCKET" "$@"; }

# REFUSAL is the client's error when none answers.
answers() { REFUSAL=$(client --silent --execute 'DO 0' 2>&1 >/dev/null); }

has_tidesdb() {
  [ "$(client -N -B -e "SELECT COUNT(*) FROM information_schema.ENGINES
    WHERE ENGINE = 'TidesDB' AND SUPPORT IN ('YES', 'DEFAULT')" 2>/dev/null)" = 1 ]
}

# --- the option file: from the user's CNF and ours ---
#
# What CNF says of basedir, datadir, socket, port, pid-file, log-error and user does not
# count, nor its plugin folder; any other path outside $DATA is replaced by one inside.
# Both are reported. Everything else goes through as it stands.

# canonical NAME: as the server compares option names.
canonical() {
  local name=${1,,}
  name=${name//_/-}
  echo "${name#loose-}"
}

# is_outside VALUE: it is a path, and it leads out of $DATA. Relative ones start in the
# data directory.
is_outside() {
  local full
  case $1 in
    /*) full=$1 ;;
    ../* | ./* | */../*) full=$DATA/data/$1 ;;
    *) return 1 ;;
  esac
  full=$(realpath -m -- "$full")
  [ "$full" != "$DATA" ] && [ "${full#"$DATA"/}" = "$full" ]
}

# inside NAME VALUE: the path in $DATA that stands for VALUE, with what it needs there.
inside() {
  local name=$1 value=$2 target base
  case $name in
    character-sets-dir) echo "$PREFIX/share/mariadb/charsets" && return ;;
    lc-messages-dir | language) echo "$PREFIX/share/mariadb" && return ;;
  esac
  base=$(basename -- "$value")
  target=$DATA/$base
  # Taken by ours or by an option before: then the option's name tells them apart.
  case " data tmp mysqld.sock error.log mysqld.pid my.cnf lock tidesdb_data $taken " in
    *" $base "*) target=$DATA/$name-$base ;;
  esac
  case $name in
    *dir | *-home | *-path | *-directory | secure-file-priv) mkdir -p -- "$target" ;;
    *log*) ;;
    # A file that the server is to read (keys, init-file): a copy of it.
    *) [ ! -f "$value" ] || cp -- "$value" "$target" ;;
  esac
  echo "$target"
}

# option_line NAME [VALUE]: as an option file has it; it treats backslashes as C does.
option_line() {
  if [ $# = 1 ]; then
    printf '%s\n' "$1"
  else
    printf '%s = "%s"\n' "$1" "${2//\\/\\\\}"
  fi
}

# Prints the lines for what CNF says in the groups that the server reads.
options_of_cnf() {
  local line name key value target taken='' dropped=''
  while IFS= read -r line; do
    line=${line#--}
    name=${line%%=*}
    key=$(canonical "$name")
    case $key in
      basedir | datadir | socket | port | pid-file | log-error | user | \
        plugin-dir | skip-networking | skip-log-error)
        dropped="$dropped $name"
        continue
        ;;
    esac
    if [ "$name" = "$line" ]; then
      option_line "$name"
      continue
    fi
    value=${line#*=}
    if is_outside "$value"; then
      target=$(inside "$key" "$value")
      taken="$taken $(basename -- "$target")"
      say "$name = $value is outside DATA: replaced by $target"
      value=$target
    fi
    option_line "$name" "$value"
  done <"$1"
  [ -z "$dropped" ] || say "set by us, not by CNF:$dropped"
}

# write_options CNF FILE
write_options() {
  local cnf=$1 file=$2 flat=$2.flat
  : >"$flat"
  if [ -n "$cnf" ]; then
    [ -r "$cnf" ] || fail "CNF=$cnf cannot be read"
    "$PREFIX/bin/my_print_defaults" --defaults-file="$(realpath -- "$cnf")" --mariadbd \
      >"$flat" || fail "CNF=$cnf is not an option file that MariaDB can read"
  fi
  {
    echo "# Written by make server from CNF=${cnf:-(none)}. Changes here do not last."
    echo "[mariadbd]"
    option_line tmpdir "$DATA/tmp"
    options_of_cnf "$flat"
    echo "# Ours"
    # Loading a plugin twice is an error to the server.
    grep -i -E '^--(loose[-_])?plugin[-_]load([-_]add)?=.*ha_tidesdb' "$flat" >/dev/null ||
      option_line plugin-load-add ha_tidesdb.so
    option_line plugin-dir "$BASEDIR_OF_LINKS/lib/mysql/plugin"
    option_line basedir "$PREFIX"
    option_line datadir "$DATA/data"
    option_line socket "$SOCKET"
    option_line pid-file "$PID_FILE"
    option_line log-error "$ERROR_LOG"
    [ "$(id -u)" != 0 ] || option_line user root
    if [ -n "${PORT:-}" ]; then
      option_line port "$PORT"
    else
      option_line skip-networking
    fi
  } >"$file"
  rm -f "$flat"
}

# --- the data directory, made on the first start ---

# Options that InnoDB settles when it makes its files: with one of them the template
# does not fit, and the directory is bootstrapped with them.
SETTLED_AT_BIRTH='^(loose[-_])?innodb[-_](page[-_]size|data[-_]file[-_]path|data[-_]home[-_]dir|log[-_]group[-_]home[-_]dir|undo[-_]directory|undo[-_]tablespaces|checksum[-_]algorithm)|^lower[-_]case[-_]table[-_]names'

make_datadir() {
  [ ! -d "$DATA/data/mysql" ] || return 0
  [ ! -e "$DATA/data" ] || rmdir "$DATA/data" 2>/dev/null ||
    fail "$DATA/data is there but holds no MariaDB data directory"
  local fresh=$DATA/data.new option settled=()
  rm -rf "$fresh"
  while IFS= read -r option; do
    settled+=("--$(sed 's/ = "\(.*\)"$/=\1/' <<<"$option")")
  done < <(grep -i -E "$SETTLED_AT_BIRTH" "$OPTIONS")
  if [ ${#settled[@]} = 0 ]; then
    cp -a --reflink=auto --sparse=always "$PREFIX/template" "$fresh"
  else
    "$PREFIX/bin/mariadb-install-db" --no-defaults "${settled[@]}" --basedir="$PREFIX" \
      --datadir="$fresh" --user="$(id -un)" --skip-test-db --skip-name-resolve \
      --auth-root-authentication-method=normal >>"$ERROR_LOG" 2>&1 ||
      fail "the data directory could not be made, see $ERROR_LOG"
    mkdir -p "$fresh/test"
  fi
  mv "$fresh" "$DATA/data"
  say "made a data directory in $DATA/data"
}

# --- start ---

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

start() {
  local pid
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
}

# --- stop, shell, restore ---

stop() {
  local pid start=$SECONDS told=0
  pid=$(server_pid)
  if [ -z "$pid" ]; then
    say "none runs on $DATA"
    exit 0
  fi
  # The same as a SHUTDOWN, and works when no connection is to be had.
  kill -TERM "$pid"
  while kill -0 "$pid" 2>/dev/null && [ "$(ps -o stat= -p "$pid" | cut -c1)" != Z ]; do
    if [ $((SECONDS - start)) -ge $((told + 10)) ]; then
      told=$((SECONDS - start))
      say "stopping for $told s: $(tail -n 1 "$ERROR_LOG")"
    fi
    [ $told -lt 600 ] || fail "process $pid does not end; see $ERROR_LOG"
    sleep 0.1
  done
  say "stopped on $DATA"
}

shell() {
  [ -n "$(server_pid)" ] || fail "none runs on $DATA: make server DATA=$DATA starts one"
  # A new server has the database `test`: examples make their tables there.
  local database=()
  [ "$(client -N -B -e "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'test'")" = 0 ] ||
    database=(test)
  exec "$PREFIX/bin/mariadb" --no-defaults --skip-ssl --user=root --socket="$SOCKET" \
    --default-character-set=utf8mb4 --show-warnings "${database[@]}"
}

restore() {
  [ -n "${FROM:-}" ] || fail "which backup? make restore FROM=directory [DATA=dir]"
  [ -d "$FROM" ] || fail "there is no directory FROM=$FROM"
  FROM=$(realpath -- "$FROM")
  mkdir -p "$DATA/tmp"
  exec 9>"$DATA/lock"
  flock 9
  [ -z "$(server_pid)" ] || fail "a server runs on $DATA: make stop DATA=$DATA first"
  # Before anything is made.
  "$TIDESDB_ADMIN" backup show "$FROM" >/dev/null
  write_options "" "$OPTIONS"
  local fresh=
  [ -e "$DATA/data" ] || fresh=1
  make_datadir
  if ! "$TIDESDB_ADMIN" backup restore "$FROM" --data-dir "$DATA/data"; then
    # What was made for it goes; a store that was begun is not opened, and the message of the next restore names it.
    [ -z "$fresh" ] || rm -rf "$DATA/data"
    exit 1
  fi
  say "restored $FROM into $DATA: make server DATA=$DATA starts it"
}

case ${1-} in
  start | stop | shell | restore) "$1" ;;
  *)
    echo "usage: server.sh start|stop|shell|restore" >&2
    exit 2
    ;;
esac
