#!/usr/bin/env python3
"""compare-builds.py PREFIX A.so B.so DIRECTORY [ROUNDS] [SECONDS]

Two builds of the plugin, each in a server of its own, take short turns. Both servers are up all the time, and each
round draws the order of its turns. Two tables:

1. Statements of one client, then of four, in stored procedures, in turns of some 20 ms, hundreds of pairs: B's time for a statement
   against A's, the median of the pairs' ratios. It tells 1 to 2 % apart on a machine with other work.
2. sysbench's workloads with several clients, ROUNDS turns of SECONDS: B's rate and B's server CPU for a statement
   against A's, the mean of the rounds' logarithms. A round's noise is 10 % and more on such a machine.

Intervals are 95 %, by bootstrap. ROUNDS 0 leaves the second table out.
"""
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys

WORKLOADS = ["point_select", "read_only", "read_write", "update_index", "update_non_index", "insert", "delete", "write_only"]
OPTIONS = """[mysqld]
performance_schema=OFF
innodb_buffer_pool_size=32M
innodb_flush_log_at_trx_commit=0
max_connections=100
tidesdb_block_cache_size=64M
tidesdb_unified_memtable_write_buffer_size=64M
tidesdb_max_memory_usage=320M
tidesdb_unified_memtable_sync_mode=NONE
tidesdb_default_sync_mode=NONE
tidesdb_default_compression=LZ4
tidesdb_procedure_concurrency=100
"""
THREADS, ROWS = 4, 100_000

# Each is the body of a loop over n statements or transactions; r is a random key, i counts.
STATEMENTS = {
    "point_select": "SELECT c INTO s FROM sbtest1 WHERE id = r",
    "range_of_100": "SELECT SUM(k) INTO v FROM sbtest1 WHERE id BETWEEN r AND r + 99",
    "index_range": "SELECT COUNT(*) INTO v FROM sbtest1 FORCE INDEX (k_1) WHERE k BETWEEN r AND r + 50",
    "update_index": "UPDATE sbtest1 SET k = k + 1 WHERE id = r",
    "update_non_index": "UPDATE sbtest1 SET c = CONCAT(i, '-', n) WHERE id = r",
    "insert_delete": "INSERT INTO sbtest1 (id, k, c, pad) VALUES (1000000 * (me + 1) + i, r, 'c', 'p');"
                     " DELETE FROM sbtest1 WHERE id = 1000000 * (me + 1) + i",
    "transaction": "START TRANSACTION; SELECT c INTO s FROM sbtest1 WHERE id = r;"
                   " UPDATE sbtest1 SET k = k + 1 WHERE id = r; UPDATE sbtest1 SET c = CONCAT(i) WHERE id = r + 1; COMMIT",
}
# Milliseconds of a turn, and pairs of turns.
TURN_MS, PAIRS = 20, 300


def call(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"compare-builds: {' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class Server:
    """A server with one build, and a table for each workload."""

    def __init__(self, prefix, plugin, directory):
        self.directory = directory
        base = directory + ".base"
        call(["scripts/plugin/basedir.sh", prefix, base, os.path.abspath(plugin)])
        cnf = directory + ".cnf"
        os.makedirs(directory, exist_ok=True)
        with open(cnf, "w") as file:
            file.write(OPTIONS)
        self.environment = dict(os.environ, MARIADB_PREFIX=prefix, BASEDIR_OF_LINKS=base, DATA=directory, CNF=cnf, PORT="")
        said = subprocess.run(["scripts/server.sh", "start"], env=self.environment, capture_output=True, text=True)
        if said.returncode:
            sys.exit(f"compare-builds: {said.stderr}")
        self.process = int(re.search(r"process (\d+)", said.stderr + said.stdout).group(1))
        self.socket = directory + "/mysqld.sock"
        self.client = [prefix + "/bin/mariadb", "--no-defaults", "-S", self.socket, "-uroot"]
        call(self.client + ["-e", "DROP DATABASE IF EXISTS builds; CREATE DATABASE builds"])

    def sysbench(self, workload, verb, *more):
        name = f"oltp_{workload}"
        common = ["--db-driver=mysql", "--mysql-user=root", "--mysql-db=builds", f"--mysql-socket={self.socket}",
                  "--mysql-storage-engine=TidesDB", "--tables=1", f"--table-size={ROWS}",
                  "--mysql-ignore-errors=1213,1020,1205"]
        return call(["sysbench", name, *common, *more, verb])

    def prepare(self, workload):
        self.sysbench(workload, "prepare")
        # In the same state: all rows in one level, however a build has loaded them.
        call(self.client + ["builds", "-e", "OPTIMIZE TABLE sbtest1"])

    def cpu(self):
        fields = open(f"/proc/{self.process}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def turn(self, workload, seconds):
        before = self.cpu()
        out = self.sysbench(workload, "run", f"--threads={THREADS}", f"--time={seconds}", "--events=0")
        used = self.cpu() - before
        queries = int(re.search(r"total:\s+(\d+)", out).group(1))
        rate = float(re.search(r"transactions:\s+\d+\s+\(([\d.]+) per", out).group(1))
        return rate, used / queries

    def loops(self):
        """The procedures, and a client that calls them and prints a line for each call."""
        body = "DELIMITER //\n"
        for name, statement in STATEMENTS.items():
            body += (f"CREATE OR REPLACE PROCEDURE {name}(n INT, me INT) BEGIN DECLARE i INT DEFAULT 0; DECLARE r INT; DECLARE v BIGINT;"
                     " DECLARE s TEXT; DECLARE CONTINUE HANDLER FOR 1020, 1213 ROLLBACK;"
                     f" WHILE i < n DO SET r = 1 + FLOOR(RAND() * ({ROWS} - 200)), i = i + 1;"
                     f" {statement}; END WHILE; END//\n")
        call(self.client + ["builds"], input=body)
        self.calls = [subprocess.Popen(self.client + ["builds", "-N", "-B", "-n"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True) for _ in range(THREADS)]

    def loop(self, name, times, clients):
        """Microseconds of a statement: the mean of the clients."""
        calls = self.calls[:clients]
        for at, client in enumerate(calls):
            client.stdin.write(f"SET @t = NOW(6); CALL {name}({times}, {at}); SELECT TIMESTAMPDIFF(MICROSECOND, @t, NOW(6));\n")
            client.stdin.flush()
        return max(sum(int(client.stdout.readline()) for client in calls), 1) / times / clients

    def stop(self):
        subprocess.run(["scripts/server.sh", "stop"], env=self.environment, capture_output=True)


def interval(logs, dice, middle=statistics.fmean):
    middles = sorted(middle(dice.choices(logs, k=len(logs))) for _ in range(2000))
    return [math.exp(x) for x in (middle(logs), middles[50], middles[1949])]


def pair(servers, dice, turn):
    """B's figure over A's in one pair of turns, as a logarithm."""
    figures = [None, None]
    for at in dice.sample([0, 1], 2):
        figures[at] = turn(servers[at])
    return [math.log(b / a) for a, b in zip(*figures)]


def short_turns(servers, dice):
    print(f"{'statement':18} {'time, B/A (95 %)':>24}   {PAIRS} pairs of turns of {TURN_MS} ms")
    results = []
    for server in servers:
        server.prepare("read_write")
        server.loops()
    for name, clients in [(name, clients) for clients in (1, THREADS) for name in STATEMENTS]:
        cost = statistics.median(server.loop(name, 200, clients) for server in servers for _ in range(5))
        times = max(int(TURN_MS * 1000 / cost), 1)
        logs = [pair(servers, dice, lambda server: [server.loop(name, times, clients)])[0] for _ in range(PAIRS)]
        ratio = interval(logs, dice, statistics.median)
        results.append({"statement": name, "clients": clients, "time": ratio, "us": cost})
        print(f"{name:18} {'{:.3f} ({:.3f} - {:.3f})'.format(*ratio):>24}   {cost:.1f} us, {clients} clients", flush=True)
    for server in servers:
        for client in server.calls:
            client.stdin.close()
            client.wait()
        server.sysbench("read_write", "cleanup")
    return results


def main():
    prefix, a, b, directory = sys.argv[1:5]
    rounds = int(sys.argv[5]) if len(sys.argv) > 5 else 12
    seconds = int(sys.argv[6]) if len(sys.argv) > 6 else 2
    dice = random.Random(1)
    directory = os.path.abspath(directory)
    servers = [Server(prefix, a, directory + "/a"), Server(prefix, b, directory + "/b")]
    results = []
    try:
        results += short_turns(servers, dice)
        if rounds:
            print(f"\n{'workload':18} {'rate, B/A (95 %)':>24} {'CPU a statement, B/A':>26}   {rounds} rounds of {seconds} s")
        for workload in WORKLOADS if rounds else []:
            for server in servers:
                server.prepare(workload)
                server.turn(workload, 2)
            logs = [pair(servers, dice, lambda server: server.turn(workload, seconds)) for _ in range(rounds)]
            rate, cost = (interval(list(column), dice) for column in zip(*logs))
            results.append({"workload": workload, "rate": rate, "cpu": cost})
            shown = ["{:.3f} ({:.3f} - {:.3f})".format(*x) for x in (rate, cost)]
            print(f"{workload:18} {shown[0]:>24} {shown[1]:>26}", flush=True)
            for server in servers:
                server.sysbench(workload, "cleanup")
    finally:
        for server in servers:
            server.stop()
    with open(directory + "/builds.json", "w") as file:
        json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
