#!/usr/bin/env python3
# random_queries.py SOCKET SEED [QUERIES]: random range and join queries on both engines with switches on and off.
# PREFIX=$(make -s prefix); a server as `make server` starts it. Prints what differs, ends with 1 then.
import os, random, subprocess, sys
sock, seed = sys.argv[1], int(sys.argv[2])
VCOL = bool(os.environ.get("VCOL"))
nq = int(sys.argv[3]) if len(sys.argv) > 3 else 150
rnd = random.Random(seed)
MARIADB = os.environ["PREFIX"] + "/bin/mariadb"  # make -s prefix
COLL = ["latin1_swedish_ci", "utf8mb4_general_ci", "utf8mb4_uca1400_ai_ci", "utf8mb4_bin", "utf8mb4_uca1400_nopad_ai_ci"]
WORDS = ["", " ", "a", "A", "a ", "ab", "aB", "b", "B ", "abc", "z", "Ab ", "ß", "ss", "é", "e"]
def word(): return "'" + rnd.choice(WORDS) + rnd.choice(["", str(rnd.randint(0, 9)), rnd.choice(WORDS)]) + "'"
TYPES = {
 "INT": lambda: str(rnd.randint(0, 30)),
 "SMALLINT": lambda: str(rnd.randint(-9, 9)),
 "BIGINT UNSIGNED": lambda: str(rnd.choice([rnd.randint(0, 20), 2**64-1-rnd.randint(0, 3)])),
 "DECIMAL(6,2)": lambda: f"{rnd.randint(-500, 500)/50:.2f}",
 "DOUBLE": lambda: str(rnd.choice([0, -1.5, 2.25, rnd.randint(-9, 9)])),
 "DATE": lambda: f"'2026-{rnd.randint(1,3):02}-{rnd.randint(1,28):02}'",
 "DATETIME(3)": lambda: f"'2026-01-0{rnd.randint(1,9)} 00:00:0{rnd.randint(0,3)}.{rnd.randint(0,9)}'",
 "ENUM('x','y','z')": lambda: rnd.choice(["'x'","'y'","'z'"]),
 "VARCHAR(20)": word, "CHAR(8)": word, "VARBINARY(12)": word, "TEXT": word,
}
STR = ("VARCHAR(20)", "CHAR(8)", "TEXT", "VARBINARY(12)")
class T:
  def __init__(self, n):
    self.name = n; self.cols = []
    for i in range(rnd.randint(4, 7)):
      k = rnd.choice(list(TYPES)); full = k
      if k in ("VARCHAR(20)", "CHAR(8)", "TEXT"):
        c = rnd.choice(COLL if k != "CHAR(8)" else COLL[:-1]); full = f"{k} CHARACTER SET {c.split('_')[0]} COLLATE {c}"
      self.cols.append((f"c{i}", k, full, rnd.random() < .5))
    self.vcol = None
    ints = [c for c in self.cols if c[1] in ("INT", "SMALLINT")]
    if ints and rnd.random() < .5: self.vcol = ("vc", "INT", f"INT AS ({ints[0][0]} * 3 + 1) VIRTUAL", True)
    self.keys = []
    self.pk = rnd.choice(["auto", "auto", "cols", "none"])
    if self.pk == "cols": self.pkparts = rnd.choice([["s", "id"], ["s(2)", "id"], ["id", "s(1)"], ["id"]])
    for i in range(rnd.randint(3, 5)):
      self.keys.append((f"k{i}", self.parts(rnd.randint(1, 3))))
  def all(self): return self.cols + ([self.vcol] if self.vcol else [])
  def keyable(self): return self.all() if VCOL else self.cols
  def parts(self, n):
    out = []
    for c, k, _, _ in rnd.sample(self.keyable(), min(n, len(self.keyable()))):
      ln = "(4)" if k == "TEXT" else ("(2)" if k in STR and rnd.random() < .2 else "")
      out.append(c + ln + rnd.choice(["", "", "", " DESC"]))
    return out
  def create(self, eng):
    l = [f"{n} {f}{'' if null else ' NOT NULL'}" if n != "vc" else f"{n} {f}" for n, _, f, null in self.all()]
    pk = {"auto": "PRIMARY KEY (id)", "none": "KEY (id)"}.get(self.pk) or "PRIMARY KEY (" + ", ".join(self.pkparts) + ")"
    return f"CREATE TABLE {self.name} (id INT NOT NULL AUTO_INCREMENT, s VARCHAR(8) COLLATE utf8mb4_general_ci NOT NULL DEFAULT '', {', '.join(l)}, {pk}, KEY idk (id), " + ", ".join(f"KEY {n} ({', '.join(p)})" for n, p in self.keys) + f") ENGINE={eng} CHARACTER SET utf8mb4"
  def value(self, c): return "NULL" if c[3] and rnd.random() < .15 else TYPES[c[1]]()
  def row(self): return f"({word()}, " + ", ".join(self.value(c) for c in self.cols) + ")"
  def cond(self, a, n=None):
    terms = []
    for _ in range(n or rnd.randint(1, 3)):
      c = rnd.choice(self.all()); n_, v = f"{a}.{c[0]}", TYPES[c[1]]
      opts = [f"{n_} = {v()}", f"{n_} > {v()}", f"{n_} <= {v()}", f"{n_} BETWEEN {v()} AND {v()}", f"{n_} IS NULL", f"{n_} IN ({v()}, {v()}, {v()})", f"{n_} <> {v()}", f"{n_} <=> {self.value(c)}"]
      if c[1] in ("INT", "SMALLINT"): opts += [f"{n_} % 3 = 1", f"{n_} + 1 > {v()}"]
      if c[1] in STR: opts += [f"{n_} LIKE 'a%'", f"LENGTH({n_}) > 1"]
      terms.append(rnd.choice(opts))
    if rnd.random() < .2: terms.append(f"{a}.id % 3 = 0")
    s = terms[0]
    for t in terms[1:]: s = f"({s} {rnd.choice(['AND', 'AND', 'OR'])} {t})"
    return s
  def out(self, a): return [f"HEX({a}.{c[0]})" if c[1] in STR else f"{a}.{c[0]}" for c in [("id", "INT")] + rnd.sample(self.all(), rnd.randint(1, len(self.all())))]
  def hint(self):
    r = rnd.random()
    return f"FORCE INDEX ({rnd.choice(self.keys)[0]})" if r < .6 else (f"IGNORE INDEX ({rnd.choice(self.keys)[0]})" if r < .7 else "")
  def key_col(self):
    # first column of a key, for joins
    k = rnd.choice(self.keys); c = k[1][0].split()[0].split("(")[0]
    return k[0], next(x for x in self.all() if x[0] == c)
tables = [T(f"t{i}") for i in range(3)]
setup = ["SET NAMES utf8mb4; SET sql_mode='';"]
def make(db, eng): return [f"DROP DATABASE IF EXISTS {db}; CREATE DATABASE {db}; USE {db};"] + [t.create(eng) + ";" for t in tables]
ins = []
for t in tables:
  n = rnd.choice([20, 200, 800])
  rows = [t.row() for _ in range(n)]
  for i in range(0, n, 200): ins.append(f"INSERT INTO {t.name} (s, {', '.join(c[0] for c in t.cols)}) VALUES {', '.join(rows[i:i+200])};")
changes = []
for t in tables:
  changes += [f"UPDATE {t.name} SET {(c := rnd.choice(t.cols))[0]} = {t.value(c)} WHERE id % 7 = {rnd.randint(0,6)};",
              f"DELETE FROM {t.name} WHERE id % 11 = 3;",
              f"INSERT INTO {t.name} (id, s, {', '.join(c[0] for c in t.cols)}) VALUES {', '.join('(' + str(2000+i) + ',' + t.row()[1:] for i in range(20))};"]
queries = []
for _ in range(nq):
  kind = rnd.random(); t = rnd.choice(tables); lock = rnd.choice([""]*6 + [" FOR UPDATE", " LOCK IN SHARE MODE"])
  if kind < .45:
    o = t.out("x"); order = ", ".join(f"{i+1}{rnd.choice(['', ' DESC'])}" for i in range(len(o)))
    lim = "" if rnd.random() < .8 else f" LIMIT {rnd.randint(1, 10)}"
    queries.append(f"SELECT {', '.join(o)} FROM {t.name} x {t.hint()} WHERE {t.cond('x')} ORDER BY {order}{lim}{lock}")
  elif kind < .52:  # in the order of an index
    k, parts = rnd.choice(t.keys)
    names = [p.split()[0].split("(")[0] for p in parts]; d = rnd.choice(["", " DESC"])
    ref = {c[0]: c for c in t.all()}
    shown = ", ".join(f"HEX(WEIGHT_STRING(x.{n}))" if ref[n][1] in STR else f"x.{n}" for n in names if ref[n][1] != "TEXT") or "1"
    nm = [n for n in names if ref[n][1] != "TEXT"]
    ob = " ORDER BY " + ", ".join(f"x.{n}{d}" for n in nm) if nm else ""
    queries.append(f"SELECT {shown} FROM {t.name} x FORCE INDEX ({k}) WHERE {t.cond('x')}{ob}{lock}")
  elif kind < .90:
    u = rnd.choice(tables); k, c = u.key_col(); same = [x for x in t.all() if (x[1] in STR) == (c[1] in STR)]
    left = rnd.choice(same) if same else rnd.choice(t.all())
    on = f"y.{c[0]} = x.{left[0]}"
    o = ["x.id", "y.id"] + rnd.sample(t.out("x")[1:], 1) + u.out("y")[1:]
    extra = u.cond("y") if rnd.random() < .7 else "1=1"
    if rnd.random() < .3: extra = f"({extra}) AND y.id + x.id > {rnd.randint(0, 300)}"
    j = rnd.choice(["JOIN", "STRAIGHT_JOIN", "STRAIGHT_JOIN", "LEFT JOIN"])
    hint = rnd.choice([f"FORCE INDEX ({k})", f"FORCE INDEX ({k})", ""])
    w = f" WHERE {t.cond('x')} AND x.id < 150"
    if j == "LEFT JOIN": on, extra = f"{on} AND {extra}", "1=1"
    queries.append(f"SELECT {', '.join(o)} FROM {t.name} x {j} {u.name} y {hint} ON {on}{w} AND {extra} ORDER BY {', '.join(str(i+1) for i in range(len(o)))}{lock}")
  elif kind < .95:
    k, parts = rnd.choice(t.keys); n = parts[0].split()[0].split("(")[0]; c = next(x for x in t.all() if x[0] == n)
    m = rnd.choice(t.all())
    g = f"HEX(WEIGHT_STRING(x.{n}))" if c[1] in STR else f"x.{n}"
    agg = f"COUNT(DISTINCT x.{m[0]})" if m[1] in STR else f"MIN(x.{m[0]}), MAX(x.{m[0]})"
    queries.append(f"SELECT {g}, {agg} FROM {t.name} x {t.hint()} WHERE {t.cond('x', 1)} GROUP BY x.{n} ORDER BY 1, 2")
  else:
    u = rnd.choice(tables); k, c = u.key_col(); left = rnd.choice(t.all())
    queries.append(f"SELECT x.id FROM {t.name} x WHERE {t.cond('x')} AND {rnd.choice(['EXISTS', 'NOT EXISTS'])} (SELECT 1 FROM {u.name} y FORCE INDEX ({k}) WHERE y.{c[0]} = x.{left[0]} AND {u.cond('y')}) ORDER BY 1")
configs = {
 "all": "SET optimizer_switch='mrr=on,mrr_sort_keys=on,mrr_cost_based=off,rowid_filter=on,index_merge_sort_intersection=on,optimize_join_buffer_size=off', join_cache_level=8, join_buffer_size=262144, mrr_buffer_size=8192;",
 "bka": "SET optimizer_switch='mrr=on,mrr_sort_keys=off,mrr_cost_based=off,rowid_filter=on,optimize_join_buffer_size=off', join_cache_level=6, join_buffer_size=262144;",
 "off": "SET optimizer_switch='index_condition_pushdown=off,mrr=off,rowid_filter=off,index_merge=off', join_cache_level=0;",
 "plain": "",
}
def run(db, text):
  p = subprocess.run([MARIADB, "--no-defaults", "-S", sock, "-uroot", "-f", "-N", "--default-character-set=utf8mb4"] + ([db] if db else []), input=text.encode(), capture_output=True, timeout=560)
  return p.stdout.decode(errors="replace"), "\n".join(x for x in p.stderr.decode(errors="replace").split("\n") if x.startswith("ERROR"))
o = f"fo{seed}"; h = f"fh{seed}"
for db, eng in ((o, "TidesDB"), (h, "InnoDB")):
  out, err = run("", "\n".join(setup + make(db, eng) + ins + ["ANALYZE TABLE t0, t1, t2;"]))
  if err: print(f"seed {seed} {eng}: {err[:600]}"); sys.exit(2)
level = rnd.choice(["REPEATABLE READ", "REPEATABLE READ", "READ COMMITTED", "SERIALIZABLE", "READ UNCOMMITTED"])
own = rnd.random() < .5
results = {}
stats = ""
for db in (o, h):
  for name, s in configs.items():
    text = "\n".join(setup + [s, f"SET SESSION TRANSACTION ISOLATION LEVEL {level};", "BEGIN;" if own else ""] + (changes if own else []) +
      [f"SELECT 'QUERY {i}';\n{q};" for i, q in enumerate(queries)] + ["SHOW STATUS LIKE 'Handler_icp%'; SHOW STATUS LIKE 'Handler_mrr_init';", "ROLLBACK;"])
    out, err = run(db, text)
    parts = out.split("QUERY ")
    if name == "all" and db == o: stats = " ".join(x.replace("\t", "=") for x in parts[-1].split("\n") if x.startswith("Handler"))
    last = parts[-1].split("\n"); parts[-1] = "\n".join(x for x in last if not x.startswith("Handler_"))
    results[(db, name)] = (parts, err)
base = results[(h, "off")]
def body(parts, i): return parts[i].split("\n")[1:]
bad = server = 0
for db, err in ((o, 0),):
  for name in configs:
    mine, his = results[(o, name)], results[(h, name)]
    if len(mine[0]) != len(his[0]): print(f"seed {seed} {name}: {len(mine[0])} answers, not {len(his[0])}: {mine[1][:300]}"); bad += 1; continue
    for i in range(1, len(mine[0])):
      a, b, c = body(mine[0], i), body(his[0], i), body(base[0], i)
      if a == c: continue
      if a == b: server += 1; continue
      if sorted(a) == sorted(b): server += 1; continue  # ties
      bad += 1
      if bad < 6:
        print(f"seed {seed} level {level} own {own} {name} differs: {queries[i-1]}")
        print("   rows", len(a)-1, "InnoDB", len(b)-1, "InnoDB off", len(c)-1, "only here", list(set(a) - set(b))[:3], "missing", list(set(b) - set(a))[:3])
    if mine[1] != his[1]: print(f"seed {seed} {name} errors: {mine[1][:300]} -- InnoDB: {his[1][:300]}")
print(f"seed {seed} {level} own={own}: {'DIFFERENT ' + str(bad) if bad else 'same'} server {server} {stats}")
if not bad: run("", f"DROP DATABASE {o}; DROP DATABASE {h};")
sys.exit(1 if bad else 0)
