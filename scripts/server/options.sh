# Writes the server's option file from the user's CNF and ours. Sourced by start.
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
