"""compare.py CLIENT DUMP SOCKET WORK KNOWN NAME=FILE[,FILE...]...: schemas of applications on InnoDB and on TidesDB.

Each schema is loaded with the one engine, then with the other, in place of the engine that its files name. Compared are:
the definitions and the standard's views of them; the answers to statements that follow its foreign keys
(key_statements.py); the dump afterwards; and dumps of the dump, loaded in either order of the tables and with the other
engine. The last line is "schemas: N passed, M failed, K skipped": a foreign key is one, and so are each schema's
definitions, the deletion of the rows in each table that it brought, its dump, and each load of that. Skipped is a
key for which no row can be made, and a difference that stands in KNOWN (lines "what : reason").
"""

import os
import re
import sys

from database import Server, without_engine

ENGINES = ("InnoDB", "TidesDB")
# Its triggers write an audit, which must be begun first, unless they are told not to.
SETTINGS = {"kea": ["SET @disable_audit = 1;"]}


def steps(answers):
    """(number, step) to the answers of the step."""
    found, at = {}, None
    for line in answers.splitlines():
        marker = re.match(r"@@ (\d+) (.*)$", line)
        if marker:
            at = (int(marker[1]), marker[2])
            found[at] = []
        elif at and not line.startswith("@@"):
            # Numbers of lines say nothing.
            found[at].append(re.sub(r" at line \d+", "", line))
    return found


def errors(lines):
    return [match[1] for match in (re.match(r"ERROR (\d+)", line) for line in lines) if match]


def as_the_rule_says(key, answer):
    """Whether the deletion of a parent was answered by its rule, and not by that of another key."""
    if key.on_delete in ("RESTRICT", "NO ACTION"):
        return errors(answer) == ["1451"]
    return not errors(answer)


class Result:
    def __init__(self, work, known):
        self.work = work
        self.passed, self.failed, self.skipped, self.stale = 0, [], [], []
        self.known = {}
        with open(known, encoding="utf-8") as file:
            for line in file:
                what, colon, reason = line.strip().partition(" : ")
                if colon and not line.startswith("#"):
                    self.known[what] = reason

    def check(self, what, equal, details=""):
        if equal:
            self.passed += 1
            self.stale += [what] if what in self.known else []
        elif what in self.known:
            self.skipped.append("%s: %s" % (what, self.known[what]))
        else:
            self.failed.append(what)
            print("  differs: %s%s" % (what, details))

    def compare(self, what, texts):
        """texts: of each engine. Written where they differ, to be looked at."""
        paths = [self.keep("%s.%s" % (re.sub(r"\W+", "-", what), engine), texts[engine]) for engine in ENGINES]
        self.check(what, texts["InnoDB"] == texts["TidesDB"], ": diff %s %s" % tuple(paths))

    def keep(self, name, text):
        path = os.path.join(self.work, name)
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        return path

    def tell(self):
        for title, lines in (("skipped", self.skipped), ("known differences that are none any more", self.stale)):
            if lines:
                print("\n%s:" % title)
                print("".join("  %s\n" % line for line in lines), end="")
        print("\nschemas: %d passed, %d failed, %d skipped" % (self.passed, len(self.failed), len(self.skipped)))


def compare_keys(name, keys, answers, result):
    found = {engine: steps(answers[engine]) for engine in ENGINES}
    innodb, tidesdb = found["InnoDB"], found["TidesDB"]
    by_number = {}
    for number, step in innodb:
        by_number.setdefault(number, []).append(step)
    orphans = by_rule = 0
    for number, of_number in sorted(by_number.items()):
        key = keys[number] if number < len(keys) else None
        what = "%s: %s" % (name, "%s of %s" % (key.name, key.table) if key else of_number[0])
        parted = [step for step in of_number if innodb[number, step] != tidesdb.get((number, step))]
        if parted:
            details = "\n    step %s" % parted[0]
            for engine in ENGINES:
                details += "\n    %-8s%s" % (engine, " | ".join(found[engine].get((number, parted[0]), []))[:600])
            result.check(what, False, details)
        elif key and ("nochain" in of_number or errors(innodb[number, "chain"])):
            why = next((line for line in innodb[number, "chain"] if line.startswith("ERROR")), "a ring of keys")
            result.skipped.append("%s: no row: %s" % (what, why))
        else:
            result.check(what, True)
            if key:
                orphans += errors(innodb[number, "orphan"]) == ["1452"]
                by_rule += as_the_rule_says(key, innodb[number, "delete"])
    print("  without its parent: 1452 for %d; its parent deleted: as the rule says for %d" % (orphans, by_rule))


def compare_loads(server, name, dumps, result):
    tables = server.tables()
    forwards, backwards = server.dump(tables), server.dump(tables[::-1])
    # What is loaded, with which engine, and the dump that must come again.
    for what, text, engine, expected in (
        ("TidesDB's dump", dumps["TidesDB"], "TidesDB", dumps["TidesDB"]),
        ("TidesDB's dump, tables backwards", backwards, "TidesDB", forwards),
        ("InnoDB's dump into TidesDB", dumps["InnoDB"], "TidesDB", dumps["InnoDB"]),
        ("TidesDB's dump into InnoDB", dumps["TidesDB"], "InnoDB", dumps["TidesDB"]),
    ):
        server.load([text], engine)
        again = server.dump(tables if expected is forwards else ())
        texts = {"InnoDB": without_engine(expected), "TidesDB": without_engine(again)}
        result.compare("%s: %s" % (name, what), texts)


def run(server, name, files, result):
    texts = []
    for path in files:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            texts.append(file.read())
    definitions, answers, dumps = {}, {}, {}
    keys, statements = [], ""
    for engine in ENGINES:
        server.load(texts, engine)
        definitions[engine] = server.definitions()
        if not statements:
            keys, statements = server.statements(SETTINGS.get(name, ()))
            result.keep(name + ".statements.sql", statements)
        answers[engine] = server.script(statements, engine, force=True)
        result.keep("%s.answers.%s" % (name, engine), answers[engine])
        dumps[engine] = server.dump()
    print("%s: %d tables, %d foreign keys" % (name, len(server.tables()), len(keys)))
    result.compare(name + ": definitions", definitions)
    compare_keys(name, keys, answers, result)
    result.compare(name + ": dump", {engine: without_engine(dumps[engine]) for engine in ENGINES})
    compare_loads(server, name, dumps, result)


def main(client, dump, socket, work, known, *schemas):
    server, result = Server(client, dump, socket), Result(work, known)
    for schema in schemas:
        name, _, files = schema.partition("=")
        run(server, name, files.split(","), result)
        sys.stdout.flush()
    server.drop()
    result.tell()
    return 1 if result.failed or not result.passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
