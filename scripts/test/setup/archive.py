"""A Debian archive of tiny packages, served on this machine: the mirror of setup's tests.

A version of the fake MariaDB has the packages that setup asks for, a C library for them (this
system's), and a source whose build makes the headers that a prefix must have.
"""

import gzip
import hashlib
import http.server
import io
import lzma
import os
import shutil
import socketserver
import subprocess
import tarfile
import threading
from pathlib import Path

ARCH = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
MULTIARCH = subprocess.check_output(["gcc", "-print-multiarch"], text=True).strip()

# Answers --version; with --bootstrap loads the plugin and looks for its entry.
SERVER = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
  char path[4096] = "", *dir = "", *so = "";
  int bootstrap = 0;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--version")) { puts("mariadbd  Ver " VERSION "-MariaDB for debian-linux-gnu"); return 0; }
    if (!strcmp(argv[i], "--bootstrap")) bootstrap = 1;
    if (!strncmp(argv[i], "--plugin-dir=", 13)) dir = argv[i] + 13;
    if (!strncmp(argv[i], "--plugin-load-add=", 18)) so = argv[i] + 18;
  }
  if (!bootstrap) return 1;
  snprintf(path, sizeof path, "%s/%s", dir, so);
  void *plugin = dlopen(path, RTLD_NOW);
  if (!plugin || !dlsym(plugin, "plugin_entry")) { puts("Error: the plugin does not load"); return 1; }
  return 0;
}
"""

INSTALL_DB = """#!/bin/sh
for word; do case $word in --datadir=*) data=${word#--datadir=} ;; esac; done
mkdir -p "$data/mysql" && : >"$data/mysql/db.frm" && : >"$data/ibdata1"
"""

CMAKE = """cmake_minimum_required(VERSION 3.10)
project(fake C)
file(WRITE ${CMAKE_BINARY_DIR}/include/mysqld_error.h "")
file(WRITE ${CMAKE_BINARY_DIR}/include/my_config.h "")
file(WRITE ${CMAKE_BINARY_DIR}/sql/lex_hash.h "")
add_custom_target(GenError)
add_custom_target(GenServerSource COMMAND sleep $ENV{TEST_HEADERS_SECONDS})
file(WRITE ${CMAKE_BINARY_DIR}/services.c "int services;")
add_library(mysqlservices STATIC ${CMAKE_BINARY_DIR}/services.c)
set_target_properties(mysqlservices PROPERTIES ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/libservices)
"""

PACKAGES = ["mariadb-server", "mariadb-client", "mariadb-plugin-rocksdb", "mariadb-plugin-spider",
            "mariadb-backup", "mariadb-test", "mariadb-test-data"]
# With the headers that the build generates. Packages of 10.11 have none of them.
HEADER_PACKAGES = ["libmariadbd-dev", "libmariadb-dev"]
GENERATED = ["my_config", "mysql_version", "mysqld_error", "mysqld_ername", "sql_state"]


def upstream(version):
    """11.8.9 of 1:11.8.9+ds-0+deb13u1."""
    return version.split(":")[-1].split("-")[0].split("+")[0]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Maker:
    """Makes packages and sources once, for all tests."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.made = {}
        self.lock = threading.RLock()

    def files_of(self, version):
        """{name: bytes} of the packages, and of the source's three files."""
        with self.lock:
            if version not in self.made:
                self.made[version] = (self._packages(version), self._source(version))
            return self.made[version]

    def libraries(self):
        """The C library, of which this system's stands in."""
        with self.lock:
            if "libc6" not in self.made:
                self.made["libc6"] = self._library()
            return self.made["libc6"]

    def _library(self):
        library = f"usr/lib/{MULTIARCH}"
        loader = subprocess.check_output(["patchelf", "--print-interpreter", "/bin/true"], text=True).strip()
        files = {f"{library}/libc.so.6": Path(f"/lib/{MULTIARCH}/libc.so.6").read_bytes(),
                 f"{library}/{Path(loader).name}": Path(loader).read_bytes()}
        return self._deb("libc6", "2.99-1", files, "", "glibc")

    def control_of(self, data):
        """The control file of a package."""
        with self.lock:
            one = self.folder / "one.deb"
            one.write_bytes(data)
            return subprocess.check_output(["dpkg-deb", "-f", one], text=True)

    def _packages(self, version):
        server = self._compiled(upstream(version))
        # As the packages of 10.11 have it.
        tests = "mysql/mysql-test" if upstream(version).startswith("10.") else "mariadb/mariadb-test"
        contents = {
            "mariadb-server": {"usr/sbin/mariadbd": server, "usr/bin/mariadb-install-db": INSTALL_DB.encode()},
            "mariadb-client": {f"usr/bin/{name}": b"#!/bin/sh\n"
                               for name in ("mariadb", "mariadb-dump", "mariadb-binlog")},
            "mariadb-plugin-rocksdb": {"usr/lib/mysql/plugin/ha_rocksdb.so": b"none"},
            "mariadb-backup": {"usr/bin/mariadb-backup": b"#!/bin/sh\n"},
            "mariadb-test": {f"usr/share/{tests}/mtr": b"#!/bin/sh\n"},
        }
        made = {}
        for name in PACKAGES:
            made.update(self._deb(name, version, contents.get(name, {}), "libc6", "mariadb"))
        headers, services = {}, {}
        if not upstream(version).startswith("10."):
            headers = {f"usr/include/mariadb/server/{name}.h": b"/* packaged */\n" for name in GENERATED}
            services = {f"usr/lib/{MULTIARCH}/libmysqlservices.a": b"!<arch>\n"}
        # Of the embedded server's library and of its own libraries setup takes nothing.
        for name, files in zip(HEADER_PACKAGES, (headers, services)):
            made.update(self._deb(name, version, files | {f"usr/lib/{MULTIARCH}/{name}.a": b"none"},
                                  "libmariadbd19t64, libssl-dev", "mariadb"))
        return made

    def _compiled(self, version):
        source, program = self.folder / "server.c", self.folder / "server"
        source.write_text(SERVER)
        subprocess.check_call(["gcc", f'-DVERSION="{version}"', "-o", program, source])
        return program.read_bytes()

    def _deb(self, name, version, files, depends, source):
        root = self.folder / "root"
        shutil.rmtree(root, ignore_errors=True)
        (root / "DEBIAN").mkdir(parents=True)
        control = [f"Package: {name}", f"Source: {source}", f"Version: {version}", f"Architecture: {ARCH}",
                   "Maintainer: Test <test@localhost>", "Description: test"]
        if depends:
            control.append(f"Depends: {depends}")
        (root / "DEBIAN/control").write_text("\n".join(control) + "\n")
        for path, data in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
            (root / path).chmod(0o755)
        deb = f"{name}_{version.split(':')[-1]}_{ARCH}.deb"
        subprocess.check_call(["dpkg-deb", "-Znone", "--build", root, self.folder / deb], stdout=subprocess.DEVNULL)
        return {deb: (self.folder / deb).read_bytes()}

    def _source(self, version):
        bare = version.split(":")[-1]
        orig, _, _ = bare.rpartition("-")
        tree = {"CMakeLists.txt": CMAKE, "include/my_global.h": "", "include/mysql/plugin.h": "",
                "include/probes_mysql_nodtrace.h.in": "/* no probes */",
                "storage/none/none.h": "", "wsrep-lib/include/w.h": "",
                "wsrep-lib/wsrep-API/v26/w.h": "", "sql/handler.h": f"#define SERVER_PATCH {upstream(version).split('.')[-1]}\n"}
        patches = {"debian/patches/series": "fix.patch\n", "debian/patches/fix.patch": "+++ b/sql/handler.cc\n"}
        return {f"mariadb_{bare}.dsc": f"Format: 3.0 (quilt)\nVersion: {version}\n".encode(),
                f"mariadb_{orig}.orig.tar.xz": tar_xz({f"mariadb-{orig}/{k}": v for k, v in tree.items()}),
                f"mariadb_{bare}.debian.tar.xz": tar_xz(patches)}


def tar_xz(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return lzma.compress(data.getvalue(), preset=0)


class Keys:
    """A key that signs the archive's lists, and its keyring."""

    def __init__(self, folder):
        self.home = Path(folder)
        self.home.mkdir(mode=0o700)
        self.keyring = self.home / "keyring.gpg"
        self._gpg("--quick-gen-key", "--passphrase", "", "Test archive", "ed25519", "sign", "never")
        self.keyring.write_bytes(self._gpg("--export"))

    def _gpg(self, *words, data=None):
        return subprocess.run(["gpg", "--homedir", self.home, "--batch", "--quiet", *words], input=data, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

    def sign(self, text):
        return self._gpg("--clearsign", data=text)

    def end(self):
        subprocess.run(["gpgconf", "--homedir", self.home, "--kill", "all"], check=False)


class Archive:
    """A mirror in a folder: suites with lists, and a pool with files that may be in no list."""

    def __init__(self, folder, maker, keys):
        self.folder, self.maker, self.keys = Path(folder), maker, keys

    def pool(self, version, programs=True, source=True):
        """Puts files of a version into the pool."""
        packages, sources = self.maker.files_of(version)
        for name, data in {**(packages if programs else {}), **(sources if source else {})}.items():
            self._put(f"pool/main/m/mariadb/{name}", data)

    def suite(self, name, versions=(), sources=(), libraries=True, keys=None):
        """Writes a suite's lists: packages of some versions, sources of some."""
        packages, source_list = "", ""
        if libraries:
            for deb, data in self.maker.libraries().items():
                self._put(f"pool/main/g/glibc/{deb}", data)
                packages += self._paragraph(deb, data, f"pool/main/g/glibc/{deb}")
        for version in versions:
            for deb, data in self.maker.files_of(version)[0].items():
                packages += self._paragraph(deb, data, f"pool/main/m/mariadb/{deb}")
        for version in sources:
            files = self.maker.files_of(version)[1]
            sums = "".join(f" {sha256(data)} {len(data)} {name}\n" for name, data in files.items())
            md5 = "".join(f" {hashlib.md5(data).hexdigest()} {len(data)} {name}\n" for name, data in files.items())
            source_list += (f"Package: mariadb\nBinary: {', '.join(PACKAGES)}\nVersion: {version}\nArchitecture: any\n"
                            f"Format: 3.0 (quilt)\nFiles:\n{md5}Checksums-Sha256:\n{sums}Directory: pool/main/m/mariadb\n\n")
        lists = {}
        for path, text in ((f"main/binary-{ARCH}/Packages", packages), ("main/source/Sources", source_list)):
            lists |= {path: text.encode(), f"{path}.gz": gzip.compress(text.encode())}
        release = f"Origin: Test\nSuite: {name}\nCodename: {name}\nArchitectures: {ARCH}\nComponents: main\n" \
                  "Date: Mon, 01 Jan 2024 00:00:00 UTC\nSHA256:\n"
        for path, data in lists.items():
            self._put(f"dists/{name}/{path}", data)
            release += f" {sha256(data)} {len(data)} {path}\n"
        self._put(f"dists/{name}/InRelease", (keys or self.keys).sign(release.encode()))

    def record(self, folder, version):
        """Writes the file that the tree would have of a version, with the sums of the true files."""
        packages, sources = self.maker.files_of(version)
        lines = [f"version={version}", "suite=trixie"]
        lines += [f"{sha256(data)} {len(data)} pool/main/m/mariadb/{name}"
                  for name, data in {**packages, **sources}.items()]
        path = Path(folder) / f"mariadb-{upstream(version)}-{ARCH}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")

    def _put(self, path, data):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(data)

    def _paragraph(self, deb, data, path):
        return f"{self.maker.control_of(data)}Filename: {path}\nSize: {len(data)}\nSHA256: {sha256(data)}\n\n"


class Mirror(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Serves a folder; a silent one takes connections and never answers."""

    daemon_threads = True

    def __init__(self, folder, silent=False):
        mirror = self
        self.asked = []
        self.ended = threading.Event()

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *words):
                super().__init__(*words, directory=str(folder))

            def handle(self):
                if silent:
                    mirror.ended.wait(60)
                else:
                    super().handle()

            def do_GET(self):
                mirror.asked.append(self.path)
                super().do_GET()

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self):
        self.ended.set()
        self.shutdown()
        self.server_close()


def environment(base, mirror_url, keyring, archives=("",)):
    """Variables under which apt and setup see that mirror as this system's, and no other.

    `archives` has the suffixes of the archives that the system reads: "" and "-security", say.
    """
    base = Path(base)
    own = next(line.split("=")[1].strip() for line in open("/etc/os-release") if line.startswith("VERSION_CODENAME="))
    (base / "system.list").write_text("".join(f"deb {mirror_url}/debian {own}{part} main\n" for part in archives))
    (base / "apt.conf").write_text(f'Dir::Etc::sourcelist "{base}/system.list";\nDir::Etc::sourceparts "-";\n'
                                   'Acquire::http::Proxy "DIRECT";\n')
    # make test-setup SERVER=10.11 tests the same: each test names its series.
    outer = {name: value for name, value in os.environ.items() if name != "TIDESDB_SERVER"}
    return {**outer, "APT_CONFIG": str(base / "apt.conf"), "TIDESDB_KEYRING": str(keyring),
            "TIDESDB_CACHE": str(base / "cache"), "TIDESDB_RECORDED": str(base / "recorded"),
            "TIDESDB_NET_TIMEOUT": "1", "TEST_HEADERS_SECONDS": "0"}
