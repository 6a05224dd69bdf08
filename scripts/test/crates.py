#!/usr/bin/env python3
"""crates.py [FILTER...]: the tests of all crates, as `cargo test --workspace` runs them, but several programs at once.

Cargo runs one test program after the other, and many of them wait more than they compute. Each program's output comes
whole once it has ended, so lines of two never mix. The documentation's examples follow. The exit status is 0 when all
passed, 101 else; the last lines name the programs that failed. TEST_PROGRAMS says how many run at once (the number of
processors and one).
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import time

FILTERS = sys.argv[1:]
AT_ONCE = int(os.environ.get("TEST_PROGRAMS", (os.cpu_count() or 1) + 1))


def built():
    """The test programs: path, the crate's folder, and the name to tell."""
    command = ["cargo", "test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]
    cargo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    programs = []
    for line in cargo.stdout:
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = os.path.dirname(message["manifest_path"])
            source = os.path.relpath(message["target"]["src_path"], os.path.dirname(os.path.dirname(folder)))
            programs.append((message["executable"], folder, source))
    if cargo.wait() != 0:
        sys.exit(101)
    # The largest first: most often those run longest, and one alone at the end would leave a processor idle.
    return sorted(programs, key=lambda program: -os.path.getsize(program[0]))


def run(program):
    executable, folder, source = program
    begun = time.monotonic()
    # What cargo sets for a test that runs.
    environment = dict(os.environ, CARGO_MANIFEST_DIR=folder, CARGO="cargo")
    ended = subprocess.run([executable, *FILTERS], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return source, ended.returncode, ended.stdout, time.monotonic() - begun


def main():
    failed = []
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run, program) for program in built()]):
            source, status, output, seconds = future.result()
            print(f"     Ran {source} in {seconds:.1f} s", flush=True)
            sys.stdout.buffer.write(output)
            sys.stdout.flush()
            if status != 0:
                failed.append(f"{source} (exit status {status})")
    # Of all crates: with fewer their dependencies have other features, and are built again. But two are the engine's sources once more.
    others = ["--exclude", "tidesdb-simulate", "--exclude", "tidesdb-loom"]
    if subprocess.run(["cargo", "test", "--workspace", "--doc", *others, "--", *FILTERS], check=False).returncode != 0:
        failed.append("examples of the documentation")
    for name in failed:
        print(f"crates: {name}: FAILED", flush=True)
    sys.exit(101 if failed else 0)


if __name__ == "__main__":
    main()
