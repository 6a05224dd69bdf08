#!/usr/bin/env python3
"""Runs codec_probe() over generated tables and prints the SQL; feed it to a client:

    codec_probe.py [seed] | mariadb ...      every line of output must be 'ok' with a count
"""
import random
import sys

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
rnd = random.Random(seed)

COLLATIONS = """latin1_swedish_ci latin1_bin latin1_general_cs latin1_german2_ci latin1_swedish_nopad_ci
latin1_nopad_bin utf8mb4_general_ci utf8mb4_general_nopad_ci utf8mb4_bin utf8mb4_nopad_bin utf8mb4_unicode_ci
utf8mb4_unicode_520_nopad_ci utf8mb4_uca1400_ai_ci utf8mb4_uca1400_as_cs utf8mb4_uca1400_ai_cs
utf8mb4_uca1400_as_ci utf8mb4_uca1400_nopad_as_cs utf8mb4_uca1400_nopad_ai_ci utf8mb4_german2_ci
utf8mb4_uca1400_czech_as_cs utf8mb4_thai_520_w2 utf8mb3_general_ci utf8mb3_bin utf8mb3_general_mysql500_ci
ucs2_general_ci ucs2_bin utf16_general_ci utf16_bin utf16_unicode_ci utf32_general_ci utf32_bin
gbk_chinese_ci gbk_bin sjis_japanese_ci big5_chinese_ci cp932_bin ujis_japanese_ci euckr_korean_ci
tis620_thai_ci latin2_czech_cs cp1250_czech_cs ascii_general_ci ascii_bin koi8r_general_ci binary""".split()

WORDS = ["", " ", "  ", "a", "A", "a ", "A  ", "ab", "aB", "a b", "a  b", "a \\t", "a\\t", "a\\t ", "\\t", "b",
         "a\\0", "\\0", "\\0\\0", "\\0a", "a\\0 ", "zz", "Zz", "z" * 20, "abcdefghi", "abcdefgh", "ch", "h", "c"]
UNICODE = ["ä", "Ä", "ae", "á", "à", "ß", "ss", "sS", "ﬁ", "fi", "ﷺ", "ﷺﷺﷺ", "日本", "日", "\U0001F600", "a\u00ad",
           "a\u0301", "\u0301", "é ", "e", "ž", "č", "ﬃ", "Ǆ", "กา", "เก", "\uffff", "\U0010ffff"]

def text(word):
    return "'" + word.replace("'", "''") + "'"

def values(cast):
    words = WORDS + UNICODE
    for _ in range(25):
        words.append("".join(rnd.choice(words) for _ in range(rnd.randint(1, 4)))[:20].rstrip('\\'))
    return [text(w) for w in words]

number = 0

def table(columns, keys, rows, options="", ignore=True):
    global number
    number += 1
    name = f"p{number}"
    print(f"CREATE OR REPLACE TABLE {name} ({', '.join(columns + keys)}) ENGINE=InnoDB {options};")
    for row in rows:
        print(f"INSERT {'IGNORE' if ignore else ''} INTO {name} VALUES ({row});")
    names = ", ".join(c.split()[0] for c in columns)
    label = " | ".join(columns[-2:])[:80].replace("'", "")
    print(f"SELECT '{name} {label}' AS t, v, COUNT(*) FROM (SELECT codec_probe({names}) AS v "
          f"FROM {name} IGNORE INDEX (k1)) d GROUP BY v;")

print("CREATE DATABASE IF NOT EXISTS probe; USE probe; SET NAMES utf8mb4; SET sql_mode='';")
print("SET SESSION innodb_strict_mode=0; DROP FUNCTION IF EXISTS codec_probe;")
print("CREATE FUNCTION codec_probe RETURNS STRING SONAME 'codec_probe.so';")

for collation in COLLATIONS:
    charset = collation.split("_")[0]
    suffix = f"CHARACTER SET {charset} COLLATE {collation}"
    vals = values(None)
    rows = [f"{i}, {rnd.choice(vals + ['NULL'])}, {v}, {v}, {rnd.choice(vals)}" for i, v in enumerate(vals)]
    rows += [f"{1000 + i}, {rnd.choice(vals + ['NULL'])}, {rnd.choice(vals + ['NULL'])}, {rnd.choice(vals)}, "
             f"{rnd.choice(vals + ['NULL'])}" for i in range(20)]
    kind = "VARBINARY" if collation == "binary" else "VARCHAR"
    char = "BINARY" if collation == "binary" else "CHAR"
    blob = "BLOB" if collation == "binary" else "TEXT"
    suffix = "" if collation == "binary" else suffix
    for primary in ("PRIMARY KEY (id)", "PRIMARY KEY (v DESC, id)", "KEY (id)", "PRIMARY KEY (c, v(3), id)"):
        table([f"id INT NOT NULL", f"n {kind}(20) {suffix}", f"c {char}(20) {suffix} NOT NULL",
               f"v {kind}(20) {suffix} NOT NULL", f"t {blob} {suffix}"],
              [primary, "KEY k1 (v)", "KEY (v DESC, c)", "KEY (n)", "KEY (n DESC, id DESC)", "KEY (c)",
               "KEY (t(3))", "KEY (v(3), n(2))", "UNIQUE u (n, id)", "KEY (c(2), t(5) DESC)"], rows)

def integers(bits, unsigned):
    low, high = (0, 2 ** bits - 1) if unsigned else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)
    picks = [low, low + 1, high, high - 1, 0, 1, 255, 256, 65535, 65536] + ([] if unsigned else [-1, -2, -256, -257])
    picks += [rnd.randint(low, high) for _ in range(10)]
    return [str(min(max(p, low), high)) for p in picks]

TYPES = []
for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)):
    TYPES.append((name, integers(bits, False)))
    TYPES.append((name + " UNSIGNED", integers(bits, True)))
decimals = ["0", "-0.01", "0.01", "99999.99", "-99999.99", "123.45", "-123.45", "1", "-1", "100", "-100"]
for fsp in (0, 1, 3, 6):
    TYPES += [(f"TIME({fsp})", ["'00:00:00'", "'-00:00:01'", "'838:59:59.999999'", "'-838:59:59.9'", "'12:34:56.789123'",
                                "'-00:00:00.5'", "'-12:34:56.789123'", "'00:00:00.5'"]),
              (f"DATETIME({fsp})", ["'0000-00-00'", "'1000-01-01'", "'9999-12-31 23:59:59.999999'", "'2026-01-01 00:00:00.5'",
                                    "'2026-01-01'", "'2025-12-31 23:59:59.25'"]),
              (f"TIMESTAMP({fsp})", ["'1970-01-02 00:00:01'", "'2038-01-19 03:14:07'", "'2026-01-01 00:00:00.123456'",
                                     "'2026-01-01'", "'2105-01-01'"])]
TYPES += [
    ("DECIMAL(7,2)", decimals), ("DECIMAL(65,30)", decimals + ["12345678901234567890.123456789012345"]),
    ("DECIMAL(5,0) UNSIGNED", decimals), ("FLOAT", ["0", "-0e0", "1.5", "-1.5", "3e38", "-3e38", "1e-38", "-1e-38"]),
    ("DOUBLE", ["0", "-0e0", "1.5", "-1.5", "1e308", "-1e308", "1e-308", "-1e-308", "0.1"]),
    ("DATE", ["'0000-00-00'", "'1000-01-01'", "'9999-12-31'", "'2026-02-28'", "'2026-03-01'", "'2026-00-00'"]),
    ("YEAR", ["0", "1901", "2000", "2026", "2155"]),
    ("BIT(1)", ["0", "1"]), ("BIT(12)", ["0", "1", "255", "256", "4095", "2048"]), ("BIT(64)", integers(64, True)),
    ("ENUM('z','y','x','w')", ["'z'", "'y'", "'x'", "''"]), ("SET('a','b','c','d','e','f','g','h','i')", ["''", "'a'", "'i'", "'a,i'", "'b'"]),
    ("BINARY(5)", ["''", "'a'", "'a '", "'a\\0'", "'abcde'", "0xff", "0x00"]), ("BINARY(255)", ["''", "'a'", "0xff"]),
    ("VARBINARY(300)", ["''", "'a'", "'a '", "'a\\0'", "'a\\0\\0'", "0xff", "0x00", "0x0001", "0x00ff", "0x01"]),
    ("CHAR(3) CHARACTER SET latin1", ["''", "'a'", "'A '", "'abc'", "'a\\t'"]),
    ("VARCHAR(300) CHARACTER SET utf8mb4", ["''", "'a'", "'A '", "'abc'", "'a\\t'", "REPEAT('x',300)", "REPEAT('x ',150)", "REPEAT('y',127)", "REPEAT('y',128)"]),
    ("UUID", ["'00000000-0000-0000-0000-000000000000'", "'123e4567-e89b-12d3-a456-426655440000'",
              "'ffffffff-ffff-1fff-8fff-ffffffffffff'", "'123e4567-e89b-42d3-a456-426655440001'", "'01890a5d-ac96-774b-bcce-b302099a8057'"]),
    ("INET6", ["'::'", "'::1'", "'ffff::'", "'::ffff:1.2.3.4'"]), ("INET4", ["'0.0.0.0'", "'255.255.255.255'", "'1.2.3.4'"]),
]
for name, vals in TYPES:
    rows = [f"{i}, {v}, {rnd.choice(vals + ['NULL'])}, {rnd.choice(['1','2','NULL'])}" for i, v in enumerate(vals)]
    rows += [f"{100 + i}, {rnd.choice(vals)}, {rnd.choice(vals + ['NULL'])}, {rnd.choice(['1','2','NULL'])}" for i in range(15)]
    for primary in ("PRIMARY KEY (id)", "PRIMARY KEY (a, id)", "PRIMARY KEY (id DESC, a DESC)", "KEY (id)"):
        table(["id INT NOT NULL", "q TINYINT", f"a {name} NOT NULL", f"b {name}"][0:1] + [f"a {name} NOT NULL", f"b {name}", "q TINYINT"],
              [primary, "KEY k1 (a)", "KEY (b)", "KEY (b DESC)", "KEY (q, a DESC)", "UNIQUE (q, id)", "UNIQUE (b, q, a, id)", "UNIQUE (id, a)"], rows)

# Runs, NULLs in every position, blobs, generated columns.
for i in range(10):
    kinds = ["INT", "BIGINT", "CHAR(4)", "CHAR(40)", "VARCHAR(10)", "VARCHAR(400)", "TEXT", "TINYBLOB", "LONGBLOB", "DATETIME(6)", "DOUBLE", "DECIMAL(10,3)", "BIT(9)", "CHAR(0)"]
    columns, makers = ["id INT NOT NULL"], []
    for c in range(rnd.randint(1, 30)):
        kind = rnd.choice(kinds)
        null = rnd.random() < 0.6 or kind in ("DATETIME(6)",)
        columns.append(f"c{c} {kind} {'' if null else 'NOT NULL'}")
        makers.append((kind, null))
    columns.append("g INT AS (id + 1) VIRTUAL")
    columns.append("s INT AS (id + 2) STORED")
    rows = []
    for r in range(30):
        cells = [str(r)]
        for kind, null in makers:
            if null and rnd.random() < 0.4:
                cells.append("NULL")
            elif "CHAR" in kind or "TEXT" in kind or "BLOB" in kind:
                cells.append(f"REPEAT('{rnd.choice('ab ')}', {rnd.choice([0, 1, 5, 100, 200])})")
            elif kind.startswith("DATETIME"):
                cells.append("'2026-01-01 01:02:03.456789'")
            else:
                cells.append(str(rnd.randint(0, 500)))
        rows.append(", ".join(cells + ["DEFAULT", "DEFAULT"]))
    table(columns, [rnd.choice(["PRIMARY KEY (id)", "KEY (id)"]), "KEY k1 (g)", "KEY (s, g DESC)"], rows)
