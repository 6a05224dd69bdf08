//! `virtuals`: indexes over virtual columns against a copy of the table whose indexes the optimizer ignores.
//!
//! A program has one random table with virtual columns, indexes over them, triggers, versions, a period or
//! partitions ([`table`]), twice: in the second all indexes are IGNORED. Each statement ([`statement`]) runs
//! on both, under ever changing settings of the session ([`settings`]). Both must answer alike, and CHECK
//! TABLE must find nothing, under all settings. A differing program is shrunk to a script.

mod settings;
mod statement;
mod table;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::settings::{setting, Setting};
use tidelab_server::server::Server;

use self::statement::{Kind, Step};
use super::session::{Failure, Session};
use super::sql::Dice;
use super::{conclude, progress, Check, Lab, Verdict};

/// Statements of a program.
const STATEMENTS_EACH: u64 = 250;
/// After so many differences it ends.
const DIFFERENCES: usize = 8;
/// A line of progress comes no more often.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Shrinking takes no longer.
const SHRINK_LIMIT: Duration = Duration::from_secs(40);
/// The first seed of the short form unless a seed is named.
const SHORT_SEED: u64 = 3_700;

/// Counts of a whole run.
#[derive(Default)]
struct Counts {
    statements: u64,
    refused: u64,
    /// Looks with an EXPLAIN.
    explained: u64,
    by_index: u64,
}

/// Two different answers.
struct Difference {
    statement: String,
    with_index: String,
    without: String,
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let first = if lab.short && !lab.seed_named { SHORT_SEED } else { lab.seed };
    let wanted = lab.statements.unwrap_or(if lab.short { 1_500 } else { 50_000 });
    let server = lab.start(&server_settings())?;
    let start = Instant::now();
    let mut told = start;
    let mut counts = Counts::default();
    let mut complaints = Vec::new();
    let mut programs = 0_u64;
    let line = |counts: &Counts, programs: u64| {
        let rate = counts.statements as f64 / start.elapsed().as_secs_f64().max(0.001);
        format!(
            "{} statements in {programs} programs ({} refused), of {} plans {} by an index over a virtual column, \
             {rate:.0} statements/s",
            counts.statements, counts.refused, counts.explained, counts.by_index
        )
    };
    while counts.statements < wanted && complaints.len() < DIFFERENCES {
        lab.interrupt.check()?;
        let seed = first.wrapping_add(programs);
        let limit = (wanted - counts.statements).min(STATEMENTS_EACH);
        if let Some(complaint) = one_program(lab, &server, seed, limit, &mut counts)? {
            progress(Check::Virtuals, &complaint);
            complaints.push(complaint);
        }
        programs += 1;
        if told.elapsed() > TELL_EVERY {
            told = Instant::now();
            progress(Check::Virtuals, &line(&counts, programs));
        }
    }
    if complaints.is_empty() && counts.by_index * 5 < counts.explained {
        complaints.push("hardly a look took an index: nothing was compared".to_string());
    }
    conclude(server, line(&counts, programs), complaints)
}

/// Nothing is synced, since no server is killed here.
fn server_settings() -> Vec<Setting> {
    [
        ("performance_schema", "OFF"),
        ("query_cache_type", "OFF"),
        ("tidesdb_unified_memtable_write_buffer_size", "1M"),
        ("tidesdb_block_cache_size", "8M"),
        ("tidesdb_unified_memtable_sync_mode", "NONE"),
        ("tidesdb_default_sync_mode", "NONE"),
    ]
    .map(|(name, value)| setting(name, value))
    .to_vec()
}

/// One program; the complaint of the first difference.
fn one_program(
    lab: &Lab<'_>,
    server: &Server,
    seed: u64,
    limit: u64,
    counts: &mut Counts,
) -> Result<Option<String>> {
    let mut dice = Dice::new(seed);
    let mut session = open(server)?;
    let folder = &lab.directory;
    let Some(table) = table::make(&mut dice, |definitions| accepts(&mut session, definitions)) else {
        return Ok(None);
    };
    let mut steps: Vec<Step> = table.definitions().into_iter().map(Step::definition).collect();
    for step in &steps {
        // (They were accepted.)
        both(&mut session, step).map_err(lost)?;
    }
    let mut writer = statement::Writer::new(&table, folder);
    let mut done = 0;
    while done < limit {
        let step = writer.next(&mut dice, &mut session).map_err(lost)?;
        steps.push(step.clone());
        done += 1;
        counts.statements += 1;
        match both(&mut session, &step) {
            Ok(answer) => {
                counts.refused += u64::from(answer.refused);
                if step.explained {
                    counts.explained += 1;
                    counts.by_index += u64::from(answer.by_index);
                }
            }
            Err(Outcome::Different(found)) => {
                // A transaction that is open would keep the database from those that repeat the program.
                drop(session);
                return shrunk(lab, server, seed, &steps, found).map(Some);
            }
            Err(Outcome::Lost(failure)) => return Err(lost(Outcome::Lost(failure))),
        }
    }
    Ok(None)
}

fn lost(outcome: impl Into<Outcome>) -> Error {
    let message = match outcome.into() {
        Outcome::Lost(failure) => failure.to_string(),
        Outcome::Different(found) => format!("{}: {} / {}", found.statement, found.with_index, found.without),
    };
    Error::Load { what: "a program".to_string(), message }
}

fn open(server: &Server) -> Result<Session> {
    let mut session = Session::open(server.socket()).map_err(lost)?;
    for statement in OPENING {
        session.run(statement).map_err(lost)?;
    }
    Ok(session)
}

/// The first statements of a program.
const OPENING: [&str; 4] = [
    "SET NAMES utf8mb4",
    "CREATE OR REPLACE DATABASE virtuals CHARACTER SET utf8mb4",
    "USE virtuals",
    "SET default_storage_engine = TidesDB, max_error_count = 0, time_zone = '+00:00', timestamp = 1600000000, \
     sql_mode = 'STRICT_TRANS_TABLES'",
];

/// True if the server takes the definitions; they are gone again.
fn accepts(session: &mut Session, definitions: &[String]) -> bool {
    let taken = definitions.iter().all(|text| session.run(&text.replace(NAME, "t")).is_ok());
    // (Triggers go with their table.)
    let _ = session.run("DROP TABLE IF EXISTS t, log_t, x_t");
    taken
}

/// Stands for the table's name in statements.
const NAME: &str = "{t}";

enum Outcome {
    Different(Difference),
    Lost(Failure),
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Outcome {
        Outcome::Lost(failure)
    }
}

#[derive(Default)]
struct Answer {
    refused: bool,
    by_index: bool,
}

/// The answer of one of the two tables.
#[derive(PartialEq, Eq)]
struct Reply {
    error: Option<u16>,
    affected: u64,
    rows: Vec<Vec<String>>,
}

impl Reply {
    fn text(&self, message: &str) -> String {
        let rows: Vec<String> = self.rows.iter().take(12).map(|row| row.join(", ")).collect();
        match self.error {
            Some(code) => format!("error {code} {message}"),
            None => format!("{} rows, {} changed: {}", self.rows.len(), self.affected, rows.join(" | ")),
        }
    }
}

fn ask(
    session: &mut Session,
    statement: &str,
    returns_rows: bool,
) -> std::result::Result<(Reply, String), Failure> {
    let answer = if returns_rows {
        session.rows(statement).map(|rows| (0, rows))
    } else {
        session.run(statement).map(|affected| (affected, Vec::new()))
    };
    match answer {
        Ok((affected, mut rows)) => {
            if statement.starts_with("SELECT MIN(") {
                // Of -0 and 0, which are equal, either is the least.
                for value in rows.iter_mut().flatten().filter(|value| *value == "-0") {
                    *value = "0".to_string();
                }
            }
            rows.sort();
            Ok((Reply { error: None, affected, rows }, String::new()))
        }
        Err(Failure::Sql { code, message }) => {
            Ok((Reply { error: Some(code), affected: 0, rows: Vec::new() }, message))
        }
        Err(failure) => Err(failure),
    }
}

/// Runs a step on both tables.
fn both(session: &mut Session, step: &Step) -> std::result::Result<Answer, Outcome> {
    for before in &step.before {
        session.run(before)?;
    }
    let mut answer = Answer::default();
    match step.kind {
        Kind::Session => {
            // Settings that a release does not have change nothing.
            answer.refused = matches!(session.run(&step.text), Err(Failure::Sql { .. }));
        }
        Kind::Check => {
            let rows = session.rows(&step.text)?;
            let sound = rows.iter().all(|row| row.get(3).is_some_and(|text| text == "OK"));
            if !sound {
                let said: Vec<String> = rows.iter().map(|row| row[2..].join(": ")).collect();
                return Err(Outcome::Different(Difference {
                    statement: step.text.clone(),
                    with_index: said.join(" | "),
                    without: "OK".to_string(),
                }));
            }
        }
        Kind::OnlyIndexed => {
            answer.refused = matches!(session.run(&step.text), Err(Failure::Sql { .. }));
            if let (false, Some(rewritten)) = (answer.refused, step.rewritten_copy()) {
                match session.run(&rewritten) {
                    Ok(_) | Err(Failure::Sql { .. }) => {}
                    Err(failure) => return Err(failure.into()),
                }
            }
            // Both are opened next under the same settings, some of which an open table keeps.
            session.run("FLUSH TABLES")?;
        }
        Kind::Definition | Kind::Change | Kind::Look => {
            let looks = step.kind == Kind::Look;
            let (indexed, plain) = (step.indexed(), step.copied());
            let (with, message) = ask(session, &indexed, looks)?;
            let (without, other_message) = ask(session, &plain, looks)?;
            if with != without {
                return Err(Outcome::Different(Difference {
                    statement: indexed,
                    with_index: with.text(&message),
                    without: without.text(&other_message),
                }));
            }
            answer.refused = with.error.is_some();
            if step.explained {
                let plan = session.rows(&format!("EXPLAIN {indexed}")).unwrap_or_default();
                answer.by_index = plan.iter().any(|row| row.iter().any(|text| text.starts_with("vk")));
            }
        }
    }
    Ok(answer)
}

/// The place for the index hint in a statement.
const HINT: &str = "{hint}";

/// The complaint: a shorter script with a difference. It is written to a file too.
fn shrunk(lab: &Lab<'_>, server: &Server, seed: u64, steps: &[Step], found: Difference) -> Result<String> {
    let mut left: Vec<Step> = steps.to_vec();
    let mut smallest = found;
    let start = Instant::now();
    let definitions = left.iter().take_while(|step| step.kind == Kind::Definition).count();
    let mut size = left.len() / 2;
    while size > 0 {
        let mut at = definitions;
        while at + 1 < left.len() && start.elapsed() < SHRINK_LIMIT {
            lab.interrupt.check()?;
            let mut fewer = left.clone();
            // The last one shows the difference.
            fewer.drain(at..(at + size).min(left.len() - 1));
            match replay(server, &fewer)? {
                Some((steps, difference)) if steps < left.len() => {
                    fewer.truncate(steps);
                    left = fewer;
                    smallest = difference;
                }
                _ => at += size,
            }
        }
        size /= 2;
    }
    let mut text = String::new();
    for statement in OPENING {
        text.push_str(&format!("{statement};\n"));
    }
    for step in &left {
        for statement in step.script() {
            text.push_str(&format!("{statement};\n"));
        }
    }
    text.push_str(&format!(
        "-- differs: {}\n-- t (with indexes): {}\n",
        smallest.statement, smallest.with_index
    ));
    text.push_str(&format!("-- c (without):      {}\n", smallest.without));
    let path = lab.directory.join(format!("difference-{seed}.sql"));
    write(&path, &text)?;
    Ok(format!("seed {seed} (also in {})\n{text}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(io_error("cannot write", path))
}

/// Runs steps from the start, up to the first difference; with it the number of steps it took.
fn replay(server: &Server, steps: &[Step]) -> Result<Option<(usize, Difference)>> {
    let mut session = open(server)?;
    for (at, step) in steps.iter().enumerate() {
        match both(&mut session, step) {
            Ok(_) | Err(Outcome::Lost(Failure::Sql { .. })) => {}
            Err(Outcome::Different(difference)) => return Ok(Some((at + 1, difference))),
            Err(outcome) => return Err(lost(outcome)),
        }
    }
    Ok(None)
}
