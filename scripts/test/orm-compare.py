"""orm-compare.py INNODB.xml TIDESDB.xml KNOWN: the outcomes of SQLAlchemy's tests with two engines side by side.

Prints a table by part of the tests, then each test that passes with InnoDB and not with TidesDB and does not stand in
KNOWN, then the lines of KNOWN that fit no such test, and at last "orm: N passed, M failed, K skipped": passed with
TidesDB; passed with InnoDB alone and not known; the rest. Ends with 1 if one failed.

KNOWN has lines "pattern : reason". A pattern is that of a file name (fnmatch) over `module.Class::test`.
"""

import collections
import fnmatch
import re
import sys
import xml.etree.ElementTree

# What SQLAlchemy adds to a class's name: the dialect, the driver, the server's version.
DRIVER = re.compile(r"_mariadb\+\w+?(_\d+)+$")
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


def outcomes(path):
    """Each test's outcome. What fails in the set-up or the clean-up of a test has failed."""
    found = {}
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        classname = DRIVER.sub("", case.get("classname", "").removeprefix("test."))
        name = "%s::%s" % (classname, case.get("name"))
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            found[name] = FAILED
        elif "skipped" in kinds:
            found.setdefault(name, SKIPPED)
        else:
            found.setdefault(name, PASSED)
    return found


def known_differences(path):
    lines = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            pattern, colon, reason = line.partition(" : ")
            if not colon or not reason.strip():
                sys.exit("%s:%d: 'pattern : reason' expected" % (path, number))
            # Brackets are a part of a test's name here, not a choice of characters.
            lines.append((pattern.strip(), pattern.strip().replace("[", "[[]")))
    return lines


def part_of(name):
    return ".".join(name.split("::")[0].split(".")[:2])


def main(innodb_path, tidesdb_path, known_path):
    innodb, tidesdb = outcomes(innodb_path), outcomes(tidesdb_path)
    known = known_differences(known_path)
    used = set()
    table = collections.defaultdict(collections.Counter)
    new, listed = [], 0
    for name in sorted(innodb.keys() | tidesdb.keys()):
        part = part_of(name)
        one, other = innodb.get(name, SKIPPED), tidesdb.get(name, SKIPPED)
        table[part]["InnoDB " + one] += 1
        table[part]["TidesDB " + other] += 1
        if one != PASSED or other == PASSED:
            continue
        patterns = [shown for shown, pattern in known if fnmatch.fnmatchcase(name, pattern)]
        used.update(patterns)
        if patterns:
            table[part]["known"] += 1
            listed += 1
        else:
            new.append("%s [%s]" % (name, other))
    width = max([len(part) for part in table] + [4])
    columns = ["%s %s" % (engine, outcome) for engine in ("InnoDB", "TidesDB") for outcome in (PASSED, FAILED, SKIPPED)]
    print("%-*s   %s   known" % (width, "part", "   ".join(columns)))
    for part in sorted(table):
        numbers = ["%*d" % (len(column), table[part][column]) for column in columns]
        print("%-*s   %s   %5d" % (width, part, "   ".join(numbers), table[part]["known"]))
    if new:
        print("\nInnoDB passes, TidesDB does not, and no reason is known:")
        print("".join("  %s\n" % name for name in new), end="")
    # A run may be of some parts alone.
    modules = {name.split("::")[0].rpartition(".")[0] for name in innodb}
    stale = [shown for shown, _ in known if shown not in used and shown.split("::")[0].rpartition(".")[0] in modules]
    if stale:
        print("\nknown differences that are none in this run:")
        print("".join("  %s\n" % pattern for pattern in stale), end="")
    passed = sum(1 for outcome in tidesdb.values() if outcome == PASSED)
    if not passed:
        print("no test passed", file=sys.stderr)
    print("\norm: %d passed, %d failed, %d skipped" % (passed, len(new), len(tidesdb) - passed - len(new)))
    return 1 if new or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
