# The server's headers for a plugin: those of the source package, those that its build
# generates, and the services library that plugins link. Sourced, never run.

SERVER_HEADERS=$PREFIX/include/server

# Plugins with needs of their own at configure time, none of which we compile.
SKIPPED_PLUGINS=(
  COLUMNSTORE ROCKSDB MROONGA SPIDER OQGRAPH CONNECT AWS_KEY_MANAGEMENT
  HASHICORP_KEY_MANAGEMENT AUTH_PAM AUTH_PAM_V1 AUTH_GSSAPI
)

# source_file PART: the one fetched file whose name has PART: archives are .gz or .xz, and
# carry Debian's version in their names, as in 11.8.9+ds.
source_file() {
  local name
  name=$(sed -n 's/^[0-9a-f]*  //p' "$DOWNLOADS/source.sums" | grep -F "$1" | grep -v '\.asc$' | head -n 1)
  [ -n "$name" ] || fail "the source package has no file *$1*"
  echo "$DOWNLOADS/source/$name"
}

# Of the source only what configuring needs: without the tests and those plugins it is
# a third. Debian's patches are left out, as they change no header.
unpack_source() {
  local work=$1 debian upstream patched
  debian=$(source_file '.debian.tar.')
  upstream=$(source_file '.orig.tar.')
  patched=$(tar -xOf "$debian" --wildcards 'debian/patches/*' |
    grep -a -E '^\+\+\+ .*\.(h|hh|ic|inl)\b' || true)
  [ -z "$patched" ] || fail "Debian patches headers, which is not provided for: $patched"
  rm -rf "$work"
  mkdir -p "$work/build" "$work/source"
  tar -xf "$upstream" -C "$work/source" --strip-components=1 \
    --wildcards --no-wildcards-match-slash \
    --exclude='*/mysql-test/'{main,suite,include,plugin,collections} \
    --exclude='*/storage/'{columnstore,rocksdb,mroonga,spider,oqgraph,connect} \
    --exclude='*/storage/*/mysql-test' --exclude='*/plugin/*/mysql-test' --exclude='*/sql-bench/Data'
}

generate_headers() {
  local work=$1 plugin skip=()
  for plugin in "${SKIPPED_PLUGINS[@]}"; do skip+=("-DPLUGIN_$plugin=NO"); done
  cmake -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DBUILD_CONFIG=mysql_release -DDEB=Debian -DCONC_DEFAULT_CHARSET=utf8mb4 \
    -DWITH_SBOM=NO -DWITH_SSL=system -DWITH_ZLIB=system \
    -DHAVE_SYSTEM_LIBFMT_EXITCODE=0 "${skip[@]}" &&
    make -C "$work/build" -j "$(nproc)" GenError GenServerSource mysqlservices
}

# copy_headers FROM TO: the headers below FROM, in the same folders below TO.
copy_headers() {
  mkdir -p "$2"
  (cd "$1" && find . -name CMakeFiles -prune -o \
    \( -name '*.h' -o -name '*.hh' -o -name '*.hpp' -o -name '*.ic' -o -name '*.inl' \) \
    -type f -print0 | tar -c --null -T - -f -) | tar -x -C "$2" -f -
}

# The include path of a plugin, in the order in which the server's build has it, is
# wsrep-lib/include wsrep-lib/wsrep-API/v26 generated include/providers include sql.
keep_headers() {
  local work=$1
  copy_headers "$work/source/wsrep-lib/include" "$SERVER_HEADERS/wsrep-lib/include" &&
    copy_headers "$work/source/wsrep-lib/wsrep-API/v26" "$SERVER_HEADERS/wsrep-lib/wsrep-API/v26" &&
    copy_headers "$work/build/include" "$SERVER_HEADERS/generated" &&
    copy_headers "$work/build/sql" "$SERVER_HEADERS/sql" &&
    copy_headers "$work/source/include" "$SERVER_HEADERS/include" &&
    copy_headers "$work/source/sql" "$SERVER_HEADERS/sql" &&
    cp "$work/build/libservices/libmysqlservices.a" "$SERVER_HEADERS/" &&
    rm -rf "$work"
}
