#!/usr/bin/env python3
"""manual.py [--record] [PAGE...]: runs the examples of docs/manual on a server with the engine.

Fenced blocks of a page run in order, in a database `shop` of the page's own:

    ```sql                  statements by the client `mariadb`; without an expected output they must succeed
    ```sql,session=b        the same on another connection; `replica` is a second server
    ```sql,node=shard0      on the server whose DATA is .run/scale/shard0, which the page's `make server` started
    ```sql,background       goes on once the statement waits for a lock; the session's next block has the output of both
    ```sql,skip             not run
    ```sql,server=11.8      run on this server alone; a `text` with it is compared there alone
    ```sh,run               a shell with the server's programs; places such as /backups are the test's own
    ```ini,check            an option file: the server knows each name in it
    ```text                 the output of the block before; `...` stands for any text, alone on a line for any lines

Then: links and headings, the Grafana dashboard's metrics against SHOW GLOBAL STATUS, and docs/variables.md against the
server's names, scopes, defaults and help texts.
--record writes the outputs into the pages. Environment: MARIADB_PREFIX, BASEDIR_OF_LINKS, TIDESDB_ADMIN, MANUAL_WORK.
"""
import difflib
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

import variables_page

REPO = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
MANUAL = os.path.join(REPO, "docs", "manual")
PREFIX = os.environ["MARIADB_PREFIX"]
WORK = os.environ["MANUAL_WORK"]
RELEASE = os.environ.get("TIDESDB_SERVER", "11.8")
BLOCK = re.compile(r"^```(\w+)((?:,[\w=.]+)*)\n(.*?)^```\n", re.M | re.S)
# A page with servers of its own, half a minute: only where it is named (make test-scale-out).
ASKED_FOR = ["scale-out.md"]
NODES = range(3310, 3316)  # their ports, in the page
LIMIT = 20  # seconds for one block
OPTIONS = """[mariadbd]
log_bin = mariadb-bin
server_id = %d
character_set_server = utf8mb4
collation_server = utf8mb4_uca1400_ai_ci
innodb_buffer_pool_size = 32M
tidesdb_data_home_dir = "#tidesdb"
tidesdb_block_cache_size = 32M
tidesdb_unified_memtable_write_buffer_size = 32M
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Server:
    def __init__(self, name, number):
        self.data = os.path.join(WORK, name)
        self.port = free_port()
        shutil.rmtree(self.data, ignore_errors=True)
        os.makedirs(self.data)
        cnf = os.path.join(WORK, name + ".cnf")
        with open(cnf, "w", encoding="utf-8") as file:
            file.write(OPTIONS % number)
        self.environment = dict(os.environ, DATA=self.data, CNF=cnf, PORT=str(self.port))
        self.socket = os.path.join(self.data, "mysqld.sock")

    def script(self, name):
        result = subprocess.run(
            [os.path.join(REPO, "scripts/server.sh"), name], env=self.environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if result.returncode:
            sys.exit("manual: FAILED: %s: %s" % (name, result.stdout))

    def start(self):
        self.script("start")

    def stop(self):
        self.script("stop")

    def command(self, program):
        return [os.path.join(PREFIX, "bin", program), "--no-defaults", "--user=root", "--socket=" + self.socket]

    def query(self, text):
        return subprocess.run(self.command("mariadb") + ["-NBe", text], text=True, stdout=subprocess.PIPE,
                              check=True).stdout


class Node:
    """A server of a page's own, by its directory."""

    def __init__(self, data):
        self.socket = os.path.join(data, "mysqld.sock")

    command = Server.command


class Session:
    """A client that stays connected from block to block."""

    def __init__(self, server, database):
        self.process = subprocess.Popen(
            # Lines as they come: else warnings, which are written last, would stand in the next block.
            ["stdbuf", "-oL"] + server.command("mariadb") + ["--table", "--force", "--unbuffered", "--show-warnings",
                                         "--default-character-set=utf8mb4"] + ([database] if database else []),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines, self.ended, self.sent = [], threading.Condition(), 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            with self.ended:
                self.lines.append(line)
                self.ended.notify()

    def send(self, text):
        self.sent += 1
        try:
            self.process.stdin.write("%s\nsystem echo end-of-block-%d\n" % (text.rstrip("\n"), self.sent))
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def output(self):
        last = "end-of-block-%d\n" % self.sent
        with self.ended:
            self.ended.wait_for(lambda: last in self.lines or self.process.poll() is not None, LIMIT)
            lines, self.lines = self.lines, []
        if last not in lines:
            lines.append("(no end after %d s)\n" % LIMIT)
        text = "".join(line for line in lines if not line.startswith("end-of-block-"))
        # As in a terminal: a failing statement is not shown again, its error once and without a line of the input.
        text = re.sub(r"^-{14}\n(?:.*\n)*?-{14}\n\n", "", text, flags=re.M)
        text = re.sub(r"^Error \(Code \d+\): .*\n", "", text, flags=re.M)
        return re.sub(r"^(ERROR \d+ \(\w+\)) at line \d+", r"\1", text, flags=re.M)

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # its server was ended
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()


def matches(expected, output):
    pattern = []
    for line in expected.rstrip("\n").split("\n"):
        if line.strip() == "...":
            pattern.append(r"(?:.*\n)*?")
        else:
            pattern.append(".*?".join(re.escape(part.rstrip()) for part in line.split("...")) + r"[ ]*\n")
    return re.fullmatch("".join(pattern), output.rstrip("\n") + "\n") is not None


def options_of(block):
    return {option.split("=")[0]: option.split("=")[-1] for option in block.group(2).split(",")[1:]}


class Manual:
    def __init__(self, record):
        self.record, self.passed, self.failed = record, 0, 0
        shutil.rmtree(WORK, ignore_errors=True)
        os.makedirs(os.path.join(WORK, "backups"))
        self.servers = {"main": Server("main", 1)}
        self.sessions = {}
        main = self.servers["main"]
        # The places that the manual names, and where the test has them.
        self.places = [("/run/mysqld/mysqld.sock", main.socket), ("/var/lib/mysql", main.data + "/data"),
                       ("/backups", WORK + "/backups"), ("/var/lib/prometheus/node-exporter", WORK + "/backups"),
                       ("MASTER_HOST='primary'", "MASTER_HOST='127.0.0.1'"),
                       ("MASTER_PORT=3306", "MASTER_PORT=%d" % main.port)]
        self.places += [(str(port), str(free_port())) for port in NODES]
        self.bin = os.path.join(WORK, "bin")
        os.makedirs(self.bin)
        for program in ("mariadb", "mariadb-dump", "mariadb-admin", "mariadb-binlog", "mariadb-check"):
            here = "--no-defaults" if program == "mariadb-binlog" else "--no-defaults --user=root --socket=$socket"
            self.wrapper(program, 'socket=%s\n[ "$1 $2" != "-h replica" ] || { socket=%s/replica/mysqld.sock; shift 2; }\n'
                         '[ "$1" != --no-defaults ] || shift\n'
                         'exec %s/bin/%s %s "$@"' % (main.socket, WORK, PREFIX, program, here))
        self.wrapper("tidesdb-admin", 'exec %s "$@"' % os.environ["TIDESDB_ADMIN"])
        # `make server DATA=...` in a clone, which this directory stands for.
        self.wrapper("make", 'while case $1 in -*) true;; *) false;; esac; do shift; done\n'
                     '[ $1 != prefix ] || { echo %s; exit; }\ntarget=${1/server/start}\nshift\nunset PORT CNF DATA FROM\nexport "$@"\n'
                     'exec %s/scripts/server.sh $target' % (WORK, REPO))
        os.symlink(os.path.join(REPO, "scripts"), os.path.join(WORK, "scripts"))
        self.wrapper("mariadb-backup", 'exec %s/bin/mariadb-backup "$@"' % PREFIX)
        self.wrapper("systemctl", "exec %s/scripts/server.sh $1 >&2" % REPO)
        self.wrapper("sudo", 'while case $1 in -*) true;; *) false;; esac; do [ $1 = -u ] && shift; shift; done; exec "$@"')

    def wrapper(self, name, text):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n%s\n" % text)
        os.chmod(path, 0o755)

    def result(self, name, problem):
        if problem:
            self.failed += 1
            print("manual: FAILED: %s\n%s" % (name, problem))
        else:
            self.passed += 1

    def to_test(self, text):
        for shown, real in self.places:
            text = text.replace(shown, real)
        return text

    def to_page(self, text):
        for shown, real in self.places:
            text = text.replace(real, shown)
        return re.sub(r"[ \t]+$", "", text, flags=re.M)

    def start_replica(self):
        if "replica" not in self.servers:
            self.servers["replica"] = Server("replica", 2)
            self.servers["replica"].start()

    def node_session(self, name):
        """A session on a server that a page started."""
        if name not in self.sessions:
            node = Node(os.path.join(WORK, ".run/scale", name))
            self.sessions[name] = Session(node, None)
        return self.sessions[name]

    def stop_nodes(self):
        for data in glob.glob(os.path.join(WORK, ".run/scale/*/")):
            subprocess.run([os.path.join(REPO, "scripts/server.sh"), "stop"], stdout=subprocess.DEVNULL, check=False,
                           stderr=subprocess.DEVNULL, env=dict(os.environ, DATA=data.rstrip("/")))

    def session(self, name):
        server = "replica" if name == "replica" else "main"
        if server == "replica":
            self.start_replica()
        if name not in self.sessions:
            self.sessions[name] = Session(self.servers[server], "shop" if server == "main" else None)
        return self.sessions[name]

    def lock_waits(self):
        return int(self.servers["main"].query(
            "SELECT COUNT(*) FROM information_schema.tidesdb_trx WHERE state = 'LOCK WAIT'"))

    def close_sessions(self):
        for session in self.sessions.values():
            session.close()
        self.sessions = {}

    def run_block(self, kind, options, text):
        """The output, or None where none is to be compared."""
        if kind == "ini":
            cnf = os.path.join(WORK, "example.cnf")
            with open(cnf, "w", encoding="utf-8") as file:
                file.write(text.replace("loose_", ""))
            done = subprocess.run(
                [os.path.join(PREFIX, "bin/mariadbd"), "--defaults-file=" + cnf, "--basedir=" + PREFIX, "--user=root",
                 "--plugin-dir=%s/lib/mysql/plugin" % os.environ["BASEDIR_OF_LINKS"], "--datadir=" + WORK, "--verbose",
                 "--help"], text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
            return done.stderr + "(status %d)\n" % done.returncode if done.returncode else ""
        if kind == "sh":
            self.close_sessions()
            if "-h replica" in text:
                self.start_replica()
            environment = dict(self.servers["main"].environment, PATH=self.bin + ":" + os.environ["PATH"])
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", self.to_test(text)], env=environment, text=True,
                                  errors="replace", cwd=WORK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=120, check=False)
            lines = [line for line in done.stdout.splitlines(True) if not line.startswith("==> server: ")]
            return self.to_page("".join(lines)) + ("(status %d)\n" % done.returncode if done.returncode else "")
        session = self.node_session(options["node"]) if "node" in options else self.session(options.get("session", "a"))
        waits = self.lock_waits() if "background" in options else 0
        session.send(self.to_test(text))
        if "background" in options:
            end = time.monotonic() + LIMIT
            while self.lock_waits() == waits and time.monotonic() < end:
                time.sleep(0.05)
            return None
        return self.to_page(session.output())

    def page(self, name):
        path = os.path.join(MANUAL, name)
        with open(path, encoding="utf-8") as file:
            source = file.read()
        main = self.servers["main"]
        main.query("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop")
        blocks, written, end = list(BLOCK.finditer(source)), [], 0
        for i, block in enumerate(blocks):
            kind = block.group(1)
            options = options_of(block)
            if options.get("server", RELEASE) != RELEASE:
                continue
            if not (kind == "sql" and "skip" not in options or kind == "sh" and "run" in options
                    or kind == "ini" and "check" in options):
                continue
            output = self.run_block(kind, options, block.group(3))
            if output is None:
                continue
            following = blocks[i + 1] if i + 1 < len(blocks) else None
            expected = None
            if following and following.group(1) == "text" and not source[block.end():following.start()].strip():
                expected = following
                if options_of(following).get("server", RELEASE) != RELEASE:
                    continue
            line = source.count("\n", 0, block.start()) + 1
            where = "docs/manual/%s:%d" % (name, line)
            if expected is None:
                bad = re.search(r"^ERROR|^\(status|^\(no end", output, re.M)
                self.result(where, output if bad else None)
            elif matches(expected.group(3), output):
                self.result(where, None)
            elif self.record:
                written.append(source[end:expected.start(3)] + output)
                end = expected.end(3)
            else:
                self.result(where, "".join(difflib.unified_diff(
                    expected.group(3).splitlines(True), output.splitlines(True), "expected", "output")))
        self.close_sessions()
        if self.record and written:
            with open(path, "w", encoding="utf-8") as file:
                file.write("".join(written) + source[end:])
            print("manual: recorded %d outputs of %s" % (len(written), name))

    def dashboard(self):
        """Each metric of the dashboard is a status variable that mysqld_exporter passes on: one with a number."""
        with open(os.path.join(MANUAL, "grafana-dashboard.json"), encoding="utf-8") as file:
            panels = json.load(file)["panels"]
        status = dict(line.split("\t") for line in self.servers["main"].query("SHOW GLOBAL STATUS").splitlines())
        numbers = {name.lower() for name, value in status.items() if re.fullmatch(r"[\d.]+|ON|OFF|YES|NO", value)}
        used = set()
        for panel in panels:
            for target in panel.get("targets", []):
                names = re.findall(r"mysql_global_status_(\w+)", target["expr"])
                used.update(names)
                missing = [name for name in names if name not in numbers] or ([] if names else ["(no metric)"])
                self.result("grafana-dashboard.json, panel %s" % panel["title"],
                            "not in SHOW GLOBAL STATUS: %s" % ", ".join(missing) if missing else None)
        with open(os.path.join(MANUAL, "alerts.yml"), encoding="utf-8") as file:
            names = set(re.findall(r"mysql_global_status_(\w+)", file.read()))
        missing = sorted(names - numbers)
        self.result("alerts.yml", "not in SHOW GLOBAL STATUS: %s" % ", ".join(missing) if missing or not names else None)

    def variables(self):
        """docs/variables.md and the help texts say what the server does."""
        server = self.servers["main"]
        rows = [line.split("\t") for line in server.query(variables_page.QUERY).splitlines()]
        shown = server.query("SHOW GLOBAL STATUS LIKE 'tidesdb\\_%'").splitlines()
        status = [line.split("\t")[0] for line in shown]
        with open(os.path.join(REPO, "docs", "variables.md"), encoding="utf-8") as file:
            wrong = variables_page.compare(file.read(), rows, status)
        self.result("docs/variables.md", "\n".join(wrong) if wrong or not rows or not status else None)

    def links(self):
        done = subprocess.run([os.path.join(REPO, "scripts/manual/prepare.py"), os.path.join(WORK, "book")], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.result("links", done.stdout if done.returncode else None)


def main():
    arguments = sys.argv[1:]
    manual = Manual("--record" in arguments)
    pages = [name for name in arguments if name != "--record"]
    if not pages:
        with open(os.path.join(MANUAL, "SUMMARY.md"), encoding="utf-8") as file:
            pages = [name for name in re.findall(r"\(([^)/]+\.md)\)", file.read()) if name not in ASKED_FOR]
        manual.links()
    else:
        pages = [name if name.endswith(".md") else name + ".md" for name in pages]
    manual.servers["main"].start()
    try:
        for page in pages:
            start = time.monotonic()
            manual.page(page)
            print("manual: %s in %.1f s" % (page, time.monotonic() - start), flush=True)
        manual.dashboard()
        manual.variables()
    finally:
        manual.close_sessions()
        manual.stop_nodes()
        for server in manual.servers.values():
            server.stop()
    print("manual: %d passed, %d failed" % (manual.passed, manual.failed))
    sys.exit(1 if manual.failed or not manual.passed else 0)


if __name__ == "__main__":
    main()
