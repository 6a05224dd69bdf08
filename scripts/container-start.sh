#!/bin/bash
# The first process of the container: a data directory when there is none, then the server.
# MARIADB_ROOT_PASSWORD, or the file that MARIADB_ROOT_PASSWORD_FILE names: the password of root@'%', at the first start.
set -euo pipefail
data=/var/lib/mysql

if [ ! -e "$data/mysql" ]; then
  password=${MARIADB_ROOT_PASSWORD:-}
  [ -z "${MARIADB_ROOT_PASSWORD_FILE:-}" ] || password=$(<"$MARIADB_ROOT_PASSWORD_FILE")
  [ -n "$password" ] || { echo "set MARIADB_ROOT_PASSWORD for the first start" >&2; exit 1; }
  chown mysql:mysql "$data"
  mariadb-install-db --user=mysql --skip-test-db --auth-root-authentication-method=socket >/dev/null
  quoted=${password//\\/\\\\}
  quoted=${quoted//\'/\'\'}
  mariadbd --user=mysql --bootstrap --skip-networking >/dev/null <<SQL
FLUSH PRIVILEGES;
CREATE USER root@'%' IDENTIFIED BY '$quoted';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
SQL
fi
unset MARIADB_ROOT_PASSWORD
exec mariadbd --user=mysql --bind-address=0.0.0.0 --skip-log-error "$@"
