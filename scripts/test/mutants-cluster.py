#!/usr/bin/env python3
"""mutants-cluster.py PREFIX PLUGIN BASEDIR DATA [--only NAMES] [--seed N] [--rounds N] [--jobs N] [--limit SECONDS]

Plants each fault of plugin/src/mutant.h into a cluster, one at a time, and demands that it is found: by a test of suite
tidesdb_cluster, tidesdb_galera or tidesdb_galera_keys, where one is named for it, else by `tidelab check cluster`. Without a fault all of
them have to pass. The last lines are the table of docs/mutants.md. PLUGIN is build/mutants/ha_tidesdb.so, BASEDIR a folder of links with it
(scripts/plugin/basedir.sh). Needs WSREP_PROVIDER.
"""

import argparse
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
# Without a test of its own a fault needs writers alone: the check's mildest disturbance.
WRITERS_ALONE = "restart"
# Faults that a directed test shows at once, and rounds of writers now and then.
TESTS = {
    "DigestUngiven": "tidesdb_galera_keys.fixed",
    "ActionUngiven": "tidesdb_galera_keys.fixed",
    "KeyNumberDiffers": "tidesdb_galera_keys.fixed",
    "SavepointStays": "tidesdb_cluster.rows",
    "KillAfterCertification": "tidesdb_cluster.statement_timeout",
    "OrderLeftFirst": "tidesdb_cluster.killed_under_load",
    "OrderLeftUnwritten": "tidesdb_cluster.killed_under_load",
    "InnodbUnwritten": "tidesdb_cluster.killed_under_load",
    "BinaryLogFirst": "tidesdb_cluster.killed_with_binary_log",
    "InnodbSkipped": "tidesdb_cluster.killed_with_binary_log",
    "PositionOutsideRecord": "tidesdb_cluster.position",
    "PreparedRolledBack": "tidesdb_cluster.prepared",
    "UnknownIsKnown": "tidesdb_cluster.power_cut",
    "PriorityUnset": "tidesdb_cluster.applier_first",
    "HolderSpared": "tidesdb_cluster.brute_force",
    "VictimSleeps": "tidesdb_cluster.brute_force",
    "MarkedVictimSleeps": "tidesdb_galera.waits",
    "HalfTransferOpened": "tidesdb_cluster.state_transfer",
    "CheckpointLater": "tidesdb_cluster.state_transfer",
}
# Minutes for a test whose node does not come back.
TEST_LIMIT = 3
servers_test_runner = threading.Lock()
running = set()


def planted():
    """Name, invariant and text of each fault."""
    text = (TOP / "plugin/src/mutant.h").read_text()
    found = re.findall(r'X\(\s*(\w+),\s*(\d+),\s*\\?\s*"([^"]*)"\)', text)
    if not found:
        sys.exit("plugin/src/mutant.h has no faults")
    return [(name, int(invariant), fault) for name, invariant, fault in found]


def run(command, name, log, limit):
    """Runs it with the fault, its output into the file. None: the limit passed."""
    environment = dict(os.environ, TIDESDB_PLUGIN_MUTANT=name)
    with open(log, "w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment, cwd=TOP)
        running.add(process)
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait()
            return None
        finally:
            running.discard(process)


def end(*_):
    """Ended itself, it leaves no check with its servers."""
    for process in list(running):
        process.send_signal(signal.SIGINT)
    for process in list(running):
        process.wait()
    os._exit(1)


def checked(name, options):
    """The first finding of the check, with its seed; None: it passed. Without a fault `name` is empty."""
    log = options.data / f"{name or 'none'}.log"
    first = options.seed
    command = [
        "target/debug/tidelab", "check", "--short", "--prefix", options.prefix, "--plugin", options.plugin,
        "--data", options.data / (name or "none"), "--rounds", options.rounds, "--seed", first,
        "--part", WRITERS_ALONE, "cluster",
    ]
    status = run([str(word) for word in command], name, log, options.limit)
    text = log.read_text(errors="replace")
    if status == 0:
        return None
    found = re.search(r"^check cluster: WRONG: (?:seed (\d+): )?(.*)", text, re.MULTILINE)
    if found:
        seed = found[1] or first
        return f"seed {seed}, round {int(seed) - first + 1}", found[2]
    # Neither the limit nor a check that does not run is a finding.
    print(f"{log}: the check " + ("did not end in time" if status is None else "failed"), flush=True)
    return None


def runs_test(test, name, options):
    """Runs a test of a suite with the fault. Returns its status and its log."""
    log = options.data / f"{name or test}.log"
    command = ["scripts/test/run-mtr.sh", options.prefix, options.basedir, options.data / "mtr", *test.split(".")]
    with servers_test_runner:
        status = run([str(word) for word in command], name, log, options.limit)
    return status, log


def tested(name, options):
    """The same of its test."""
    status, log = runs_test(TESTS[name], name, options)
    if status == 0:
        return None
    text = log.read_text(errors="replace")
    why = re.search(r"^mysqltest: (.*)|timeout after \d+ seconds|^(\[ERROR\].*)", text, re.MULTILINE)
    if not re.search(r"\[ fail \]", text):
        sys.exit(f"{log}: {TESTS[name]} did not run")
    return f"`{TESTS[name]}`", why[0] if why else "its result differs"


def main():
    """Plants all, or some."""
    parser = argparse.ArgumentParser(usage=__doc__)
    for place in ("prefix", "plugin", "basedir", "data"):
        parser.add_argument(place, type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=400, help="seconds for each fault; servers that ended take two minutes")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    options.data.mkdir(parents=True, exist_ok=True)
    faults = planted()
    os.environ.setdefault("MTR_PARALLEL", "1")
    os.environ["MTR_FLAGS"] = f"{os.environ.get('MTR_FLAGS', '')} --testcase-timeout={TEST_LIMIT}"
    unknown = (set(TESTS) | set(filter(None, options.only.split(",")))) - {name for name, _, _ in faults}
    if unknown:
        sys.exit(f"there are no faults {', '.join(sorted(unknown))}")
    chosen = [fault for fault in faults if not options.only or fault[0] in options.only.split(",")]
    if not options.only and (found := checked("", options)):
        sys.exit(f"without a fault the check finds {found}")
    for test in sorted({TESTS[fault[0]] for fault in chosen if fault[0] in TESTS}):
        status, log = runs_test(test, "", options)
        if status != 0:
            sys.exit(f"{log}: without a fault {test} fails")

    def judged(fault):
        name = fault[0]
        found = tested(name, options) if name in TESTS else checked(name, options)
        print(f"{name}: {' '.join(found) if found else 'NOT FOUND'}", flush=True)
        return found

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as workers:
        results = list(workers.map(judged, chosen))
    print("\n| invariant | fault | found by | finding | what it does |\n|---|---|---|---|---|")
    for (name, invariant, text), found in zip(chosen, results):
        where, finding = found or ("**nothing**", "")
        finding = re.sub(r"/\S+|\d{4}-\d\d-\d\d\s+[\d:]+ \d+ ", "", finding).replace("|", "/").strip()[:90]
        print(f"| {invariant} | `{name}` | {where} | {finding} | {text} |")
    missed = [fault[0] for fault, found in zip(chosen, results) if not found]
    if missed:
        sys.exit(f"not found: {', '.join(missed)}")


main()
