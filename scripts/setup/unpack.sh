# Unpacks the fetched packages into $PREFIX: the server's own whole but for what nobody
# runs here, of the others only the shared libraries. Sourced, never run.

LIBRARIES=$PREFIX/usr/lib/$MULTIARCH

unpack_packages() {
  local scratch=$PREFIX/unpacking deb
  mkdir -p "$LIBRARIES" "$scratch"
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
    -name '*.so*' -exec cp -a -t "$LIBRARIES" {} + 2>/dev/null || true
  rm -rf "$scratch" "$PREFIX/etc" "$PREFIX/var"
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
