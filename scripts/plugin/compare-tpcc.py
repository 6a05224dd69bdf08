#!/usr/bin/env python3
"""compare-tpcc.py PREFIX A.so B.so DIRECTORY [STARTS] [PAIRS]

TPC-C's transactions by two builds of the plugin, in short turns of two servers that are up at the same time. Each build
loads its own tables once (tidelab tpcc, 4 warehouses). Each start has a fresh copy of them, and runs the same transactions
on both, by procedures: the server's CPU and the time for a transaction, B's over A's, the median of the pairs of turns.

A server's start places code and data anew, and that alone makes 2 % and more: the last lines are of the starts. Odd starts
have one client, even ones four.
"""
import glob
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

WAREHOUSES, TURN = 4, 60
FIGURES = ["CPU", "time"]
# The mix of clause 5.2.3, in a loop. The generator's state is the session's: both servers draw the same.
LOOP = f"""DELIMITER //
CREATE OR REPLACE PROCEDURE turn(n INT, w INT) BEGIN
  DECLARE i, d, c, c_w INT DEFAULT 0; DECLARE x DOUBLE;
  DECLARE CONTINUE HANDLER FOR 1020, 1213, 1205 ROLLBACK;
  WHILE i < n DO
    SET i = i + 1, @s = (@s * 1103515245 + 12345) & 0x7fffffff, x = (@s >> 8) / 8388608, d = 1 + (@s >> 4) MOD 10;
    SET @s = (@s * 1103515245 + 12345) & 0x7fffffff, c = 1 + (@s >> 8) MOD 3000, @c_id = c, @last = NULL;
    IF x < 0.45 THEN
      CALL NEWORD(w, {WAREHOUSES}, d, c, 5 + c MOD 11, @discount, @last, @credit, @d_tax, @w_tax, @o_id, NOW());
    ELSEIF x < 0.88 THEN
      SET c_w = IF(c MOD 7 = 0, 1 + w MOD {WAREHOUSES}, w);
      CALL PAYMENT(w, d, c_w, d, @c_id, 0, 10 + c, @last, @w_name, @d_name, @credit, @discount, @balance, @data, NOW());
    ELSEIF x < 0.92 THEN CALL DELIVERY(w, 1 + c MOD 10, NOW(), @delivered);
    ELSEIF x < 0.96 THEN CALL SLEV(w, d, 10 + c MOD 11, @low);
    ELSE CALL OSTAT(w, d, @c_id, 0, @last, @first, @middle, @balance, @o_id, @entry, @carrier, @lines);
    END IF;
  END WHILE;
END//
"""


def call(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"compare-tpcc: {' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def load(prefix, plugin, directory):
    """The tables of one build, in directory/seed. They name their place, so servers run in directory/data."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    # An older build may not know this option; with a cache of 64 MB it is off by itself.
    with open("crates/tidelab/configs/tpcc-small-64M.cnf") as file, open(directory + "/my.cnf", "w") as ours:
        ours.writelines(line for line in file if "direct_reads" not in line)
    call(["target/release/tidelab", "tpcc", "--prefix", prefix, "--plugin", plugin, "--data", directory + "/data",
          "--out", directory + "/out", "--engines", "TidesDB", "--warehouses", str(WAREHOUSES), "--users", "4",
          "--build-users", "2", "--rampup", "1s", "--duration", "1s", "--rounds", "1", "--short-run", "--keep",
          "--cnf", directory + "/my.cnf"])
    os.rename(directory + "/data", directory + "/seed")


class Server:
    """A server on a fresh copy of its tables."""

    def __init__(self, prefix, plugin, directory, clients, seed):
        data = directory + "/data"
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(directory + "/seed", data, symlinks=True)
        home = data + "/server"
        linked = home + "/plugins/ha_tidesdb.so"
        os.unlink(linked)
        os.symlink(os.path.abspath(plugin), linked)
        self.server = subprocess.Popen([prefix + "/bin/mariadbd", f"--defaults-file={home}/my.cnf"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = [prefix + "/bin/mariadb", "--no-defaults", "--skip-ssl", "-S", home + "/mysqld.sock", "-uroot"]
        while subprocess.run(self.client + ["-e", "DO 0"], capture_output=True).returncode:
            if self.server.poll() is not None:
                sys.exit(f"compare-tpcc: no server: {open(home + '/error.log').read()[-2000:]}")
            time.sleep(0.1)
        database = os.path.basename(glob.glob(home + "/data/lab_*")[0])
        call(self.client + [database], input=LOOP)
        self.calls = [subprocess.Popen(self.client + [database, "-N", "-B", "-n"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True) for _ in range(clients)]
        for number, client in enumerate(self.calls):
            client.stdin.write(f"SET @s = {seed * 1000 + number};\n")

    def cpu(self):
        """Nanoseconds of all its threads."""
        return sum(int(open(task).read().split()[0]) for task in glob.glob(f"/proc/{self.server.pid}/task/*/schedstat"))

    def turn(self):
        """Microseconds of a transaction: CPU, time."""
        cpu, began = self.cpu(), time.monotonic()
        for number, client in enumerate(self.calls):
            client.stdin.write(f"CALL turn({TURN}, {number % WAREHOUSES + 1}); SELECT 1;\n")
            client.stdin.flush()
        for client in self.calls:
            client.stdout.readline()
        transactions = TURN * len(self.calls)
        return (self.cpu() - cpu) / 1e3 / transactions, (time.monotonic() - began) * 1e6 / transactions

    def stop(self):
        for client in self.calls:
            client.stdin.close()
            client.wait()
        call(self.client + ["-e", "SHUTDOWN"])
        self.server.wait()


def start(prefix, builds, number, pairs, dice):
    """The median ratios of one start of both servers."""
    clients = 1 if number % 2 else 4
    servers = [Server(prefix, plugin, directory, clients, number) for plugin, directory in builds]
    try:
        for server in servers * 5:
            server.turn()
        rows = []
        for _ in range(pairs):
            turns = [None, None]
            for at in dice.sample([0, 1], 2):
                turns[at] = servers[at].turn()
            rows.append([b / a for a, b in zip(*turns)])
    finally:
        for server in servers:
            server.stop()
    ratios = [statistics.median(column) for column in zip(*rows)]
    print(f"start {number}, {clients} clients: " + ", ".join(f"{name} B/A {ratio:.4f}" for name, ratio in zip(FIGURES, ratios)),
          flush=True)
    return ratios


def main():
    prefix, a, b, directory = sys.argv[1:5]
    starts = int(sys.argv[5]) if len(sys.argv) > 5 else 8
    pairs = int(sys.argv[6]) if len(sys.argv) > 6 else 120
    dice = random.Random(1)
    directory = os.path.abspath(directory)
    builds = [(plugin, f"{directory}/{name}") for plugin, name in ((a, "a"), (b, "b"))]
    for plugin, place in builds:
        print(f"loading {WAREHOUSES} warehouses by {plugin}", flush=True)
        load(prefix, plugin, place)
    rows = [start(prefix, builds, number, pairs, dice) for number in range(1, starts + 1)]
    for name, ratios in zip(FIGURES, zip(*rows)):
        logs = [math.log(ratio) for ratio in ratios]
        spread = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
        print(f"{name} for a transaction, B/A: {math.exp(statistics.fmean(logs)):.4f}, from {min(ratios):.4f} to "
              f"{max(ratios):.4f} in {starts} starts of {pairs} pairs; standard error {spread:.4f}")
    with open(directory + "/tpcc.json", "w") as file:
        json.dump([dict(zip(FIGURES, row)) for row in rows], file, indent=1)
    for _, place in builds:
        shutil.rmtree(place + "/data")


if __name__ == "__main__":
    main()
