# How a prefix is made of fetched packages and source, and whether one is whole. Sourced, never run.

# --- whole or not ---
#
# The stamp is written last, so a half-made prefix has none. It lists every file with
# its size: what was lost or cut short since shows in a fraction of a second. Files
# that came in addition are nobody's harm.

list_files() {
  find "$PREFIX" -mindepth 1 ! -type d ! -path "$STAMP*" -printf '%s %P\n' | LC_ALL=C sort
}

write_stamp() {
  list_files >"$STAMP.new"
  mv "$STAMP.new" "$STAMP"
}

prefix_is_whole() {
  [ -e "$STAMP" ] || { REASON="no stamp of a finished one"; return 1; }
  local lost
  lost=$(LC_ALL=C comm -23 "$STAMP" <(list_files) | sed -n 1p)
  [ -z "$lost" ] || { REASON="lost or changed: ${lost#* }"; return 1; }
  prefix_works
}

prefix_works() {
  local key
  for key in usr/lib/mysql/plugin/ha_rocksdb.so bin/mariadb-backup bin/mariadb-dump \
    bin/mariadb-binlog bin/mtr include/server/sql/handler.h include/server/generated/my_config.h \
    include/server/generated/mysqld_error.h include/server/libmysqlservices.a \
    template/mysql/db.frm template/ibdata1; do
    [ -e "$PREFIX/$key" ] || { REASON="lacks $key"; return 1; }
  done
  "$PREFIX/bin/mariadbd" --no-defaults --version 2>/dev/null | grep -F "Ver $MARIADB_VERSION-" >/dev/null ||
    { REASON="mariadbd does not run"; return 1; }
}

# --- programs and libraries ---

# Unpacks the fetched packages into $PREFIX: the server's own whole but for what nobody
# runs here, of the others only the shared libraries.
unpack_packages() {
  local scratch=$PREFIX/unpacking libraries=$PREFIX/usr/lib/$MULTIARCH deb
  mkdir -p "$libraries" "$scratch"
  for deb in "$DOWNLOADS"/archives/*.deb; do
    grep -qF "  $(basename "$deb")" "$DOWNLOADS/archives.sums" || continue
    case $(basename "$deb") in
      mariadb-* | mysql-* | libmariadb3_*) dpkg-deb -x "$deb" "$PREFIX" ;;
      lib*-perl_* | libperl* | libpython* | libpam-modules*) ;;
      lib* | zlib1g_*) dpkg-deb -x "$deb" "$scratch" ;;
    esac
  done
  # Flat: nothing here loads gconv, nss or engine modules from below.
  find "$scratch/usr/lib/$MULTIARCH" "$scratch/lib/$MULTIARCH" -maxdepth 1 \
    -name '*.so*' -exec cp -a -t "$libraries" {} + 2>/dev/null || true
  rm -rf "$scratch" "${PREFIX:?}/etc" "${PREFIX:?}/var"
  # Packages of older suites have some files outside of usr/.
  local folder
  for folder in bin sbin lib; do
    [ -d "$PREFIX/$folder" ] || continue
    mkdir -p "$PREFIX/usr/$folder"
    cp -a "$PREFIX/$folder/." "$PREFIX/usr/$folder/"
    rm -rf "${PREFIX:?}/$folder"
  done
  # Documents, and the embedded server, which is half of the packages' size.
  rm -rf "$PREFIX"/usr/share/{doc,man,lintian,locale,apport,bug} \
    "$PREFIX"/usr/bin/{mysql_client_test_embedded,mysqltest_embedded} \
    "$PREFIX"/usr/bin/{mariadb-client-test-embedded,mariadb-test-embedded}
}

# Packages of 10.11 have share/mysql/mysql-test: the files get the later names, and the old ones lead there.
name_share() {
  local share=$PREFIX/usr/share
  [ -d "$share/mysql/mysql-test" ] && [ ! -e "$share/mariadb" ] || return 0
  mv "$share/mysql" "$share/mariadb"
  ln -s mariadb "$share/mysql"
  mv "$share/mariadb/mysql-test" "$share/mariadb/mariadb-test"
  ln -s mariadb-test "$share/mariadb/mysql-test"
}

# bin/ has every program, the server too; lib and share make it a --basedir.
link_programs() {
  local program
  mkdir -p "$PREFIX/bin"
  for program in "$PREFIX"/usr/bin/* "$PREFIX"/usr/sbin/*; do
    ln -sf "../${program#"$PREFIX"/}" "$PREFIX/bin/"
  done
  [ ! -e "$PREFIX/usr/share/mariadb/mariadb-test/mtr" ] ||
    ln -sf ../usr/share/mariadb/mariadb-test/mtr "$PREFIX/bin/mtr"
  ln -sfn usr/lib "$PREFIX/lib"
  ln -sfn usr/share "$PREFIX/share"
  ln -sfn usr/sbin "$PREFIX/sbin"
}

is_elf() { [ "$(head -c 4 "$1" | tail -c 3)" = ELF ]; }

relink_one() {
  local file=$1 loader=$2 libraries=$3
  is_elf "$file" 2>/dev/null || return 0
  if patchelf --print-interpreter "$file" >/dev/null 2>&1; then
    patchelf --set-interpreter "$loader" "$file" || return 1
  fi
  # Static programs have no dynamic section and need nothing.
  readelf -d "$file" 2>/dev/null | grep -q NEEDED || return 0
  patchelf --force-rpath --set-rpath "$libraries" "$file"
}

# relink_prefix PROGRAM: points every program and library in $PREFIX to the loader and libraries next to it: they need
# another C library than the system's. PROGRAM is the server, below $PREFIX.
relink_prefix() {
  local server=$PREFIX/$1 libraries=$PREFIX/usr/lib/$MULTIARCH loader
  loader=$libraries/$(basename "$(patchelf --print-interpreter "$server")")
  [ -x "$loader" ] || fail "the packages brought no loader at $loader"
  export -f is_elf relink_one
  # The C library and the loader are what the others find; they stay as they are.
  local folder folders=()
  for folder in usr/bin usr/sbin usr/libexec usr/lib usr/share/mariadb/mariadb-test; do
    [ ! -d "$PREFIX/$folder" ] || folders+=("$PREFIX/$folder")
  done
  find "${folders[@]}" -type f ! -name 'libc.so.6' ! -name 'libc-2.*.so' ! -name 'ld-*' -size +1k \
    \( -perm /111 -o -name '*.so*' \) -print0 |
    xargs -0 -P "$(nproc)" -n 8 bash -c \
      'for f in "${@:2}"; do relink_one "$f" "$0" "$1" || exit 255; done' \
      "$loader" "$libraries"
  # A library that comes from elsewhere would be the system's, of another C library.
  local stranger
  stranger=$("$loader" --list "$server" |
    grep -v -e "$PREFIX" -e linux-vdso || true)
  [ -z "$stranger" ] || fail "${1##*/} would load from outside its prefix: $stranger"
}

# A fresh data directory that `make server` copies: bootstrapping one costs seconds and
# CPU each time.
# Users: root without password, through the socket. One empty database, test.
make_template() {
  "$PREFIX/bin/mariadb-install-db" --no-defaults --basedir="$PREFIX" \
    --datadir="$PREFIX/template" --user="$(id -un)" --skip-test-db --skip-name-resolve \
    --auth-root-authentication-method=normal --innodb-log-file-size=4M &&
    mkdir -p "$PREFIX/template/test"
}

# --- headers ---
#
# The server's headers for a plugin: those of the source package, those that its build
# generates, and the services library that plugins link. What the build generated is in packages
# (HEADER_PACKAGES), or is generated here.

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

# Of the source only the folders of headers, or what configuring needs: without the tests and those plugins it is
# a third. Debian's patches are left out, as they change no header.
unpack_source() {
  local work=$1 debian upstream patched folder only=()
  debian=$(source_file '.debian.tar.')
  upstream=$(source_file '.orig.tar.')
  patched=$(tar -xOf "$debian" --wildcards 'debian/patches/*' |
    grep -a -E '^\+\+\+ .*\.(h|hh|ic|inl)\b' || true)
  [ -z "$patched" ] || fail "Debian patches headers, which is not provided for: $patched"
  rm -rf "$work"
  mkdir -p "$work/build" "$work/source"
  if [ ${#HEADER_PACKAGES[@]} -gt 0 ]; then
    for folder in include sql wsrep-lib/include wsrep-lib/wsrep-API/v26; do only+=("*/$folder"); done
  fi
  tar -xf "$upstream" -C "$work/source" --strip-components=1 \
    --wildcards --no-wildcards-match-slash "${only[@]}" \
    --exclude='*/mysql-test/'{main,suite,include,plugin,collections} \
    --exclude='*/storage/'{columnstore,rocksdb,mroonga,spider,oqgraph,connect} \
    --exclude='*/storage/*/mysql-test' --exclude='*/plugin/*/mysql-test' --exclude='*/sql-bench/Data'
}

# take_headers WORK: puts what the packages have of the server's build where generate_headers would. The
# source has what it makes of the probes for tracers.
take_headers() {
  local build=$1/build scratch=$1/packages name
  mkdir -p "$scratch" "$build/include" "$build/sql" "$build/libservices"
  while read -r _ name; do
    dpkg-deb --fsys-tarfile "$DOWNLOADS/headers/$name" | tar -x -C "$scratch" --exclude='libmariadb*.a'
  done <"$DOWNLOADS/headers.sums"
  for name in my_config mysql_version mysqld_error mysqld_ername sql_state; do
    cp "$scratch/usr/include/mariadb/server/$name.h" "$build/include/" || return 1
  done
  cp "$scratch/usr/lib/$MULTIARCH/libmysqlservices.a" "$build/libservices/" &&
    cp "$1/source/include/probes_mysql_nodtrace.h.in" "$build/include/probes_mysql_nodtrace.h"
}

# The programs that write them run once: optimising them would take longer than they do.
generate_headers() {
  local work=$1 plugin skip=()
  for plugin in "${SKIPPED_PLUGINS[@]}"; do skip+=("-DPLUGIN_$plugin=NO"); done
  cmake -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DBUILD_CONFIG=mysql_release -DDEB=Debian -DCONC_DEFAULT_CHARSET=utf8mb4 \
    -DWITH_SBOM=NO -DWITH_SSL=system -DWITH_ZLIB=system \
    -DCMAKE_C_FLAGS_RELWITHDEBINFO=-O0 -DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 \
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
  local work=$1 headers=$PREFIX/include/server
  copy_headers "$work/source/wsrep-lib/include" "$headers/wsrep-lib/include" &&
    copy_headers "$work/source/wsrep-lib/wsrep-API/v26" "$headers/wsrep-lib/wsrep-API/v26" &&
    copy_headers "$work/build/include" "$headers/generated" &&
    copy_headers "$work/build/sql" "$headers/sql" &&
    copy_headers "$work/source/include" "$headers/include" &&
    copy_headers "$work/source/sql" "$headers/sql" &&
    cp "$work/build/libservices/libmysqlservices.a" "$headers/" &&
    rm -rf "$work"
}
