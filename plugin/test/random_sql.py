#!/usr/bin/env python3
"""Prints a random SQL program over a few tables, the same for the same seed. Run it once with each engine
as the default and compare the output:

    random_sql.py SEED | mariadb -f --default-character-set=utf8mb4 DB     (2>&1)

Every answer is ordered completely, so that two engines that agree print the same.
"""
import random
import sys

seed = int(sys.argv[1])
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 400
rnd = random.Random(seed)

COLLATIONS = ["latin1_swedish_ci", "utf8mb4_general_ci", "utf8mb4_uca1400_ai_ci", "utf8mb4_bin", "latin1_bin",
              "utf8mb4_uca1400_as_cs", "utf8mb3_general_ci"]
WORDS = ["", " ", "a", "A", "a ", "ab", "aB", "b", "B ", "abc", "z", "a b", "Ab ", "zz", "10", "9", "é", "e", "ß", "ss"]


def collated(kind):
    c = rnd.choice(COLLATIONS)
    return f"{kind} CHARACTER SET {c.split('_')[0]} COLLATE {c}"


def word():
    return "'" + rnd.choice(WORDS) + rnd.choice(["", "", rnd.choice(WORDS)]) + "'"


TYPES = {
    "INT": lambda: str(rnd.choice([rnd.randint(-20, 20), rnd.randint(-2**31, 2**31 - 1)])),
    "BIGINT UNSIGNED": lambda: str(rnd.choice([rnd.randint(0, 30), 2**64 - 1 - rnd.randint(0, 5)])),
    "SMALLINT": lambda: str(rnd.randint(-50, 50)),
    "DECIMAL(9,2)": lambda: f"{rnd.randint(-5000, 5000) / 100:.2f}",
    "DOUBLE": lambda: str(rnd.choice([0, -1.5, 2.25, 1e10, -1e10, rnd.randint(-9, 9)])),
    "DATE": lambda: f"'2026-{rnd.randint(1, 12):02}-{rnd.randint(1, 28):02}'",
    "DATETIME(3)": lambda: f"'2026-01-{rnd.randint(1, 9):02} 00:00:0{rnd.randint(0, 9)}.{rnd.randint(0, 999):03}'",
    "TIME": lambda: f"'{rnd.choice(['', '-'])}0{rnd.randint(0, 9)}:00:00'",
    "ENUM('x','y','z')": lambda: rnd.choice(["'x'", "'y'", "'z'"]),
    "VARBINARY(12)": word,
    "VARCHAR(20)": word,
    "CHAR(12)": word,
    "TEXT": word,
}


class Table:
    def __init__(self, name):
        self.name = name
        self.columns = []
        for i in range(rnd.randint(2, 7)):
            kind = rnd.choice(list(TYPES))
            self.columns.append((f"c{i}", kind, collated(kind) if kind in ("VARCHAR(20)", "CHAR(12)", "TEXT") else kind,
                                 rnd.random() < 0.5))
        self.keys = []
        self.primary = rnd.choice(["auto", "columns", "none", "columns"])
        if self.primary == "columns":
            parts = self.parts(rnd.randint(1, 2))
            self.keys.append("PRIMARY KEY (" + ", ".join(parts) + ")")
        for i in range(rnd.randint(0, 4)):
            unique = rnd.random() < 0.3
            self.keys.append(f"{'UNIQUE ' if unique else ''}KEY k{i} (" + ", ".join(self.parts(rnd.randint(1, 3))) + ")")

    def parts(self, count):
        parts = []
        for name, kind, _, _ in rnd.sample(self.columns, min(count, len(self.columns))):
            length = ""
            if kind == "TEXT":
                length = "(4)"
            elif kind in ("VARCHAR(20)", "CHAR(12)", "VARBINARY(12)") and rnd.random() < 0.2:
                length = "(2)"
            parts.append(name + length + rnd.choice(["", "", " DESC"]))
        return parts

    def create(self):
        lines = ["id INT AUTO_INCREMENT PRIMARY KEY"] if self.primary == "auto" else []
        lines += [f"{n} {full}{'' if null else ' NOT NULL'}" for n, _, full, null in self.columns]
        return f"CREATE TABLE {self.name} ({', '.join(lines + self.keys)})"

    def value(self, column):
        _, kind, _, null = column
        return "NULL" if null and rnd.random() < 0.2 else TYPES[kind]()

    def names(self):
        return [c[0] for c in self.columns]

    def all_names(self):
        return (["id"] if self.primary == "auto" else []) + self.names()

    def exact(self):
        """Columns in a form that shows every byte, for output and for a complete order."""
        return ", ".join(f"HEX({n})" if k in ("VARCHAR(20)", "CHAR(12)", "TEXT", "VARBINARY(12)") else n
                         for n, k, _, _ in [("id", "INT", "", False)] * (self.primary == "auto") + self.columns)

    def condition(self):
        terms = []
        for _ in range(rnd.randint(1, 3)):
            column = rnd.choice(self.columns)
            n = column[0]
            terms.append(rnd.choice([
                lambda: f"{n} = {TYPES[column[1]]()}", lambda: f"{n} = {TYPES[column[1]]()}",
                lambda: f"{n} > {TYPES[column[1]]()}", lambda: f"{n} <= {TYPES[column[1]]()}",
                lambda: f"{n} BETWEEN {TYPES[column[1]]()} AND {TYPES[column[1]]()}", lambda: f"{n} IS NULL",
                lambda: f"{n} IS NOT NULL", lambda: f"{n} IN ({TYPES[column[1]]()}, {TYPES[column[1]]()})",
                lambda: f"{n} <=> {self.value(column)}"])())
        return rnd.choice([" AND ", " AND ", " OR "]).join(terms)

    def order(self):
        return "1" + "".join(f", {i + 2}" for i in range(len(self.all_names()) - 1))

    def show(self, where="", hint=""):
        return f"SELECT {self.exact()} FROM {self.name} {hint} {where} ORDER BY {self.order()}"

    def values(self):
        return "(" + ", ".join(self.value(c) for c in self.columns) + ")"


tables = []
print("SET NAMES utf8mb4; SET sql_mode='', innodb_strict_mode=0, note_verbosity='';")
for i in range(3):
    table = Table(f"r{i}")
    print(f"DROP TABLE IF EXISTS r{i};")
    print(table.create() + ";")
    tables.append(table)
in_transaction = False
for step in range(steps):
    t = rnd.choice(tables)
    names = ", ".join(t.names())
    column = rnd.choice(t.columns)
    pick = rnd.random()
    if pick < 0.30:
        verb = rnd.choice(["INSERT", "INSERT", "INSERT IGNORE", "REPLACE"])
        print(f"{verb} INTO {t.name} ({names}) VALUES {', '.join(t.values() for _ in range(rnd.randint(1, 6)))};")
    elif pick < 0.34:
        print(f"INSERT INTO {t.name} ({names}) VALUES {t.values()} ON DUPLICATE KEY UPDATE {column[0]} = {t.value(column)};")
    elif pick < 0.46:
        # An UPDATE that stops at a duplicate stops at a row that depends on the plan: all of it is undone.
        print(f"UPDATE {t.name} SET {column[0]} = {t.value(column)} WHERE {t.condition()};")
    elif pick < 0.52:
        print(f"DELETE FROM {t.name} WHERE {t.condition()};")
    elif pick < 0.82:
        print(t.show("WHERE " + t.condition()) + ";")
    elif pick < 0.86:
        keys = [k.split()[k.split().index("KEY") + 1] for k in t.keys if "PRIMARY" not in k]
        if keys:
            key = rnd.choice(keys)
            print(t.show(f"WHERE {t.condition()}", f"FORCE INDEX ({key})") + ";")
            print(f"SELECT COUNT(*), COUNT(DISTINCT {column[0]}) FROM {t.name} FORCE INDEX ({key});")
    elif pick < 0.90:
        u = rnd.choice(tables)
        print(f"SELECT COUNT(*) FROM {t.name} a JOIN {u.name} b ON a.{rnd.choice(t.names())} = b.{rnd.choice(u.names())};")
    elif pick < 0.92:
        print(f"SELECT MIN({column[0]}) <=> MAX({column[0]}), COUNT(*) FROM {t.name} WHERE {t.condition()};")
    elif pick < 0.97:
        print(rnd.choice(["COMMIT", "ROLLBACK"]) + ";" if in_transaction else "BEGIN;")
        in_transaction = not in_transaction
    elif pick < 0.985 and not in_transaction:
        print(f"ALTER TABLE {t.name} FORCE;")
    else:
        in_transaction = False
        print("COMMIT;")
        print(f"CHECK TABLE {t.name};")
print("COMMIT;")
for t in tables:
    print(t.show() + ";")
    print(f"CHECK TABLE {t.name};")
    print(f"SELECT COUNT(*) FROM {t.name};")
