# A fresh data directory that `make server` copies: bootstrapping one costs seconds and
# CPU each time. Part of the prefix. Sourced, never run.

# Users: root without password, through the socket. One empty database, test.
make_template() {
  "$PREFIX/bin/mariadb-install-db" --no-defaults --basedir="$PREFIX" \
    --datadir="$PREFIX/template" --user="$(id -un)" --skip-test-db --skip-name-resolve \
    --auth-root-authentication-method=normal --innodb-log-file-size=4M &&
    mkdir -p "$PREFIX/template/test"
}
