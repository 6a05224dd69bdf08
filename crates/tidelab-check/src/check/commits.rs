//! `commits`: 32 clients on 16 rows, millions of commits, counted by the acknowledgements and by their
//! results.
//!
//! Each transaction starts WITH CONSISTENT SNAPSHOT and reads a row's `v`. Half of them then write the
//! literal of `v + 1`: if two may do so from one snapshot, an update is lost (MDEV-39263). The others add 1
//! to `w` of the row and read `v` again: if they may write over a newer row, `v` differs (MDEV-39264). Every
//! transaction also counts itself in a row of its client: a lost commit is told from a lost update.
//!
//! The loop is a stored procedure, to keep the cost on the clients' side low.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidelab_server::error::Result;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::Server;

use super::history::settings;
use super::session::{Failure, Session};
use super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

const CLIENTS: u32 = 32;
const COMMITS: u64 = 10_000_000;
const COMMITS_SHORT: u64 = 20_000;
/// Attempts of one call, at most: an interrupt is noticed between calls.
const ATTEMPTS: u64 = 400;
/// At least this share of the attempts must come through.
const FLOOR_PERCENT: u64 = 5;
/// The interval of the long form's progress lines.
const NEWS: Duration = Duration::from_secs(30);

const PROCEDURE: &str = "CREATE PROCEDURE torture.attempts(me INT, attempts INT)
BEGIN
  DECLARE literals, unrelated, refused, moved, bad, here INT DEFAULT 0;
  DECLARE a, b BIGINT;
  DECLARE CONTINUE HANDLER FOR 1213, 1020, 1205 SET bad = 1;
  WHILE attempts > 0 DO
    SET attempts = attempts - 1, bad = 0, here = FLOOR(RAND() * 16);
    START TRANSACTION WITH CONSISTENT SNAPSHOT;
    SELECT v INTO a FROM torture.contended WHERE id = here;
    IF attempts % 2 = 0 THEN
      UPDATE torture.contended SET v = a + 1 WHERE id = here;
    ELSE
      UPDATE torture.contended SET w = w + 1 WHERE id = here;
      IF bad = 0 THEN
        SELECT v INTO b FROM torture.contended WHERE id = here;
        IF a <> b THEN SET moved = moved + 1; END IF;
      END IF;
    END IF;
    IF bad = 0 THEN
      UPDATE torture.tally SET n = n + 1 WHERE client = me;
    END IF;
    IF bad = 0 THEN COMMIT; END IF;
    IF bad = 1 THEN
      ROLLBACK;
      SET refused = refused + 1;
    ELSEIF attempts % 2 = 0 THEN
      SET literals = literals + 1;
    ELSE
      SET unrelated = unrelated + 1;
    END IF;
  END WHILE;
  SELECT literals, unrelated, refused, moved;
END";

/// The acknowledged transactions of one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Acknowledged {
    literals: u64,
    unrelated: u64,
    refused: u64,
    /// Reads with another result than the first of their transaction.
    moved: u64,
}

impl Acknowledged {
    fn committed(self) -> u64 {
        self.literals + self.unrelated
    }

    fn add(&mut self, other: Acknowledged) {
        self.literals += other.literals;
        self.unrelated += other.unrelated;
        self.refused += other.refused;
        self.moved += other.moved;
    }
}

/// The counts in the tables at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TableCounts {
    v: u64,
    w: u64,
    /// Of each client.
    tally: BTreeMap<u32, u64>,
}

/// The missing changes, one line each.
fn missing(told: &BTreeMap<u32, Acknowledged>, found: &TableCounts) -> Vec<String> {
    let mut all = Acknowledged::default();
    told.values().for_each(|client| all.add(*client));
    let mut missing = Vec::new();
    let mut compare = |what: &str, answered: u64, there: u64| match answered.cmp(&there) {
        std::cmp::Ordering::Equal => {}
        std::cmp::Ordering::Greater => {
            missing.push(format!("{} of {answered} {what} are lost", answered - there));
        }
        std::cmp::Ordering::Less => {
            missing.push(format!("{what}: {answered} were answered, {there} are there"));
        }
    };
    compare("updates to the literal", all.literals, found.v);
    compare("updates of the other column", all.unrelated, found.w);
    for (client, told) in told {
        let there = found.tally.get(client).copied().unwrap_or(0);
        compare(&format!("commits of client {client}"), told.committed(), there);
    }
    if all.moved > 0 {
        missing.push(format!("{} reads differ from the first of their transaction", all.moved));
    }
    missing
}

/// The load of one engine in one lock mode.
#[derive(Clone, Copy, Debug)]
struct Load {
    engine: Engine,
    pessimistic: bool,
    clients: u32,
    /// Ends with so many commits.
    commits: u64,
    /// Ends then at the latest.
    limit: Option<Duration>,
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let wanted = lab.commits.unwrap_or(if lab.short { COMMITS_SHORT } else { COMMITS });
    let clients = lab.clients.unwrap_or(CLIENTS);
    let engines = match lab.engines {
        [] if lab.short => &[Engine::TidesDb][..],
        [] => &[Engine::TidesDb, Engine::InnoDb][..],
        engines => engines,
    };
    // Of the modes of TidesDB; the other engine gets no more than that.
    let mut took: Option<Duration> = None;
    let server = lab.start(&settings())?;
    let mut complaints = Vec::new();
    let mut lines = Vec::new();
    for engine in engines {
        let modes: &[(bool, &str)] = match engine {
            Engine::TidesDb => &[(true, ", pessimistic"), (false, ", optimistic")],
            _ => &[(true, "")],
        };
        for (pessimistic, mode) in modes {
            let load = Load {
                engine: *engine,
                pessimistic: *pessimistic,
                clients,
                commits: wanted / modes.len() as u64,
                limit: took.filter(|_| *engine != Engine::TidesDb),
            };
            let start = Instant::now();
            let (told, found) = under_load(lab, &server, load)?;
            let mut all = Acknowledged::default();
            told.values().for_each(|client| all.add(*client));
            let missing = missing(&told, &found);
            let time = start.elapsed();
            if *engine == Engine::TidesDb {
                took = Some(took.unwrap_or_default() + time);
            }
            let line = format!(
                "{engine}{mode}: {} commits, {:.0} a second, {} attempts refused, {}",
                all.committed(),
                all.committed() as f64 / time.as_secs_f64(),
                all.refused,
                if missing.is_empty() { "none lost".to_string() } else { missing.join(", ") }
            );
            progress(Check::Commits, &line);
            if *engine == Engine::TidesDb {
                complaints.extend(missing.into_iter().map(|what| format!("{engine}{mode}: {what}")));
                if all.committed() * 100 < (all.committed() + all.refused) * FLOOR_PERCENT {
                    complaints.push(format!("{line}: below the floor of {FLOOR_PERCENT} %"));
                }
            }
            lines.push(line);
        }
    }
    conclude(server, lines.join("; "), complaints)
}

fn under_load(
    lab: &Lab<'_>,
    server: &Server,
    load: Load,
) -> Result<(BTreeMap<u32, Acknowledged>, TableCounts)> {
    let Load { engine, pessimistic, clients, .. } = load;
    let mut session = connect(server)?;
    set_up(
        &mut session,
        &[
            &format!("SET GLOBAL tidesdb_pessimistic_locking = {}", i32::from(pessimistic)),
            "CREATE DATABASE IF NOT EXISTS torture",
            "DROP TABLE IF EXISTS torture.contended, torture.tally",
            "DROP PROCEDURE IF EXISTS torture.attempts",
            &format!(
                "CREATE TABLE torture.contended (id INT PRIMARY KEY, v BIGINT NOT NULL, w BIGINT NOT NULL) ENGINE={engine}"
            ),
            &format!("CREATE TABLE torture.tally (client INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE={engine}"),
            "INSERT INTO torture.contended SELECT seq, 0, 0 FROM torture.seq_0_to_15",
            &format!("INSERT INTO torture.tally SELECT seq, 0 FROM torture.seq_1_to_{clients}"),
            PROCEDURE,
        ],
    )?;
    let done = AtomicU64::new(0);
    let answers: Vec<(u32, Acknowledged, Option<Failure>)> = thread::scope(|scope| {
        let done = &done;
        let workers: Vec<_> = (1..=clients)
            .map(|client| {
                scope.spawn(move || {
                    let mut told = Acknowledged::default();
                    let failure = work(lab, server, client, &load, done, &mut told).err();
                    (client, told, failure)
                })
            })
            .collect();
        let mut news = Instant::now();
        while !lab.short && workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(50));
            if news.elapsed() > NEWS {
                news = Instant::now();
                progress(Check::Commits, &format!("{engine}: {} commits", done.load(Ordering::Relaxed)));
            }
        }
        workers.into_iter().map(|worker| worker.join().expect("a client does not panic")).collect()
    });
    lab.interrupt.check()?;
    let mut told = BTreeMap::new();
    for (client, what, failure) in answers {
        told.insert(client, what);
        if let Some(failure) = failure {
            must(&format!("the attempts of client {client} on {engine}"), Err(failure))?;
        }
    }
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    let sums = must("read the sums", session.numbers("SELECT SUM(v), SUM(w) FROM torture.contended"))?;
    let tally = must("read the tally", session.numbers("SELECT client, n FROM torture.tally"))?;
    let sum = |column: usize| sums.first().and_then(|row| row.get(column)).map_or(0, |n| count(*n));
    let tally = tally.iter().map(|row| (u32::try_from(row[0]).unwrap_or(0), count(row[1]))).collect();
    Ok((told, TableCounts { v: sum(0), w: sum(1), tally }))
}

/// Attempts until all clients together have as many commits as are wanted.
fn work(
    lab: &Lab<'_>,
    server: &Server,
    client: u32,
    load: &Load,
    done: &AtomicU64,
    told: &mut Acknowledged,
) -> std::result::Result<(), Failure> {
    let mut session = Session::open(server.socket())?;
    session.run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")?;
    let attempts = (load.commits / u64::from(load.clients) / 4).clamp(1, ATTEMPTS);
    let start = Instant::now();
    while done.load(Ordering::Relaxed) < load.commits
        && load.limit.is_none_or(|limit| start.elapsed() < limit)
        && lab.interrupt.check().is_ok()
    {
        let rows = session.numbers(&format!("CALL torture.attempts({client}, {attempts})"))?;
        let column = |n: usize| rows.first().and_then(|row| row.get(n)).and_then(|n| u64::try_from(*n).ok());
        let (Some(literals), Some(unrelated), Some(refused), Some(moved)) =
            (column(0), column(1), column(2), column(3))
        else {
            return Err(Failure::Lost(format!("the procedure answered {rows:?}")));
        };
        told.add(Acknowledged { literals, unrelated, refused, moved });
        done.fetch_add(literals + unrelated, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_counted_and_told_apart() {
        let told = BTreeMap::from([
            (1, Acknowledged { literals: 10, unrelated: 4, refused: 3, moved: 0 }),
            (2, Acknowledged { literals: 6, unrelated: 5, refused: 0, moved: 0 }),
        ]);
        let right = TableCounts { v: 16, w: 9, tally: BTreeMap::from([(1, 14), (2, 11)]) };
        assert_eq!(missing(&told, &right), Vec::<String>::new());
        let lost_update = TableCounts { v: 15, ..right.clone() };
        assert_eq!(missing(&told, &lost_update), ["1 of 16 updates to the literal are lost"]);
        let lost_commit = TableCounts { v: 15, w: 9, tally: BTreeMap::from([(1, 13), (2, 11)]) };
        assert_eq!(
            missing(&told, &lost_commit),
            ["1 of 16 updates to the literal are lost", "1 of 14 commits of client 1 are lost"]
        );
        let twice = TableCounts { w: 10, ..right.clone() };
        assert_eq!(missing(&told, &twice), ["updates of the other column: 9 were answered, 10 are there"]);
        let moved = BTreeMap::from([(1, Acknowledged { moved: 2, ..told[&1] }), (2, told[&2])]);
        assert_eq!(missing(&moved, &right), ["2 reads differ from the first of their transaction"]);
    }
}
