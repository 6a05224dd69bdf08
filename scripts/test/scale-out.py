#!/usr/bin/env python3
"""scale-out.py [SEED]: scripts/scale-out/settle.sh on a Spider head over two TidesDB shards.

First each state that a dead head can leave, made by hand. Then writers of pairs, one row on each shard in a transaction,
while the head is killed: after the script both shards have the same pairs, all acknowledged ones among them, and no
branch is left. The last line is "scale-out: N passed, N failed".
Environment: MARIADB_PREFIX, BASEDIR_OF_LINKS, SCALE_WORK; ROUNDS (6).
"""
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time

REPO = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
CLIENT = os.path.join(os.environ["MARIADB_PREFIX"], "bin/mariadb")
WORK = os.environ["SCALE_WORK"]
OLD = os.environ.get("TIDESDB_SERVER", "11.8") == "10.11"
SHARDS = ["127.0.0.1", "127.0.0.2"]
COMMON = "innodb_buffer_pool_size = 16M\n"
SHARD = COMMON + "tidesdb_block_cache_size = 32M\ntidesdb_unified_memtable_write_buffer_size = 32M\n"
XID = "X'61',X'31',1"  # session 10 (a) of server 1
# The records of a head: state, shards with a member, shards with a branch; the arguments; what is left of 2 rows, or
# None where the script is to leave the transaction.
CASES = [
    ("NOT YET", "01", "0", [], 0),
    ("NOT YET", "", "01", [], 0),
    ("NOT YET", "01", "", [], 0),
    ("ROLLBACK", "01", "1", [], 0),
    ("PREPARED", "01", "01", [], 0),
    ("PREPARED", "01", "0", [], None),
    ("PREPARED", "", "01", [], None),
    ("PREPARED", "01", "0", ["--commit", XID], 1),
    ("PREPARED", "01", "01", ["--rollback", XID], 0),
    ("COMMIT", "01", "01", [], 2),
    ("COMMIT", "01", "1", [], 1),
    ("COMMIT", "01", "01", ["--dry-run"], None),
    (None, "01", "", [], 0),
    (None, "01", "01", [], None),
    (None, "", "1", [], None),
    (None, "", "1", ["--rollback", XID], 0),
]


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Server:
    def __init__(self, name, address, number, options):
        self.data, self.port = os.path.join(WORK, name), free_port()
        self.socket = os.path.join(self.data, "mysqld.sock")
        self.cnf = self.data + ".cnf"
        with open(self.cnf, "w", encoding="utf-8") as file:
            file.write("[mariadbd]\nbind_address = %s\nserver_id = %d\n%s" % (address, number, options))

    def run(self, name):
        done = subprocess.run([os.path.join(REPO, "scripts/server.sh"), name], stdin=subprocess.DEVNULL, text=True,
                              env=dict(os.environ, DATA=self.data, CNF=self.cnf, PORT=str(self.port)),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            sys.exit("scale-out: FAILED: %s: %s" % (name, done.stdout))

    def kill(self):
        with open(os.path.join(self.data, "mysqld.pid"), encoding="utf-8") as file:
            pid = int(file.read())
        os.kill(pid, 9)
        while os.path.exists("/proc/%d" % pid):
            time.sleep(0.02)

    def client(self):
        return [CLIENT, "--no-defaults", "--skip-ssl", "--user=root", "--socket=" + self.socket, "-N", "-B", "--unbuffered"]

    def sql(self, text):
        return subprocess.run(self.client(), input=text, text=True, stdout=subprocess.PIPE, check=True).stdout.split()


def settle(head, arguments):
    done = subprocess.run([os.path.join(REPO, "scripts/scale-out/settle.sh"), *arguments, *head.client()[1:5]], text=True,
                          env=dict(os.environ, MARIADB=CLIENT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    return done.returncode, done.stdout


class Test:
    def __init__(self):
        self.passed = self.failed = 0
        self.shards = [Server("shard%d" % i, SHARDS[i], 10 + i, SHARD) for i in range(2)]
        self.head = Server("head", SHARDS[0], 1, COMMON + "plugin_load_add = ha_spider\nspider_internal_xa = ON\n")
        self.servers = [*self.shards, self.head]

    def check(self, name, good, told):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print("scale-out: FAILED: %s\n%s" % (name, told), flush=True)

    def make(self):
        for server in self.servers:
            server.run("start")
        parts = []
        for i, shard in enumerate(self.shards):
            shard.sql("CREATE DATABASE d; CREATE TABLE d.t%d (id INT PRIMARY KEY) ENGINE=TidesDB;"
                      "CREATE USER spider@'127.0.0.%%' IDENTIFIED BY 'it''s a:password';"
                      "GRANT SELECT, INSERT, UPDATE, DELETE, LOCK TABLES ON d.* TO spider@'127.0.0.%%'" % i)
            self.head.sql("CREATE SERVER s%d FOREIGN DATA WRAPPER mysql OPTIONS (HOST '%s', PORT %d, USER 'spider',"
                          "PASSWORD 'it''s a:password', DATABASE 'd')" % (i, SHARDS[i], shard.port))
            parts.append("PARTITION p%d %s" % (i, ("COMMENT='srv \"s%d\", table \"t%d\"'" if OLD else
                                                  "REMOTE_SERVER=s%d REMOTE_TABLE=t%d") % (i, i)))
        self.head.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=SPIDER PARTITION BY HASH (id) (%s)"
                      % ", ".join(parts))

    def branches(self):
        return [len(shard.sql("XA RECOVER")) // 4 for shard in self.shards]

    def records(self):
        return int(self.head.sql("SELECT (SELECT COUNT(*) FROM mysql.spider_xa)"
                                 " + (SELECT COUNT(*) FROM mysql.spider_xa_member)")[0])

    def case(self, state, members, branches, arguments, rows):
        if state:
            self.head.sql("INSERT INTO mysql.spider_xa VALUES (1, 1, 1, 'a1', '%s')" % state)
        for i in map(int, members):
            self.head.sql("INSERT INTO mysql.spider_xa_member (format_id, gtrid_length, bqual_length, data, scheme, host,"
                          "port, socket, username, password) VALUES (1, 1, 1, 'a1', 'mysql', '%s', '%d', '', 'spider',"
                          "'it''s a:password')" % (SHARDS[i], self.shards[i].port))
        for i in map(int, branches):
            self.shards[i].sql("XA START %s; INSERT INTO d.t%d VALUES (%d); XA END %s; XA PREPARE %s"
                               % (XID, i, -2 - i, XID, XID))
        before = self.branches(), self.records()
        status, told = settle(self.head, arguments)
        name = "%s, members %s, branches %s %s" % (state, members, branches, arguments)
        if rows is None:
            self.check(name, status == 1 and (self.branches(), self.records()) == before and XID in told, told)
            for i in map(int, branches):
                self.shards[i].sql("XA ROLLBACK " + XID)
        else:
            left = sum(int(self.shards[i].sql("SELECT COUNT(*) FROM d.t%d" % i)[0]) for i in range(2))
            good = status == 0 and left == rows and self.branches() == [0, 0] and self.records() == 0
            self.check(name, good, "%s(status %d, %d rows)" % (told, status, left))
        self.head.sql("DELETE FROM mysql.spider_xa; DELETE FROM mysql.spider_xa_member")
        for i in range(2):
            self.shards[i].sql("DELETE FROM d.t%d" % i)

    def a_shard_that_is_down_keeps_the_record(self):
        self.head.sql("INSERT INTO mysql.spider_xa VALUES (1, 1, 1, 'a1', 'COMMIT')")
        self.shards[1].sql("XA START %s; INSERT INTO d.t1 VALUES (1); XA END %s; XA PREPARE %s" % (XID, XID, XID))
        self.shards[1].run("stop")
        status, told = settle(self.head, [])
        self.check("a shard is down", status == 1 and self.records() == 1 and "does not answer" in told, told)
        self.shards[1].run("start")
        status, told = settle(self.head, [])
        rows = self.shards[1].sql("SELECT id FROM d.t1")
        self.check("and back", status == 0 and self.records() == 0 and rows == ["1"], told)
        self.shards[1].sql("DELETE FROM d.t1")

    def write(self, first, acknowledged, ended):
        """Pairs until the head goes: an even number on one shard, the next odd one on the other."""
        with subprocess.Popen(self.head.client(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as client:
            pair = first
            try:
                while not ended.is_set():
                    client.stdin.write("START TRANSACTION; INSERT INTO d.t VALUES (%d), (%d); COMMIT; SELECT %d;\n"
                                       % (2 * pair, 2 * pair + 1, pair))
                    client.stdin.flush()
                    if not client.stdout.readline():
                        break
                    acknowledged.append(pair)
                    pair += 1
                client.stdin.close()
            except BrokenPipeError:
                pass

    def kills(self, random_numbers, rounds):
        total, ends = 0, 0
        for number in range(rounds):
            acknowledged, ended = [], threading.Event()
            writers = [threading.Thread(target=self.write, args=((number * 8 + i) * 1000000 // 2, acknowledged, ended))
                       for i in range(4)]
            for writer in writers:
                writer.start()
            time.sleep(random_numbers.uniform(0.3, 1.5))
            self.head.kill()
            ended.set()
            for writer in writers:
                writer.join()
            self.head.run("start")
            status, told = settle(self.head, [])
            # A shard may notice late that the head's session is gone.
            for _ in range(20):
                if not status:
                    break
                time.sleep(0.5)
                status, told = settle(self.head, [])
            ends += told.count(": done")
            halves = [{int(row) // 2 for row in shard.sql("SELECT id FROM d.t%d" % i)}
                      for i, shard in enumerate(self.shards)]
            total += len(acknowledged)
            good = (status == 0 and halves[0] == halves[1] and set(acknowledged) <= halves[0]
                    and self.branches() == [0, 0] and self.records() == 0)
            self.check("kill %d" % number, good, "%s(status %d, on one shard alone: %s, lost: %s)" % (
                told, status, sorted(halves[0] ^ halves[1])[:5], sorted(set(acknowledged) - halves[0])[:5]))
        self.check("the writers wrote", total >= rounds, "%d pairs" % total)
        print("scale-out: %d kills, %d pairs acknowledged, %d branches settled" % (rounds, total, ends), flush=True)


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1 << 30)
    print("scale-out: seed %d" % seed, flush=True)
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    test = Test()
    try:
        test.make()
        for case in CASES:
            test.case(*case)
        test.a_shard_that_is_down_keeps_the_record()
        test.kills(random.Random(seed), int(os.environ.get("ROUNDS") or 6))
    finally:
        for server in test.servers:
            server.run("stop")
    print("scale-out: %d passed, %d failed" % (test.passed, test.failed))
    sys.exit(1 if test.failed else 0)


if __name__ == "__main__":
    main()
