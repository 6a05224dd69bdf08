//! `killed`: KILL QUERY ends a statement within 100 ms at any point: a scan, a wait for a lock or for
//! memory, a large change before and after it spills, a definition, a sort.
//!
//! Each kind is killed some times, with nothing else running. Its best time must be within the bound,
//! because a test machine may be late for reasons of its own. Afterwards nothing of any of them is left.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tidelab_server::error::Result;
use tidelab_server::server::settings::{self, setting};
use tidelab_server::server::Server;

use super::session::{Columns, Failure, Session};
use super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

/// Time limit of a client's answer after the KILL.
const BOUND: Duration = Duration::from_millis(100);
/// The statement's time before each of its kills; then from the beginning.
const DELAYS_MS: [u64; 5] = [120, 60, 200, 90, 300];
/// A shorter statement is not killed.
const SHORTEST: Duration = Duration::from_millis(2);
/// Tries to meet a writer while it is held back.
const TRIES: u32 = 400;

/// When the kill comes.
#[derive(Clone, Copy)]
enum KillAt {
    /// After the delay of the turn.
    Running,
    /// When so many runs were spilled.
    Spilled(i64),
    /// When it has waited for so long; most of its kind do not wait.
    HeldBack(Duration),
}

/// One kind of statement.
struct Kind {
    name: &'static str,
    /// By the client, before each turn.
    before: &'static [&'static str],
    statement: String,
    moment: KillAt,
    /// By another client, before each turn; it rolls back after the turn.
    other: &'static [&'static str],
    /// By the client, after each turn.
    after: &'static [&'static str],
}

impl Kind {
    fn new(name: &'static str, statement: impl Into<String>) -> Kind {
        let statement = statement.into();
        Kind { name, before: &[], statement, moment: KillAt::Running, other: &[], after: &["ROLLBACK"] }
    }
}

/// A scan of `x` for each row of `t`.
fn pairs(x: &str, rest: &str) -> String {
    format!("SELECT COUNT(*) FROM killed.t x STRAIGHT_JOIN killed.{x} WHERE x.a <> y.a {rest}")
}

fn kinds(rows: u64, file: &Path) -> Vec<Kind> {
    let endless = "INSERT INTO killed.empty SELECT seq, seq % 1000, MD5(seq) FROM killed.seq_1_to_1000000000"
        .to_string();
    let all = "UPDATE killed.t SET b = b + 1, pad = REVERSE(pad)";
    let at_one = "UPDATE killed.t SET b = 0 WHERE a = 1";
    vec![
        Kind::new("a scan", pairs("t y IGNORE INDEX (PRIMARY, b)", "AND y.pad LIKE 'no%'")),
        Kind::new("a scan of an index", pairs("t y FORCE INDEX (b)", "AND y.b < 1000000")),
        Kind::new("a scan of deleted rows", pairs("deleted y IGNORE INDEX (PRIMARY)", "")),
        Kind::new(
            "a scan with locks",
            format!("{} FOR UPDATE", pairs("t y IGNORE INDEX (PRIMARY, b)", "AND y.pad LIKE 'no%'")),
        ),
        Kind::new("a sort", format!("SELECT a FROM killed.t ORDER BY MD5(pad) LIMIT 1 OFFSET {}", rows - 1)),
        Kind {
            other: &["BEGIN", "UPDATE killed.t SET b = 0 WHERE a = 1"],
            ..Kind::new("a row lock", at_one)
        },
        Kind { other: &["LOCK TABLES killed.t READ"], ..Kind::new("LOCK TABLES of another", at_one) },
        Kind::new("a table lock", "TRUNCATE TABLE killed.prepared"),
        Kind::new("INSERT ... SELECT", endless.clone()),
        Kind { moment: KillAt::Spilled(3), ..Kind::new("INSERT ... SELECT that spills", endless.clone()) },
        Kind { moment: KillAt::Spilled(12), ..Kind::new("INSERT ... SELECT that merges", endless) },
        Kind { before: &["BEGIN"], ..Kind::new("UPDATE", all) },
        Kind { before: &["BEGIN"], ..Kind::new("DELETE", "DELETE FROM killed.t") },
        Kind {
            before: &["BEGIN", "UPDATE killed.t SET b = b + 1, pad = REVERSE(pad)"],
            // It may have come through.
            after: &["ROLLBACK", "UPDATE killed.t SET b = a % 1000, pad = MD5(a) WHERE b <> a % 1000"],
            ..Kind::new("COMMIT", "COMMIT")
        },
        Kind::new("LOAD DATA", format!("LOAD DATA INFILE '{}' INTO TABLE killed.empty", file.display())),
        Kind::new("ALTER TABLE", "ALTER TABLE killed.t FORCE, ALGORITHM=COPY"),
        Kind {
            after: &["DROP INDEX IF EXISTS extra ON killed.t"],
            ..Kind::new("CREATE INDEX", "CREATE INDEX extra ON killed.t (pad, b)")
        },
        Kind { before: &["BEGIN"], ..Kind::new("DELETE with CASCADE", "DELETE FROM killed.parent WHERE id = 1") },
        Kind {
            before: &["BEGIN"],
            ..Kind::new("UPDATE with CASCADE", "UPDATE killed.parent SET id = 7 WHERE id = 1")
        },
        Kind {
            other: &["BEGIN", "DELETE FROM killed.parent WHERE id = 2"],
            ..Kind::new("a reference to a row that goes", "INSERT INTO killed.child VALUES (0, 2)")
        },
        Kind {
            after: &["ALTER TABLE killed.child DROP FOREIGN KEY IF EXISTS extra"],
            ..Kind::new(
                "ADD FOREIGN KEY",
                "ALTER TABLE killed.child ADD CONSTRAINT extra FOREIGN KEY (p) REFERENCES killed.parent (id), ALGORITHM=NOCOPY",
            )
        },
        Kind::new("CHECK TABLE", "CHECK TABLE killed.t EXTENDED"),
        Kind {
            // Something to merge.
            before: &[
                "UPDATE killed.t SET b = b + 1000 WHERE a % 8 = 0",
                "UPDATE killed.t SET b = b - 1000 WHERE a % 8 = 0",
            ],
            ..Kind::new("OPTIMIZE TABLE", "OPTIMIZE TABLE killed.t")
        },
        Kind {
            moment: KillAt::HeldBack(Duration::from_millis(15)),
            ..Kind::new("back-pressure", "UPDATE killed.t SET b = b WHERE a = 1")
        },
    ]
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let rows = lab.rows.unwrap_or(if lab.short { 100_000 } else { 1_000_000 });
    let turns = lab.rounds.map_or(if lab.short { 3 } else { 15 }, |rounds| rounds as usize);
    let mut settings = settings::checks(false);
    // Memory for a statement that changes much and does not spill yet.
    let buffer = ("tidesdb_unified_memtable_write_buffer_size", if lab.short { "4M" } else { "64M" });
    settings.retain(|known| known.name != buffer.0);
    settings.push(setting(buffer.0, buffer.1));
    let server = lab.start(&settings)?;
    let file = lab.directory.join("rows.txt");
    make_tables(&server, rows, &file)?;
    let mut session = connect(&server)?;
    let before = look(&mut session)?;
    let (mut complaints, mut worst, mut count) = (Vec::new(), Duration::ZERO, 0);
    for kind in kinds(rows, &file) {
        let mut took = match kind.moment {
            KillAt::HeldBack(_) => beside_a_flood(&server, || turns_of(lab, &server, &kind, turns))?,
            _ => turns_of(lab, &server, &kind, turns)?,
        };
        took.sort();
        let (Some(&best), Some(&last)) = (took.first(), took.last()) else {
            // Whether writers are ever held back is up to the disk.
            if !matches!(kind.moment, KillAt::HeldBack(_)) {
                complaints.push(format!("{}: ended by itself each time", kind.name));
            }
            progress(Check::Killed, &format!("{}: not met", kind.name));
            continue;
        };
        let median = took[took.len() / 2];
        progress(
            Check::Killed,
            &format!(
                "{}: answered after {} (median; best {}, worst {}, {} kills)",
                kind.name,
                ms(median),
                ms(best),
                ms(last),
                took.len()
            ),
        );
        if best > BOUND {
            complaints.push(format!("{}: the best of {} kills took {}", kind.name, took.len(), ms(best)));
        }
        worst = worst.max(median);
        count += took.len();
    }
    let after = look(&mut session)?;
    if after != before {
        complaints.push(format!("tables hold {after:?}, before the kills {before:?}"));
    }
    let summary = format!("{count} kills of {} kinds, medians up to {}", kinds(rows, &file).len(), ms(worst));
    conclude(server, summary, complaints)
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn make_tables(server: &Server, rows: u64, file: &Path) -> Result<()> {
    let mut session = connect(server)?;
    let columns = "(a INT PRIMARY KEY, b INT NOT NULL, pad VARCHAR(100) CHARACTER SET latin1 NOT NULL, KEY (b), KEY (pad))";
    set_up(
        &mut session,
        &[
            "CREATE DATABASE killed",
            "USE killed",
            &format!("CREATE TABLE t {columns} ENGINE=TidesDB"),
            &format!("INSERT INTO t SELECT seq, seq % 1000, MD5(seq) FROM seq_1_to_{rows}"),
            "CREATE TABLE empty LIKE t",
            "CREATE TABLE deleted LIKE t",
            &format!("INSERT INTO deleted SELECT * FROM t WHERE a <= {}", rows / 5),
            "CREATE TABLE prepared LIKE t",
            "CREATE TABLE parent (id INT PRIMARY KEY) ENGINE=TidesDB",
            "CREATE TABLE child (a INT PRIMARY KEY, p INT, KEY (p), CONSTRAINT of_parent FOREIGN KEY (p) REFERENCES parent (id) \
             ON DELETE CASCADE ON UPDATE CASCADE) ENGINE=TidesDB",
            "INSERT INTO parent VALUES (1), (2)",
            "INSERT INTO child SELECT a, 1 FROM t",
            "CREATE TABLE flooded (a INT PRIMARY KEY, pad VARCHAR(1000) CHARACTER SET latin1 NOT NULL) \
             ENGINE=TidesDB L0_QUEUE_STALL_THRESHOLD=1 COMPRESSION='NONE'",
            "INSERT INTO flooded SELECT seq, REPEAT('a', 1000) FROM seq_0_to_29999",
            &format!("SELECT a, b, pad FROM t INTO OUTFILE '{}'", file.display()),
        ],
    )?;
    // A transaction of no client: its lock on the table keeps definitions out for as long as the server
    // runs.
    let mut prepared = connect(server)?;
    set_up(
        &mut prepared,
        &["XA START 'x'", "INSERT INTO killed.prepared VALUES (1, 1, '')", "XA END 'x'", "XA PREPARE 'x'"],
    )
}

/// The contents of the tables; no killed statement changes them.
fn look(session: &mut Session) -> Result<Vec<Columns>> {
    let questions = [
        "SELECT COUNT(*), SUM(a), SUM(b), SUM(CRC32(pad)) FROM killed.t IGNORE INDEX (b, pad)",
        "SELECT COUNT(*), SUM(b) FROM killed.t FORCE INDEX (b) WHERE b >= 0",
        "SELECT COUNT(*), SUM(CRC32(pad)) FROM killed.t FORCE INDEX (pad) WHERE pad >= ''",
        "SELECT COUNT(*) FROM killed.empty",
        "SELECT COUNT(*) FROM killed.prepared",
        "SELECT COUNT(*), SUM(a), SUM(p) FROM killed.child IGNORE INDEX (p)",
        "SELECT COUNT(*), SUM(p) FROM killed.child FORCE INDEX (p) WHERE p >= 0",
        "SELECT SUM(id) FROM killed.parent",
        "SELECT constraint_name FROM information_schema.tidesdb_foreign_keys",
        "SELECT index_name FROM information_schema.statistics WHERE table_schema = 'killed' AND table_name = 't'",
    ];
    questions.iter().map(|question| Ok(must(question, session.rows(question))?.concat())).collect()
}

/// Kills statements of a kind; the time from each KILL to the client's answer.
fn turns_of(lab: &Lab<'_>, server: &Server, kind: &Kind, turns: usize) -> Result<Vec<Duration>> {
    let mut client = connect(server)?;
    let mut other = connect(server)?;
    let mut killer = connect(server)?;
    let snapshot = ["START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT COUNT(*) FROM killed.deleted"];
    if kind.statement.contains("killed.deleted") {
        // A snapshot keeps the deleted rows and their marks where they are.
        set_up(&mut other, &snapshot)?;
        set_up(&mut client, &["DELETE FROM killed.deleted"])?;
    }
    let id = must("connection", client.number("SELECT CONNECTION_ID()"))?;
    let mut took = Vec::new();
    for turn in 0..turns {
        let mut delay = Duration::from_millis(DELAYS_MS[turn % DELAYS_MS.len()]);
        for _ in 0..TRIES {
            lab.interrupt.check()?;
            set_up(&mut other, kind.other)?;
            set_up(&mut client, kind.before)?;
            let answered = kill_once(kind, &mut client, &mut killer, id, delay)?;
            if !kind.other.is_empty() {
                set_up(&mut other, &["ROLLBACK", "UNLOCK TABLES"])?;
            }
            set_up(&mut client, kind.after)?;
            if let Some(time) = answered {
                took.push(time);
                break;
            }
            if matches!(kind.moment, KillAt::Running) {
                delay /= 2;
                if delay < SHORTEST {
                    break;
                }
            }
        }
    }
    Ok(took)
}

/// Runs the statement and kills it at its moment; the time to the answer, none when it ended by itself.
fn kill_once(
    kind: &Kind,
    client: &mut Session,
    killer: &mut Session,
    id: i64,
    delay: Duration,
) -> Result<Option<Duration>> {
    let runs = |killer: &mut Session| {
        let count = "tidesdb_spilled_runs";
        must(count, killer.status(count))
    };
    let before = runs(killer)?;
    let (killed_at, answered_at, answer) = thread::scope(|scope| {
        let statement = scope.spawn(|| {
            let answer = client.rows(&kind.statement);
            (Instant::now(), answer)
        });
        let start = Instant::now();
        let mut met = Ok(true);
        while met.is_ok() && !statement.is_finished() {
            let now = match kind.moment {
                KillAt::Running => start.elapsed() >= delay,
                KillAt::HeldBack(time) => start.elapsed() >= time,
                KillAt::Spilled(wanted) => match runs(killer) {
                    Ok(spilled) => spilled >= before + wanted,
                    Err(error) => {
                        met = Err(error);
                        true
                    }
                },
            };
            if now {
                break;
            }
            thread::sleep(Duration::from_micros(500));
        }
        let at = Instant::now();
        let killed = if statement.is_finished() { Ok(0) } else { killer.run(&format!("KILL QUERY {id}")) };
        let (answered_at, answer) = statement.join().expect("a client does not panic");
        met.and_then(|_| must("KILL", killed)).map(|_| (at, answered_at, answer))
    })?;
    let stopped = match answer {
        Err(Failure::Sql { code: 1317, .. }) => true,
        // At the end of an ALTER by copy the server says which of its renames was interrupted, and takes back the others.
        Err(Failure::Sql { code: 1025, message }) if message.contains("interrupted by end user") => true,
        // Statements on tables answer with rows about them.
        Ok(rows) => {
            rows.iter().flatten().any(|column| column.contains("interrupted") || column == "Operation failed")
        }
        Err(failure) => must(&kind.statement, Err(failure))?,
    };
    // A KILL that came too late is meant for nothing that runs later.
    must("a statement after a KILL", client.run("DO 1").or_else(|_| client.run("DO 1")))?;
    Ok(stopped.then(|| answered_at.saturating_duration_since(killed_at)))
}

/// Does `work` while another client writes more than is merged, and so holds all writers back.
fn beside_a_flood<T>(server: &Server, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut session = connect(server)?;
    let id = must("connection", session.number("SELECT CONNECTION_ID()"))?;
    thread::scope(|scope| {
        let flood = scope.spawn(move || {
            let mut turn = 0;
            loop {
                turn += 1;
                let statement = format!(
                    "REPLACE INTO killed.flooded SELECT seq * 10 + {}, REPEAT('b', 1000) FROM killed.seq_0_to_2999",
                    turn % 10
                );
                if session.run(&statement).is_err() {
                    return;
                }
            }
        });
        let done = work();
        let ended = connect(server).and_then(|mut killer| must("KILL", killer.run(&format!("KILL {id}"))));
        // Without the KILL it would go on for ever; a server that refuses one is gone.
        flood.join().expect("a client does not panic");
        done.and_then(|done| ended.map(|_| done))
    })
}
