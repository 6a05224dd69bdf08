#!/usr/bin/env python3
# concurrent_alter.py SOCKET SECONDS: ALTERs under writers and snapshot readers; sums by every index agree in a snapshot.
import os, random, re, subprocess, sys, threading, time
sock, seconds = sys.argv[1], float(sys.argv[2])
MARIADB = os.environ["PREFIX"] + "/bin/mariadb"  # make -s prefix
class Client:
  def __init__(self):
    self.p = subprocess.Popen([MARIADB, "--no-defaults", "-S", sock, "-uroot", "--force", "-n", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    self.n = 0
  def run(self, sql):
    self.n += 1
    self.p.stdin.write(sql + f";\nSELECT 'mark-{self.n}' AS themark;\n"); self.p.stdin.flush()
    out = []
    while True:
      line = self.p.stdout.readline()
      if line == "": raise SystemExit("client gone: " + sql)
      if line.rstrip("\n") == f"mark-{self.n}":
        if out and out[-1].rstrip("\n") == "themark": out.pop()
        return "".join(out)
      out.append(line)
N = 3000
setup = Client()
print(setup.run(f"CREATE OR REPLACE DATABASE cc; USE cc; CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL, u INT NOT NULL, pad VARCHAR(100)) ENGINE=TidesDB; INSERT INTO t SELECT seq, 100, seq, REPEAT('x', 80) FROM seq_1_to_{N}; CREATE TABLE other (a INT PRIMARY KEY) ENGINE=TidesDB; INSERT INTO other VALUES (1)"))
stop = time.time() + seconds
wrong, counts, lock = [], {}, threading.Lock()
def note(k):
  with lock: counts[k] = counts.get(k, 0) + 1
def code(s):
  m = re.search(r"ERROR (\d+)", s); return int(m.group(1)) if m else 0
def writer(i):
  c = Client(); c.run("USE cc"); r = random.Random(i)
  while time.time() < stop:
    x, y, d = r.randint(1, N), r.randint(1, N), r.randint(1, 5)
    out = c.run("BEGIN"); 
    for s in (f"UPDATE t SET b = b - {d} WHERE a = {x}", f"UPDATE t SET b = b + {d} WHERE a = {y}"):
      e = code(c.run(s))
      if e: break
    if e: c.run("ROLLBACK"); note(f"write {e}"); 
    else: c.run("COMMIT"); note("written")
    if e not in (0, 1205, 1213, 1020, 1412): wrong.append(f"writer: {e}")
def reader(i):
  c = Client(); c.run("USE cc"); r = random.Random(100 + i)
  while time.time() < stop:
    c.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    if r.random() < .5: c.run("SELECT * FROM other")
    time.sleep(r.random() * .15)
    keys = c.run("SELECT DISTINCT index_name FROM information_schema.statistics WHERE table_schema='cc' AND table_name='t'").split("\n")[1:-1]
    sums = {}
    for k in keys:
      out = c.run(f"SELECT COUNT(*), SUM(b), SUM(u) FROM t FORCE INDEX ({k})" + (f" WHERE {'a' if k == 'PRIMARY' else 'u' if k in ('u', 'un') else 'b'} > -100000"))
      e = code(out)
      if e in (1412, 1176): note(f"read {e}"); continue
      if e: wrong.append(f"reader: {out}"); continue
      sums[k] = out.split("\n")[1]; note(f"read by {k}")
    if len(set(sums.values())) > 1 or any(v != f"{N}\t{N*100}\t{N*(N+1)//2}" for v in sums.values()): wrong.append(f"reader: {sums}")
    c.run("COMMIT")
def alterer():
  c = Client(); c.run("USE cc"); r = random.Random(7); n = 0
  kinds = ["ADD KEY b (b, u), ALGORITHM=NOCOPY", "DROP KEY b", "ADD UNIQUE u (u), ALGORITHM=NOCOPY", "DROP KEY u", "ADD COLUMN x INT DEFAULT 5, ALGORITHM=INSTANT", "DROP COLUMN x, ALGORITHM=INSTANT",
           "ADD KEY un (u, b), ADD COLUMN y VARCHAR(10) DEFAULT 'y' FIRST, ALGORITHM=NOCOPY", "DROP KEY un, DROP COLUMN y, ALGORITHM=NOCOPY", "ALTER b SET DEFAULT 5", "MODIFY pad VARCHAR(200)"]
  while time.time() < stop:
    k = r.choice(kinds); e = code(c.run("ALTER TABLE t " + k)); note(f"alter {'ok' if not e else e}")
    if e not in (0, 1061, 1091, 1060, 1205, 1072): wrong.append(f"alter {k}: {e}")
    if r.random() < .1: c.run("OPTIMIZE TABLE t")
    time.sleep(r.random() * .1)
ts = [threading.Thread(target=writer, args=(i,)) for i in range(3)] + [threading.Thread(target=reader, args=(i,)) for i in range(3)] + [threading.Thread(target=alterer)]
[t.start() for t in ts]; [t.join() for t in ts]
print(dict(sorted(counts.items()))); print("WRONG", len(wrong), wrong[:5])
print(setup.run("CHECK TABLE t EXTENDED"), setup.run("SHOW CREATE TABLE t"))
