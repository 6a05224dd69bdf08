#!/usr/bin/env python3
"""compare-builds.py PREFIX A.so B.so DIRECTORY [ROUNDS] [SECONDS] [WORKLOAD...]

Two builds of the plugin, each in a server of its own, take short turns at sysbench's workloads. Both servers are up
all the time, and each round draws the order of its turns. Prints for each workload B's rate and B's server CPU for a
statement against A's: the mean of the rounds' logarithms with its 95 % interval by bootstrap.
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
"""
THREADS, ROWS = 4, 100_000


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
        said = subprocess.run(["scripts/server/start.sh"], env=self.environment, capture_output=True, text=True)
        if said.returncode:
            sys.exit(f"compare-builds: {said.stderr}")
        self.process = int(re.search(r"process (\d+)", said.stderr + said.stdout).group(1))
        self.socket = directory + "/mysqld.sock"
        client = [prefix + "/bin/mariadb", "-S", self.socket, "-uroot", "-e"]
        call(client + ["DROP DATABASE IF EXISTS builds; CREATE DATABASE builds"])

    def sysbench(self, workload, verb, *more):
        name = f"oltp_{workload}"
        common = ["--db-driver=mysql", "--mysql-user=root", "--mysql-db=builds", f"--mysql-socket={self.socket}",
                  "--mysql-storage-engine=TidesDB", "--tables=1", f"--table-size={ROWS}",
                  "--mysql-ignore-errors=1213,1020,1205"]
        return call(["sysbench", name, *common, *more, verb])

    def prepare(self, workload):
        self.sysbench(workload, "prepare")

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

    def stop(self):
        subprocess.run(["scripts/server/stop.sh"], env=self.environment, capture_output=True)


def interval(logs, dice):
    means = sorted(statistics.fmean(dice.choices(logs, k=len(logs))) for _ in range(4000))
    return [math.exp(x) for x in (statistics.fmean(logs), means[100], means[3899])]


def main():
    prefix, a, b, directory = sys.argv[1:5]
    rounds = int(sys.argv[5]) if len(sys.argv) > 5 else 12
    seconds = int(sys.argv[6]) if len(sys.argv) > 6 else 2
    workloads = sys.argv[7:] or WORKLOADS
    dice = random.Random(1)
    directory = os.path.abspath(directory)
    servers = [Server(prefix, a, directory + "/a"), Server(prefix, b, directory + "/b")]
    results = []
    print(f"{'workload':18} {'rate, B/A (95 %)':>24} {'CPU a statement, B/A':>26}   rounds {rounds} of {seconds} s each")
    try:
        for workload in workloads:
            for server in servers:
                server.prepare(workload)
                server.turn(workload, 2)
            rates, costs = [], []
            for _ in range(rounds):
                figures = [None, None]
                for at in dice.sample([0, 1], 2):
                    figures[at] = servers[at].turn(workload, seconds)
                rates.append(math.log(figures[1][0] / figures[0][0]))
                costs.append(math.log(figures[1][1] / figures[0][1]))
            rate, cost = interval(rates, dice), interval(costs, dice)
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
