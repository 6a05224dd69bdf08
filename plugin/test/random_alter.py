#!/usr/bin/env python3
# random_alter.py SOCKET SEED SECONDS: random ALTERs and changes on an InnoDB and a TidesDB table, compared.
import os, random, re, subprocess, sys, time
sock, seed, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rnd = random.Random(seed)
MARIADB = os.environ["PREFIX"] + "/bin/mariadb"  # make -s prefix
class Client:
  def __init__(self, db):
    self.p = subprocess.Popen([MARIADB, "--no-defaults", "-S", sock, "-uroot", "--force", "-n", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    self.n = 0
    self.db = db
    self.run(f"CREATE OR REPLACE DATABASE {db}; USE {db}")
    self.run(f"SET default_storage_engine={'TidesDB' if db.startswith('dt') else 'InnoDB'}, timestamp=1700000000")
  def run(self, sql):
    self.n += 1
    self.p.stdin.write(sql + f";\nSELECT 'mark-{self.n}' AS themark;\n"); self.p.stdin.flush()
    out = []
    while True:
      line = self.p.stdout.readline()
      if line == "": raise SystemExit("client gone: " + sql + "".join(out))
      if line.rstrip("\n") == f"mark-{self.n}":
        if out and out[-1].rstrip("\n") == "themark": out.pop()
        return "".join(out)
      out.append(line)
WORDS = ["", " ", "a", "A", "a ", "ab", "aB", "b", "B ", "abc", "z", "Ab ", "ß", "ss", "é", "e"]
def word(): return "'" + rnd.choice(WORDS) + rnd.choice(["", str(rnd.randint(0, 99)), rnd.choice(WORDS)]) + "'"
TYPES = {
 "INT": lambda: str(rnd.randint(0, 300)), "TINYINT": lambda: str(rnd.randint(-9, 9)),
 "BIGINT UNSIGNED": lambda: str(rnd.choice([rnd.randint(0, 200), 2**64-1-rnd.randint(0, 30)])),
 "DECIMAL(6,2)": lambda: f"{rnd.randint(-500, 500)/50:.2f}", "DOUBLE": lambda: str(rnd.choice([0, -1.5, 2.25, rnd.randint(-9, 9)])),
 "DATE": lambda: f"'2026-{rnd.randint(1,3):02}-{rnd.randint(1,28):02}'", "DATETIME(3)": lambda: f"'2026-01-0{rnd.randint(1,9)} 00:00:0{rnd.randint(0,3)}.{rnd.randint(0,9)}'",
 "TIMESTAMP": lambda: f"'2026-01-0{rnd.randint(1,9)} 00:00:0{rnd.randint(0,3)}'", "TIME(2)": lambda: f"'0{rnd.randint(0,9)}:00:01.5'", "YEAR": lambda: str(rnd.randint(1990, 2030)),
 "ENUM('x','y','z')": lambda: rnd.choice(["'x'","'y'","'z'"]), "SET('p','q')": lambda: rnd.choice(["''","'p'","'p,q'"]), "BIT(11)": lambda: str(rnd.randint(0, 2047)),
 "VARCHAR(20)": word, "VARCHAR(250)": word, "VARCHAR(300)": word, "CHAR(5)": word, "CHAR(30)": word, "VARBINARY(22)": word, "BINARY(6)": lambda: "'bin'", "TEXT": word, "BLOB": word, "JSON": lambda: "'[1]'",
 "UUID": lambda: "'123e4567-e89b-12d3-a456-4266554400%02d'" % rnd.randint(0, 99), "INET6": lambda: f"'::{rnd.randint(0,9)}'", "CHAR(0)": lambda: "''",
}
NOKEY = ("TEXT", "BLOB", "JSON", "CHAR(0)", "VARCHAR(250)", "VARCHAR(300)")
def definition(kind, nullable=None, default=None):
  d = kind
  if nullable is None: nullable = rnd.random() < .6
  if not nullable: d += " NOT NULL"
  if rnd.random() < .6:
    d += " DEFAULT " + ("NULL" if nullable and rnd.random() < .2 else TYPES[kind]())
    if kind in ("DATETIME(3)", "TIMESTAMP") and rnd.random() < .3: d = kind + ("" if nullable else " NOT NULL") + " DEFAULT CURRENT_TIMESTAMP" + ("(3)" if "3" in kind else "")
  elif kind == "TIMESTAMP": d += " NULL" if nullable else " DEFAULT '2020-01-01'"
  return d
class Table:
  def __init__(self, n):
    self.name = f"t{n}"; self.next = 0; self.cols = {}; self.keys = {}; self.virtual = set()
    self.pk = rnd.choice(["id", "id", "s, id", "none", "s"])
  def fresh(self, p):
    self.next += 1; return f"{p}{self.next}"
  def create(self):
    cols = []
    for _ in range(rnd.randint(2, 5)):
      c = self.fresh("c"); k = rnd.choice(list(TYPES)); self.cols[c] = k; cols.append(f"{c} {definition(k)}")
    pk = "" if self.pk == "none" else f", PRIMARY KEY ({self.pk})"
    return f"CREATE TABLE {self.name} (id INT NOT NULL, s VARCHAR(10) COLLATE {rnd.choice(['utf8mb4_bin','utf8mb4_uca1400_ai_ci','latin1_swedish_ci'])} NOT NULL, {', '.join(cols)}{pk}) CHARACTER SET {rnd.choice(['utf8mb4','latin1'])}"
  def parts(self):
    out = []
    for c in rnd.sample(sorted(self.cols), min(len(self.cols), rnd.randint(1, 2))):
      if self.cols[c] == "CHAR(0)": continue
      out.append(c + (f"({rnd.randint(1,5)})" if self.cols[c] in NOKEY or (self.cols[c].startswith(("VARCHAR", "CHAR", "VARBIN")) and rnd.random() < .3) else "") + rnd.choice(["", "", " DESC"]))
    return ", ".join(out) or "id"
  def place(self): return rnd.choice(["", "", " FIRST"] + [f" AFTER {c}" for c in list(self.cols)[:3]] + [" AFTER id"])
  def action(self, used):
    free = [c for c in self.cols if c not in used]
    r = rnd.random()
    if r < .28 or not free:
      c = self.fresh("c"); k = rnd.choice(list(TYPES)); used.add(c); return f"ADD COLUMN {c} {definition(k)}{self.place()}"
    c = rnd.choice(free); used.add(c); k = self.cols[c]
    if r < .40: return f"DROP COLUMN {c}"
    if r < .46: return f"RENAME COLUMN {c} TO {self.fresh('c')}"
    if r < .56: return f"MODIFY {c} {definition(k)}{self.place()}"
    if r < .62 and k.startswith("VARCHAR"): return f"MODIFY {c} VARCHAR({rnd.choice([40,200,255,256,400])})"
    if r < .66 and k.startswith("ENUM"): return f"MODIFY {c} ENUM('x','y','z','n{self.next}')"
    if r < .72:
      v = self.fresh("v"); return f"ADD COLUMN {v} INT AS (id * 2) VIRTUAL{self.place()}"
    if r < .76 and self.virtual:
      v = rnd.choice(sorted(self.virtual)); 
      if v in used: return f"COMMENT = 'x{self.next}'"
      used.add(v); return f"DROP COLUMN {v}"
    if r < .79: return f"ALTER {c} SET DEFAULT {TYPES[k]()}"
    if r < .90: return f"ADD {'UNIQUE' if rnd.random() < .25 else 'KEY'} {self.fresh('k')} ({self.parts()})"
    if self.keys and r < .97:
      key = rnd.choice(sorted(self.keys))
      if key in used: return f"COMMENT = 'y{self.next}'"
      used.add(key); return rnd.choice([f"DROP KEY {key}", f"DROP KEY {key}", f"RENAME KEY {key} TO {self.fresh('k')}", f"ALTER INDEX {key} IGNORED", f"ALTER INDEX {key} NOT IGNORED"])
    return rnd.choice([f"COMMENT = 'z{self.next}'", "FORCE", "AUTO_INCREMENT = 7"])
  def refresh(self, client):
    old = dict(self.cols); self.cols = {}; self.virtual = set()
    for line in client.run(f"SELECT column_name, column_type, COALESCE(generation_expression,'') FROM information_schema.columns WHERE table_schema='{client.db}' AND table_name='{self.name}' ORDER BY ordinal_position").splitlines()[1:]:
      n, k, g = (line + "\t").split("\t")[:3]
      if g: self.virtual.add(n); continue
      if n in ("id", "s"): continue
      K = k.upper().split(" CHARACTER")[0]
      base = {"INT(11)": "INT", "TINYINT(4)": "TINYINT", "BIGINT(20) UNSIGNED": "BIGINT UNSIGNED", "YEAR(4)": "YEAR", "LONGTEXT": "JSON"}.get(K, K)
      if base.startswith("ENUM"): base = "ENUM('x','y','z')"; 
      if base.startswith("SET"): base = "SET('p','q')"
      if base not in TYPES: TYPES[base] = word
      self.cols[n] = base
    self.keys = {}
    for line in client.run(f"SELECT DISTINCT index_name, index_type FROM information_schema.statistics WHERE table_schema='{client.db}' AND table_name='{self.name}' AND index_name <> 'PRIMARY'").splitlines()[1:]:
      self.keys[line.split("\t")[0]] = 1
  def value(self, c): return "DEFAULT" if rnd.random() < .3 else ("NULL" if rnd.random() < .1 else TYPES[self.cols[c]]())
def mask(text):
  text = re.sub(r"Duplicate entry '.*' for", "Duplicate entry for", text)
  text = re.sub(r"ENGINE=\w+", "ENGINE", text).replace("d_innodb", "").replace("di%d" % seed, "").replace("dt%d" % seed, "")
  return re.sub(r" at line \d+", "", text)
def main():
  clients = [Client("di%d" % seed), Client("dt%d" % seed)]
  end = time.time() + seconds; n = 0; count = {"alter": 0, "refused": 0, "instant": 0}
  log = []
  def both(sql, compare=True):
    log.append(sql)
    a = mask(clients[0].run(sql + (', ALGORITHM=COPY' if sql.startswith('ALTER TABLE') else ''))).replace(', ALGORITHM=COPY', ''); b = mask(clients[1].run(sql))
    if compare and a != b:
      print("DIFFERENCE seed", seed, "\n" + "\n".join(x + ";" for x in log if not x.startswith("SELECT SQL")), "\n-- InnoDB:\n" + a[:3000], "\n-- TidesDB:\n" + b[:3000]); raise SystemExit(1)
    return a
  while time.time() < end:
    n += 1; t = Table(n); log.clear()
    both(f"SET sql_mode='{rnd.choice(['', 'STRICT_TRANS_TABLES'])}'")
    if "ERROR" in both(t.create()): continue
    t.refresh(clients[0]); ids = 0
    for _ in range(rnd.randint(5, 60)):
      if time.time() > end: break
      r = rnd.random()
      if r < .35:
        rows = []
        for _ in range(rnd.randint(1, 4)):
          ids += 1; rows.append(f"({ids}, 's{ids}', " + ", ".join(t.value(c) for c in t.cols) + ")" if t.cols else f"({ids}, 's{ids}')")
        both(f"INSERT IGNORE INTO {t.name} (id, s{''.join(', ' + c for c in t.cols)}) VALUES {', '.join(rows)}")
      elif r < .45 and t.cols:
        c = rnd.choice(list(t.cols)); both(f"UPDATE IGNORE {t.name} SET {c} = {t.value(c)} WHERE id % {rnd.randint(2,6)} = 0 ORDER BY id")
      elif r < .5: both(f"DELETE FROM {t.name} WHERE id % {rnd.randint(5,9)} = 1")
      else:
        used = set(); acts = ", ".join(t.action(used) for _ in range(rnd.choice([1, 1, 1, 2, 3])))
        answer = both(f"ALTER TABLE {t.name} {acts}")
        count["alter"] += 1; count["refused"] += "ERROR" in answer
        t.refresh(clients[0])
      if rnd.random() < .35:
        both(f"SELECT * FROM {t.name} IGNORE INDEX ({', '.join(t.keys) or 'PRIMARY'}) ORDER BY id" if t.keys or t.pk != "none" else f"SELECT * FROM {t.name} ORDER BY id")
        for k in t.keys:
          answer = both(f"SELECT SQL_NO_CACHE COUNT(*), SUM(id), SUM(LENGTH(s)) FROM {t.name} FORCE INDEX ({k})")
        if rnd.random() < .3 and t.cols:
          c = rnd.choice(list(t.cols)); both(f"SELECT SQL_NO_CACHE id, {c} FROM {t.name} WHERE {c} >= {TYPES[t.cols[c]]()} ORDER BY id")
    both(f"SHOW CREATE TABLE {t.name}")
    check = clients[1].run(f"CHECK TABLE {t.name} EXTENDED")
    if "status\tOK" not in check: print("CHECK", seed, check, "\n" + "\n".join(x + ";" for x in log)); raise SystemExit(1)
    both(f"SELECT * FROM {t.name} ORDER BY id")
    both(f"DROP TABLE {t.name}")
  print(f"seed {seed}: {n} tables, {count}")
main()
