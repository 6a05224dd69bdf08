#!/usr/bin/env python3
"""make setup against archives of every kind, each a mirror on this machine (archive.py).

Each test has a tree of its own with the real scripts/setup and a plugin of ten lines, and a cache
of its own. The versions are invented: none is the version of the day. The last line is
"setup: N passed, N failed". Arguments are names of tests.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from archive import ARCH, Archive, Keys, Maker, Mirror, environment

ROOT = Path(__file__).resolve().parents[3]
LISTED = "1:11.8.91+ds-0+deb13u1"
NEWER = "1:11.8.92-0+deb13u1"
OLDER = "1:11.8.60-0+deb13u1"
OTHER_SERIES = "1:10.11.93-0+deb12u1"
RECIPE = re.search(r"^PREFIX_RECIPE=(\d+)$", (ROOT / "scripts/setup/where.sh").read_text(), re.M)[1]

# The plugin of the test's tree: it stops the compiler for one version, and the loader for another.
PLUGIN = """
#include "handler.h"
#if SERVER_PATCH == 92
#error this server is not known
#endif
int plugin_entry%s;
"""
MAKEFILE = """BUILD := build$(if $(filter-out 11.8,$(SERVER)),/$(SERVER))
build-plugin:
\tmkdir -p $(BUILD)
\tgcc -shared -fPIC -I$(MARIADB_PREFIX)/include/server/sql -o $(BUILD)/ha_tidesdb.so plugin.c
"""


class Setup(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = Path(tempfile.mkdtemp(prefix="setup-", dir=os.environ.get("TMPDIR", "/tmp")))
        cls.maker = Maker(cls.shared)
        cls.keys = Keys(cls.shared / "keys")

    @classmethod
    def tearDownClass(cls):
        cls.keys.end()
        shutil.rmtree(cls.shared, ignore_errors=True)

    def setUp(self):
        self.base = Path(tempfile.mkdtemp(prefix="case-", dir=self.shared))
        self.archive = Archive(self.base / "www/debian", self.maker, self.keys)
        self.mirror = Mirror(self.base / "www")
        self.addCleanup(self.mirror.end)
        self.environment = environment(self.base, self.mirror.url, self.keys.keyring)
        (self.base / "recorded").mkdir()
        tree = self.base / "tree"
        shutil.copytree(ROOT / "scripts/setup", tree / "scripts/setup")
        shutil.copytree(ROOT / "scripts/plugin", tree / "scripts/plugin")
        (tree / "Makefile").write_text(MAKEFILE)
        self.plugin("")

    def plugin(self, suffix):
        (self.base / "tree/plugin.c").write_text(PLUGIN % suffix)

    def setup(self, **variables):
        """Runs setup; its exit status and what it said."""
        done = subprocess.run([self.base / "tree/scripts/setup/setup.sh"], env={**self.environment, **variables},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=180)
        return done.returncode, done.stdout

    def succeeds(self, **variables):
        status, said = self.setup(**variables)
        if status:
            logs = sorted((self.base / "cache/logs").glob("*.log"))
            self.fail(said + "".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in logs))
        return said

    def fails(self, **variables):
        status, said = self.setup(**variables)
        self.assertNotEqual(status, 0, said)
        self.assertIn("==> setup: FAILED: ", said.splitlines()[-1])
        return said

    def taken(self, **variables):
        """What where.sh reads, without a network: version, prefix, and the way that the record has."""
        read = 'cd scripts/setup && . ./where.sh && echo "$MARIADB_VERSION|$PREFIX|$(recorded way)"'
        line = subprocess.check_output(["bash", "-euc", read], cwd=self.base / "tree",
                                       env={**self.environment, **variables}, text=True)
        version, prefix, way = line.strip().split("|")
        if prefix:
            said = subprocess.check_output([f"{prefix}/bin/mariadbd", "--version"], text=True)
            self.assertIn(f"Ver {version}-", said)
        return version, way

    def prefix(self, version):
        return self.base / f"cache/mariadb-{version}-{ARCH}-{RECIPE}"

    # --- the choice ---

    def test_a_listed_version_with_its_source_is_taken(self):
        self.archive.pool(LISTED)
        self.archive.suite("trixie", [LISTED], [LISTED])
        self.archive.record(self.base / "recorded", OLDER)
        self.assertEqual(self.taken(), ("", ""))
        said = self.succeeds()
        self.assertEqual(self.taken(), ("11.8.91", "listed"))
        self.assertIn(f"(listed: {LISTED})", said)

    def test_the_security_archive_has_the_newest(self):
        self.environment = environment(self.base, self.mirror.url, self.keys.keyring, ["", "-updates", "-security"])
        newest = "1:11.8.95+ds-0+deb13u2"
        for version in (LISTED, newest):
            self.archive.pool(version)
        self.archive.suite("trixie", [LISTED], [LISTED])
        self.archive.suite("trixie-security", [newest], [newest], libraries=False)
        # There is no trixie-updates: an archive that is not there does not matter.
        self.succeeds()
        self.assertEqual(self.taken(), ("11.8.95", "listed"))

    def test_a_listed_version_whose_source_is_gone_gives_way_to_the_pool(self):
        self.archive.pool(LISTED, source=False)
        self.archive.suite("trixie", [LISTED], [LISTED])
        self.archive.pool(OLDER)
        self.archive.record(self.base / "recorded", OLDER)
        said = self.succeeds()
        self.assertEqual(self.taken(), ("11.8.60", "pool"))
        self.assertRegex(said, rf"not MariaDB {LISTED.replace('+', '.')} \(listed\): .*source.*404")

    def test_a_listed_version_without_a_listed_source_gives_way_too(self):
        self.archive.pool(LISTED)
        self.archive.suite("trixie", [LISTED], [])
        self.archive.pool(OLDER)
        self.archive.record(self.base / "recorded", OLDER)
        self.assertIn("no source of it is listed", self.succeeds())
        self.assertEqual(self.taken(), ("11.8.60", "pool"))

    def test_an_older_listed_version_with_its_source_comes_before_the_pool(self):
        self.archive.pool(LISTED, source=False)
        self.archive.pool(OLDER)
        self.archive.suite("trixie", [LISTED, OLDER], [LISTED, OLDER])
        self.succeeds()
        self.assertEqual(self.taken(), ("11.8.60", "listed"))

    def test_a_version_that_no_list_names_comes_from_the_pool(self):
        self.archive.suite("trixie")
        self.archive.pool(OLDER)
        self.archive.record(self.base / "recorded", OLDER)
        self.assertIn("they list no MariaDB 11.8", self.succeeds())
        self.assertEqual(self.taken(), ("11.8.60", "pool"))

    def test_nothing_of_the_series_is_a_failure_with_a_line_a_way(self):
        other = "1:10.11.99-0+deb12u1"
        self.archive.pool(other)
        self.archive.suite("trixie", [other], [other])
        said = self.fails()
        for reason in ("they list no MariaDB 11.8", "the tree records no MariaDB 11.8",
                       "TIDESDB_SNAPSHOT_URL is not set"):
            self.assertEqual(said.count(reason), 2, said)
        self.assertIn("TIDESDB_MARIADB_VERSION", said.splitlines()[-1])
        self.assertEqual(self.taken(), ("", ""))

    def test_a_recorded_file_with_a_wrong_sum_is_refused(self):
        self.archive.suite("trixie")
        self.archive.pool(OLDER)
        self.archive.record(self.base / "recorded", OLDER)
        name = f"mariadb-server_{OLDER.split(':')[1]}_{ARCH}.deb"
        path = self.base / "www/debian/pool/main/m/mariadb" / name
        good = path.read_bytes()
        path.write_bytes(good[:-1] + b"x")
        self.assertRegex(self.fails(), rf"{name.replace('+', '.')} cannot be fetched .* or is not the recorded file")
        self.assertFalse(self.prefix("11.8.60").exists())
        # The same file from a snapshot is good.
        other = Archive(self.base / "www/snapshot", self.maker, self.keys)
        other.suite("trixie")
        other.pool(OLDER)
        self.succeeds(TIDESDB_SNAPSHOT_URL=f"{self.mirror.url}/snapshot/")
        self.assertEqual(self.taken(), ("11.8.60", "snapshot"))

    def test_a_listed_file_with_a_wrong_sum_is_refused(self):
        self.archive.pool(LISTED)
        self.archive.suite("trixie", [LISTED], [LISTED])
        path = self.base / f"www/debian/pool/main/m/mariadb/mariadb-backup_{LISTED.split(':')[1]}_{ARCH}.deb"
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        self.fails()
        self.assertEqual(self.taken(), ("", ""))

    def test_lists_that_another_key_signed_are_not_read(self):
        stranger = Keys(self.base / "stranger")
        self.addCleanup(stranger.end)
        self.archive.pool(LISTED)
        self.archive.suite("trixie", [LISTED], [LISTED], keys=stranger)
        self.assertIn("the package lists of trixie cannot be read", self.fails())

    def test_a_mirror_that_does_not_answer(self):
        silent = Mirror(self.base / "www", silent=True)
        self.addCleanup(silent.end)
        self.environment = environment(self.base, silent.url, self.keys.keyring)
        self.archive.record(self.base / "recorded", OLDER)
        start = time.monotonic()
        self.assertIn(f"cannot be read from {silent.url}/debian", self.fails())
        self.assertLess(time.monotonic() - start, 60)
        # A snapshot needs nothing of the mirror.
        self.archive.suite("trixie")
        self.archive.pool(OLDER)
        self.succeeds(TIDESDB_SNAPSHOT_URL=f"{self.mirror.url}/debian")
        self.assertEqual(self.taken(), ("11.8.60", "snapshot"))

    def test_a_version_on_which_the_plugin_does_not_compile(self):
        for version in (NEWER, OLDER):
            self.archive.pool(version)
        self.archive.suite("trixie", [NEWER], [NEWER])
        self.archive.record(self.base / "recorded", OLDER)
        self.assertRegex(self.succeeds(), r"not MariaDB 1:11.8.92-0.deb13u1 \(listed\): building the plugin.*")
        self.assertEqual(self.taken(), ("11.8.60", "pool"))

    def test_a_version_whose_server_does_not_load_the_plugin(self):
        self.archive.pool(LISTED)
        self.archive.suite("trixie", [LISTED], [LISTED])
        self.plugin("_of_another_name")
        self.assertIn("Error: the plugin does not load", self.fails())
        self.assertEqual(self.taken(), ("", ""))

    # --- the choice is made once ---

    def test_a_machine_that_was_set_up_needs_no_network(self):
        self.archive.pool(LISTED)
        self.archive.suite("trixie", [LISTED], [LISTED])
        self.succeeds()
        asked = len(self.mirror.asked)
        self.archive.pool("1:11.8.95-1")
        self.archive.suite("trixie", ["1:11.8.95-1"], ["1:11.8.95-1"])
        self.assertIn("11.8.91 is ready", self.succeeds())
        self.assertEqual(len(self.mirror.asked), asked)
        # UPDATE=1 asks again; with the mirror gone it fails, and the choice stays.
        self.succeeds(UPDATE="1")
        self.assertEqual(self.taken(), ("11.8.95", "listed"))
        shutil.rmtree(self.base / "www/debian")
        self.assertIn("MariaDB 11.8.95, the recorded one, stays in use", self.fails(UPDATE="1"))
        self.assertEqual(self.taken(), ("11.8.95", "listed"))
        self.assertIn("is ready", self.succeeds())

    def test_a_version_can_be_asked_for(self):
        for version in (LISTED, OLDER):
            self.archive.pool(version)
        self.archive.suite("trixie", [LISTED], [LISTED])
        self.archive.record(self.base / "recorded", OLDER)
        said = self.fails(TIDESDB_MARIADB_VERSION="11.8.3")
        self.assertIn(f"they list {LISTED}, not 11.8.3", said)
        self.assertIn("the plugin is for MariaDB 11.8", self.fails(TIDESDB_MARIADB_VERSION="11.4.3"))
        self.succeeds(TIDESDB_MARIADB_VERSION="11.8.60")
        self.assertEqual(self.taken(), ("11.8.60", "pool"))
        # It is the recorded one from now on, and the other comes when it is asked for.
        self.assertIn("11.8.60 is ready", self.succeeds())
        self.succeeds(TIDESDB_MARIADB_VERSION="11.8.91")
        self.assertEqual(self.taken(), ("11.8.91", "listed"))
        self.succeeds(TIDESDB_MARIADB_VERSION=OLDER)
        self.assertEqual(self.taken(), ("11.8.60", "pool"))

    def test_a_cache_of_an_earlier_revision_is_kept(self):
        self.archive.pool(LISTED)
        self.archive.suite("trixie", [LISTED], [LISTED])
        self.succeeds()
        (self.base / f"cache/server-11.8-{ARCH}-{RECIPE}").unlink()
        self.mirror.asked.clear()
        self.succeeds()
        self.assertEqual(self.taken(), ("11.8.91", "cache"))
        self.assertEqual(self.mirror.asked, [])

    # --- the other series ---

    def test_a_second_server_stands_beside_the_first(self):
        for version, suite in ((LISTED, "trixie"), (OTHER_SERIES, "bookworm")):
            self.archive.pool(version)
            self.archive.suite(suite, [version], [version])
        self.succeeds()
        first = (self.base / "tree/build/ha_tidesdb.so").stat()
        said = self.succeeds(TIDESDB_SERVER="10.11")
        self.assertIn("MariaDB 10.11.93 is ready", said)
        self.assertEqual(self.taken(TIDESDB_SERVER="10.11"), ("10.11.93", "listed"))
        self.assertEqual(self.taken(), ("11.8.91", "listed"))
        # Each has a plugin of its own.
        self.assertTrue((self.base / "tree/build/10.11/ha_tidesdb.so").exists())
        self.assertEqual((self.base / "tree/build/ha_tidesdb.so").stat().st_mtime_ns, first.st_mtime_ns)
        # One place for the tests of both, and the one that the older programs know.
        for path in ("bin/mtr", "share/mariadb/mariadb-test/mtr", "share/mysql/mysql-test/mtr"):
            self.assertTrue((self.prefix("10.11.93") / path).exists(), path)
        asked = len(self.mirror.asked)
        self.assertIn("10.11.93 is ready", self.succeeds(TIDESDB_SERVER="10.11"))
        self.assertIn("11.8.91 is ready", self.succeeds())
        self.assertEqual(len(self.mirror.asked), asked)

    def test_a_series_without_a_plugin_is_refused(self):
        self.assertIn("SERVER=10.6: the plugin is for MariaDB 10.11 and 11.8", self.fails(TIDESDB_SERVER="10.6"))

    def test_a_prefix_of_another_series_does_not_build(self):
        version = self.base / "other/include/server/generated/mysql_version.h"
        version.parent.mkdir(parents=True)
        version.write_text('#define MYSQL_BASE_VERSION\t\t"mysqld-11.4"\n')
        built = subprocess.run(["make", "-C", ROOT, "-s", "-f", "plugin/build.mk", f"PREFIX={self.base}/other", "BUILD=build/none"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment)
        self.assertNotEqual(built.returncode, 0)
        self.assertIn("has MariaDB 11.4: the plugin is for MariaDB 10.11 and 11.8", built.stdout)

    # --- headers ---

    def headers(self, version):
        """The prefix's headers, each with what it says first."""
        folder = self.prefix(version) / "include/server"
        return {str(path.relative_to(folder)): path.read_text()[:10] for path in folder.rglob("*.h")}

    def test_headers_that_packages_have_are_not_generated(self):
        self.archive.pool(LISTED)
        self.archive.suite("trixie", [LISTED], [LISTED])
        # cmake would wait for longer than the test.
        self.succeeds(TEST_HEADERS_SECONDS="600")
        headers = self.headers("11.8.91")
        for name in ("my_config", "mysql_version", "mysqld_error", "mysqld_ername", "sql_state"):
            self.assertEqual(headers[f"generated/{name}.h"], "/* package")
        self.assertEqual(headers["generated/probes_mysql_nodtrace.h"], "/* no prob")
        for path in ("include/my_global.h", "include/mysql/plugin.h", "sql/handler.h", "wsrep-lib/include/w.h",
                     "wsrep-lib/wsrep-API/v26/w.h"):
            self.assertIn(path, headers)
        self.assertTrue((self.prefix("11.8.91") / "include/server/libmysqlservices.a").exists())
        self.assertEqual(list(self.prefix("11.8.91").rglob("libmariadb*-dev.a")), [])

    def test_headers_that_no_package_has_are_generated(self):
        self.archive.pool(OTHER_SERIES)
        self.archive.suite("bookworm", [OTHER_SERIES], [OTHER_SERIES])
        self.succeeds(TIDESDB_SERVER="10.11")
        self.assertEqual(self.headers("10.11.93")["generated/my_config.h"], "")
        self.assertFalse([path for path in self.mirror.asked if "-dev_" in path])

    def test_a_version_without_its_header_packages_gives_way(self):
        self.archive.pool(LISTED)
        name = f"libmariadbd-dev_{LISTED.split(':')[1]}_{ARCH}.deb"
        self.archive.suite("trixie", [LISTED], [LISTED])
        (self.base / "www/debian/pool/main/m/mariadb" / name).unlink()
        self.archive.pool(OLDER)
        self.archive.record(self.base / "recorded", OLDER)
        self.assertRegex(self.succeeds(), r"not MariaDB 1:11.8.91.* \(listed\): fetching libmariadbd-dev")
        self.assertEqual(self.taken(), ("11.8.60", "pool"))
        self.assertEqual(self.headers("11.8.60")["generated/my_config.h"], "/* package")

    def test_a_prefix_of_an_earlier_recipe_is_not_taken(self):
        self.archive.pool(LISTED)
        self.archive.suite("trixie", [LISTED], [LISTED])
        self.succeeds()
        cache = self.base / "cache"
        earlier = int(RECIPE) - 1
        self.prefix("11.8.91").rename(cache / f"mariadb-11.8.91-{ARCH}-{earlier}")
        (cache / f"server-11.8-{ARCH}-{RECIPE}").rename(cache / f"server-11.8-{ARCH}-{earlier}")
        self.assertEqual(self.taken_version(), "")
        self.succeeds()
        self.assertEqual(self.taken(), ("11.8.91", "listed"))

    # --- faults ---

    def test_a_set_up_that_was_killed_is_made_whole(self):
        self.archive.pool(OTHER_SERIES)
        self.archive.suite("bookworm", [OTHER_SERIES], [OTHER_SERIES])
        running = subprocess.Popen([self.base / "tree/scripts/setup/setup.sh"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                   env={**self.environment, "TIDESDB_SERVER": "10.11", "TEST_HEADERS_SECONDS": "60"})
        services = self.prefix("10.11.93") / "source/build/libservices"
        for _ in range(600):
            if services.exists() or running.poll() is not None:
                break
            time.sleep(0.1)
        self.assertTrue(services.exists())
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        self.assertEqual(self.taken_version(TIDESDB_SERVER="10.11"), "")
        self.succeeds(TIDESDB_SERVER="10.11")
        self.assertEqual(self.taken(TIDESDB_SERVER="10.11"), ("10.11.93", "listed"))

    def test_a_prefix_that_lost_a_file_is_made_again(self):
        self.archive.pool(LISTED)
        self.archive.suite("trixie", [LISTED], [LISTED])
        self.succeeds()
        lost = self.prefix("11.8.91") / "include/server/sql/handler.h"
        lost.unlink()
        self.assertIn("include/server/sql/handler.h", self.succeeds())
        self.assertTrue(lost.exists())

    def taken_version(self, **variables):
        read = 'cd scripts/setup && . ./where.sh && echo "$MARIADB_VERSION"'
        return subprocess.check_output(["bash", "-euc", read], cwd=self.base / "tree",
                                       env={**self.environment, **variables}, text=True).strip()

    def test_the_makefile_helps_before_any_set_up(self):
        said = subprocess.check_output(["make", "--no-print-directory", "-C", ROOT, "help"], env=self.environment, text=True)
        self.assertIn("a MariaDB 11.8", said)
        groups = [line for line in said.splitlines() if line and not line.startswith(" ")]
        self.assertEqual(groups, ["Use", "Test", "Measure"])
        self.assertFalse((self.base / "cache").exists())


def run(test):
    result = unittest.TestResult()
    start = time.monotonic()
    test.run(result)
    faults = [text for _, text in result.failures + result.errors]
    print(f"{test.id().split('.')[-1]} ... {'FAILED' if faults else 'ok'} ({time.monotonic() - start:.0f} s)",
          *faults, sep="\n", flush=True)
    return not faults


def main():
    tests = list(unittest.defaultTestLoader.loadTestsFromTestCase(Setup))
    if len(sys.argv) > 1:
        tests = [test for test in tests if test.id().split(".")[-1] in sys.argv[1:]]
    Setup.setUpClass()
    try:
        # Tests wait for the disk and for each other's locks as often as for a processor.
        with ThreadPoolExecutor(3) as pool:
            passed = list(pool.map(run, tests))
    finally:
        Setup.tearDownClass()
    print(f"setup: {sum(passed)} passed, {len(passed) - sum(passed)} failed", flush=True)
    sys.exit(0 if passed and all(passed) else 1)


if __name__ == "__main__":
    main()
