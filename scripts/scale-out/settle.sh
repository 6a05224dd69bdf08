#!/bin/bash
# settle.sh [--dry-run] [--commit XID]... [--rollback XID]... [--at HOST:PORT=HOST:PORT]... CLIENT-OPTION...: ends the
# branches that a Spider head left prepared on its shards. CLIENT-OPTIONs lead `mariadb` to the head, as an
# administrator. Run it after each crash of the head, before its clients come back, and again until it exits with 0.
#
# Spider writes each step of a transaction over shards into mysql.spider_xa. It answers COMMIT after the last shard
# committed. So the table decides:
#
#   NOT YET, ROLLBACK   some shard may not have prepared: every branch is rolled back
#   PREPARED            all prepared, none told to commit, no answer given: rolled back, if every branch is still there
#   COMMIT              some shard may have committed: every branch that is left is committed
#
# The shards are those of mysql.servers and of mysql.spider_xa_member; the latter forgets those of a NOT YET in a crash.
# The rest is named and left, with exit status 1: a shard that does not answer; a PREPARED transaction with a branch
# missing, or of a head with a binary log, where the log may have it; a branch without a record; one of a client's own
# XA statements, which that client ends. --commit or --rollback decides such a one.
# --at: a shard that another server stands for now.
set -euo pipefail
mariadb=${MARIADB:-mariadb}
dry='' left=0
declare -A decided=() moved=()

say() { printf 'settle: %s\n' "$*"; }
leave() {
  say "$*"
  left=1
}
usage() {
  sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

# The client takes these before anything else.
first=() options=()
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry=1 ;;
    --commit | --rollback) decided[${2:?"$1 needs a transaction, as the output names it"}]=${1#--} && shift ;;
    --at) moved[${2%%=*}]=${2#*=} && shift ;;
    --no-defaults | --defaults-file=* | --defaults-extra-file=*) first+=("$1") ;;
    --help) usage ;;
    *) options+=("$1") ;;
  esac
  shift
done
[ ${#options[@]} -gt 0 ] || usage

# A statement on the head. An answer that does not come ends the script: nothing is decided without it.
ask() { "$mariadb" "${first[@]}" "${options[@]}" -N -B -e "$1" </dev/null || { say "the head does not answer" >&2 && exit 1; }; }
text() { printf '%b' "$(sed 's/../\\x&/g' <<<"$1")"; }

# A statement on a shard. Values of the tables are in hexadecimal: they may hold anything.
# on PLACE STATEMENT
on() {
  local user password ca capath cert cipher key verify arguments
  IFS=: read -r user password ca capath cert cipher key verify <<<"${login[$1]}"
  arguments=(--no-defaults --protocol=tcp --host="${1%:*}" --port="${1##*:}" --connect-timeout=10 --user="$(text "$user")")
  [ -z "$ca" ] || arguments+=(--ssl-ca="$(text "$ca")")
  [ -z "$capath" ] || arguments+=(--ssl-capath="$(text "$capath")")
  [ -z "$cert" ] || arguments+=(--ssl-cert="$(text "$cert")")
  [ -z "$cipher" ] || arguments+=(--ssl-cipher="$(text "$cipher")")
  [ -z "$key" ] || arguments+=(--ssl-key="$(text "$key")")
  # As Spider connects.
  [ "$verify" != 0 ] || arguments+=(--skip-ssl-verify-server-cert)
  MYSQL_PWD=$(text "$password") "$mariadb" "${arguments[@]}" -N -B -e "$2" </dev/null
}

# place HOST PORT, both in hexadecimal: where that shard is now.
place() {
  local name
  name=$(text "$1"):$(text "$2")
  echo "${moved[$name]:-$name}"
}

# A transaction's name, as XA COMMIT takes it, its rows in Spider's tables, and its line in XA RECOVER. Spider's own are
# named by the session and the head's server_id; SESSION is empty for those of clients.
gtrid="LEFT(x.data, x.gtrid_length)"
bqual="SUBSTRING(x.data, x.gtrid_length + 1, x.bqual_length)"
xid="CONCAT('X''', HEX($gtrid), ''',X''', HEX($bqual), ''',', x.format_id)"
key="CONCAT('format_id = ', x.format_id, ' AND gtrid_length = ', x.gtrid_length, ' AND HEX(data) = ''', HEX(x.data), '''')"
session="IF(x.format_id = 1 AND $gtrid RLIKE '^[0-9a-f]+(-[0-9a-f]+)?\$' AND $bqual = LOWER(HEX(@@server_id)),
  SUBSTRING_INDEX($gtrid, '-', 1), '')"
line="x.format_id, x.gtrid_length, x.bqual_length, LEFT(x.data, x.gtrid_length + x.bqual_length)"

# First the transactions, then the sessions, then the shards: a transaction whose session is at work later may end by
# itself. Members without a transaction are of one that has ended, or never began.
transactions=$(ask "SELECT $xid, TRIM(status), $key, $session FROM mysql.spider_xa x
  UNION SELECT $xid, 'ENDED', $key, $session FROM mysql.spider_xa_member x WHERE NOT EXISTS (SELECT 1 FROM mysql.spider_xa
    WHERE format_id = x.format_id AND gtrid_length = x.gtrid_length AND data = x.data) ORDER BY 1")
sessions=$(ask "SELECT LOWER(HEX(id)) FROM information_schema.processlist
  WHERE command NOT IN ('Sleep', 'Daemon') AND id <> CONNECTION_ID()")
log=$(ask "SELECT @@log_bin")
server_id=$(ask "SELECT LOWER(HEX(@@server_id))")

declare -A login=() answers=()
columns=
for column in username password ssl_ca ssl_capath ssl_cert ssl_cipher ssl_key; do
  columns="$columns HEX(COALESCE($column, '')), ':',"
done
members=$(ask "SELECT DISTINCT CONCAT(HEX(host), ':', HEX(port), ':', $columns ssl_verify_server_cert) FROM mysql.spider_xa_member")
servers=$(ask "SELECT CONCAT(HEX(host), ':', HEX(CONCAT(port, '')), ':', HEX(username), ':', HEX(password), '::::::0')
  FROM mysql.servers WHERE wrapper = 'mysql'")
while IFS=: read -r host port rest; do
  [ -z "$host" ] || login[$(place "$host" "$port")]=$rest
done <<<"$members"$'\n'"$servers"

# A prepare that still waits there, for a lock of the whole server, comes true later.
for shard in "${!login[@]}"; do
  if ! answers[$shard]=$(on "$shard" "SELECT 'prepares' FROM information_schema.processlist WHERE info LIKE 'xa prepare%';
    XA RECOVER" 2>&1); then
    leave "$shard does not answer: ${answers[$shard]}"
    unset "answers[$shard]"
  elif grep -q '^prepares' <<<"${answers[$shard]}"; then
    leave "$shard still runs XA PREPARE: run this again"
    unset "answers[$shard]"
  fi
done
whole=1
[ ${#answers[@]} = ${#login[@]} ] || whole=0
shards=$(printf '%s\n' "${!answers[@]}" | sort)

# look KEY: fills THERE with the shards that have a branch; MISSING is 1 where a member may have none.
look() {
  local shard branch members
  THERE=() MISSING=
  members=$(ask "SELECT DISTINCT CONCAT(HEX(host), ':', HEX(port)) FROM mysql.spider_xa_member WHERE $1")
  branch=$(ask "SELECT $line FROM mysql.spider_xa x WHERE $1 UNION SELECT $line FROM mysql.spider_xa_member x WHERE $1")
  for shard in $shards; do
    ! grep -qxF -- "$branch" <<<"${answers[$shard]}" || THERE+=("$shard")
  done
  while IFS=: read -r host port; do
    [ -n "$host" ] && [[ " ${THERE[*]} " == *" $(place "$host" "$port") "* ]] || MISSING=1
  done <<<"$members"
}

# decide XID STATUS SESSION: prints commit, rollback, or nothing.
decide() {
  if [ -n "${decided[$1]:-}" ]; then
    echo "${decided[$1]}"
    return
  fi
  case $2 in
    COMMIT) echo commit ;;
    'NOT YET' | ROLLBACK) [ -z "$3" ] || echo rollback ;;
    PREPARED) [ -z "$3" ] || [ -n "$MISSING" ] || [ "$log" = 1 ] || echo rollback ;;
    # Of an ended one no branch is left.
    ENDED) [ ${#THERE[@]} -gt 0 ] || [ $whole = 0 ] || echo rollback ;;
  esac
}

# end XID ACTION: on the shards of THERE.
end() {
  local shard answer
  ENDED=1
  for shard in "${THERE[@]}"; do
    if [ -n "$dry" ]; then
      leave "  $shard: a branch"
    elif answer=$(on "$shard" "XA ${2^^} $1" 2>&1); then
      say "  $shard: done"
    else
      leave "  $shard: $answer"
      ENDED=0
    fi
  done
}

while IFS=$'\t' read -r name status key session; do
  [ -n "$name" ] || continue
  if [ -n "$session" ] && grep -qxF -- "${session,,}" <<<"$sessions"; then
    leave "$name: $status, its session is at work: left to it"
    continue
  fi
  look "$key"
  action=$(decide "$name" "$status" "$session")
  if [ -z "$action" ]; then
    [ -n "$session" ] || status="$status, of a client's own"
    leave "$name: $status: not decided, branches on ${THERE[*]:-no shard}; --commit \"$name\" or --rollback \"$name\" decides"
    continue
  fi
  say "$name: $status: $action${dry:+ (not done: --dry-run)}"
  end "$name" "$action"
  # The record goes after the last branch: a shard that is down is asked later.
  [ -n "$dry" ] || [ $ENDED$whole != 11 ] ||
    ask "DELETE FROM mysql.spider_xa WHERE $key; DELETE FROM mysql.spider_xa_member WHERE $key"
done <<<"$transactions"

# Branches of this head without a record: its table was lost. (A record comes before its first branch.)
hex() { printf %s "$1" | od -An -v -tx1 | tr -d ' \n' | tr a-f A-F; }
for shard in $shards; do
  while IFS=$'\t' read -r format length _ data; do
    [[ $format = 1 && $data =~ ^[0-9a-f-]+$ && ${data:length} = "$server_id" ]] || continue
    name="X'$(hex "${data:0:length}")',X'$(hex "$server_id")',1"
    # Those with a record stood above.
    ! grep -qF -- "$name"$'\t' <<<"$transactions" || continue
    [ "$(ask "SELECT COUNT(*) FROM mysql.spider_xa x WHERE $xid = \"$name\"")" = 0 ] || continue
    if [ -z "${decided[$name]:-}" ]; then
      leave "$name: a branch on $shard without a record; --commit \"$name\" or --rollback \"$name\" decides"
      continue
    fi
    say "$name: no record: ${decided[$name]}${dry:+ (not done: --dry-run)}"
    THERE=("$shard")
    end "$name" "${decided[$name]}"
  done <<<"${answers[$shard]}"
done
[ $left = 0 ] && say "no transaction is open"
exit $left
