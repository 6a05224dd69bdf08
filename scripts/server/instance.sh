# One server of ours and where its things are. Sourced by start, stop and shell, which
# set DATA before. MARIADB_PREFIX and the rest come from the Makefile's environment.

PREFIX=${MARIADB_PREFIX:?"make server sets it"}

DATA=$(realpath -m -- "${DATA:-.run/server}")
SOCKET=$DATA/mysqld.sock
ERROR_LOG=$DATA/error.log
PID_FILE=$DATA/mysqld.pid
OPTIONS=$DATA/my.cnf

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
