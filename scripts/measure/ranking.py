#!/usr/bin/env python3
"""make bench-ranking [DOCUMENTS=5000] [QUERIES=200] [SEEDS="1 2 3"]: the quality of the ranks of MATCH.

The same rows and queries on TidesDB and InnoDB in one server; nDCG@10 of the first ten rows, by score. Two collections:
documents that are generated, with relevant ones planted among them, and those of Lee, Pincombe and Welsh (2005) with the
judgements of people, which the Python package gensim ships: pip brings it once. Prints a line for each collection and kind of query.
"""

import math
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGE = "gensim==4.4.0"
ENGINES = ["TidesDB", "InnoDB"]
BEST = 10
# A query's three words, by their ranks in the vocabulary: few, some and many documents have them.
KINDS = {"rare": (1500, 4000), "middle": (200, 1500), "frequent": (20, 200)}
RESAMPLES = 2000


class Client:
    """The server's client, one statement at a time."""

    def __init__(self, prefix, socket):
        words = [prefix + "/bin/mariadb", "--no-defaults", "-u", "root", "-S", socket, "-N", "-B", "--unbuffered"]
        words += ["--default-character-set=utf8mb4"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def ask(self, statement):
        self.process.stdin.write(statement + ";\nSELECT 'asked';\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line == "asked\n":
                return lines
            lines.append(line.rstrip("\n"))
        sys.exit("the server refused: " + statement[:200])


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


class Collection:
    """Documents by number, of which the first ones are judged, and queries: text, grades of relevant documents, and one
    document that is left out (the query itself)."""

    def __init__(self, name):
        self.name, self.documents, self.judged, self.queries = name, {}, 0, []

    def load(self, client, engine):
        client.ask(f"CREATE OR REPLACE TABLE doc (id INT PRIMARY KEY, body TEXT) ENGINE={engine}")
        rows = [f"({number}, {quoted(text)})" for number, text in self.documents.items()]
        for first in range(0, len(rows), 500):
            client.ask("INSERT INTO doc VALUES " + ", ".join(rows[first : first + 500]))
        client.ask("ALTER TABLE doc ADD FULLTEXT KEY (body)")
        client.ask("ANALYZE TABLE doc")


def word(number):
    """A word for a rank: letters alone, four and more, no two alike."""
    letters = []
    for _ in range(4):
        number, letter = divmod(number, 21)
        letters.append("bcdfghjklmnpqrstvwxyz"[letter])
    return "".join(letter + "aeiou"[i % 5] for i, letter in enumerate(letters)) + ("" if number == 0 else str(number))


def generated(seed, documents, queries):
    """Documents of 20 to 400 words by Zipf's law. A query has three words. Five documents have a lot of one, two or all three
    of them in a passage of theirs (grades 1 to 3). Others have them too, by chance, and more of these the longer they are."""
    dice = random.Random(seed)
    ranks = list(range(1, 20001))
    weights = [1 / (rank + 2.7) for rank in ranks]
    sums = []
    for weight in weights:
        sums.append((sums[-1] if sums else 0) + weight)
    draw = lambda number: dice.choices(ranks, cum_weights=sums, k=number)
    texts = [[word(rank) for rank in draw(int(20 * math.exp(dice.random() * math.log(20))))] for _ in range(documents)]
    found = {kind: Collection(f"generated {seed}, {kind} words") for kind in KINDS}
    planted = set()
    for number in range(queries):
        kind = list(KINDS)[number % len(KINDS)]
        words = [word(rank) for rank in dice.sample(range(*KINDS[kind]), 3)]
        grades = {}
        for grade in (3, 3, 2, 2, 1):
            at = dice.randrange(documents)
            while at in planted:
                at = dice.randrange(documents)
            planted.add(at)
            grades[at + 1] = grade
            place = dice.randrange(len(texts[at]) + 1)
            passage = [dice.choice(words[:grade]) for _ in range(2)] + words[:grade]
            texts[at][place:place] = passage + [word(rank) for rank in draw(5)]
        found[kind].queries.append((" ".join(words), grades, None))
    whole = {number + 1: " ".join(text) for number, text in enumerate(texts)}
    for collection in found.values():
        collection.documents, collection.judged = whole, documents
    return list(found.values())


def download(directory):
    """The package into a directory of its own; it is not installed."""
    directory.mkdir(parents=True, exist_ok=True)
    if not list(directory.glob("gensim-*.whl")):
        words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", directory, PACKAGE]
        subprocess.run(words, check=True)
    return zipfile.ZipFile(next(directory.glob("gensim-*.whl")))


def lee(package):
    """50 documents, each a query for the others. The grade is how alike people found two of them, from 0 to 4; pairs that are
    hardly alike (below 0.4 of 1) have none. 300 more documents are in the table and in nobody's judgement: they are left
    out of the answers."""
    read = lambda name: package.read("gensim/test/test_data/" + name).decode("latin-1").splitlines()
    own, others = read("lee.cor"), read("lee_background.cor")
    alike = [[float(value) for value in line.split()] for line in read("similarities0-1.txt")]
    collection = Collection("Lee, whole documents")
    first = Collection("Lee, first 12 words")
    collection.judged = first.judged = len(own)
    collection.documents = first.documents = {number + 1: text for number, text in enumerate(own + others)}
    for number, text in enumerate(own):
        pair = lambda other: alike[min(number, other)][max(number, other)]
        grades = {other + 1: 4 * pair(other) for other in range(50) if other != number and pair(other) >= 0.4}
        if grades:
            collection.queries.append((text, grades, number + 1))
            first.queries.append((" ".join(text.split()[:12]), grades, number + 1))
    return [collection, first]


def gain(grade, place):
    return (2**grade - 1) / math.log2(place + 2)


def ndcg(ranked, grades):
    best = sum(gain(grade, place) for place, grade in enumerate(sorted(grades.values(), reverse=True)[:BEST]))
    return sum(gain(grades.get(number, 0), place) for place, number in enumerate(ranked[:BEST])) / best


def search(client, collection):
    """nDCG@10 of each query."""
    scores = []
    for text, grades, left_out in collection.queries:
        match = f"MATCH (body) AGAINST ({quoted(text)})"
        where = f"{match} AND id <= {collection.judged}"
        rows = client.ask(f"SELECT id FROM doc WHERE {where} ORDER BY {match} DESC, id LIMIT {BEST + 1}")
        ranked = [int(row) for row in rows if int(row) != left_out]
        scores.append(ndcg(ranked, grades))
    return scores


def interval(values):
    """95 % of the means of samples of the queries, drawn anew."""
    dice = random.Random(0)
    means = sorted(sum(dice.choices(values, k=len(values))) / len(values) for _ in range(RESAMPLES))
    return means[RESAMPLES // 40], means[-RESAMPLES // 40]


def main():
    client = Client(os.environ["MARIADB_PREFIX"], os.environ["DATA"] + "/mysqld.sock")
    client.ask("CREATE OR REPLACE DATABASE ranking CHARACTER SET utf8mb4; USE ranking")
    documents, queries = int(os.environ.get("DOCUMENTS") or 5000), int(os.environ.get("QUERIES") or 200)
    groups = [generated(int(seed), documents, queries) for seed in (os.environ.get("SEEDS") or "1 2 3").split()]
    groups.append(lee(download(Path(os.environ["DATA"] + "-package"))))
    print(f"{'collection':<28} {'queries':>7}  {'TidesDB':>7}  {'InnoDB':>7}  difference (95 %)", flush=True)
    for group in groups:
        scores = {}
        for engine in ENGINES:
            group[0].load(client, engine)
            for collection in group:
                scores[collection.name, engine] = search(client, collection)
        for collection in group:
            ours, theirs = (scores[collection.name, engine] for engine in ENGINES)
            low, high = interval([a - b for a, b in zip(ours, theirs)])
            mean = lambda values: sum(values) / len(values)
            print(
                f"{collection.name:<28} {len(ours):>7}  {mean(ours):>7.3f}  {mean(theirs):>7.3f}  "
                f"{mean(ours) - mean(theirs):+.3f} ({low:+.3f} to {high:+.3f})",
                flush=True,
            )
    client.ask("DROP DATABASE ranking")


main()
