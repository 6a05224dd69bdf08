//! `sql`: random tables and statements, on InnoDB and on TidesDB in one server. Every answer must be the
//! same, and after every so many statements the whole state.
//!
//! A program is written from a seed of its own ([`writer`]), over tables of its own ([`schema`], [`kinds`],
//! [`link`], [`full_text`]), with statements of one right answer ([`query`], [`change`], [`alter`], [`link_change`]).
//! [`pair`] runs it, [`answer`] compares two answers, [`known`] lists the differences with a reason. A
//! differing program is shrunk ([`shrink`]) to a script, by means of the marks in its statements ([`marks`]).
//! At the end ALTERs run alongside other clients ([`concurrent`]).

mod alter;
mod answer;
mod change;
mod concurrent;
mod condition;
mod dice;
mod full_text;
mod kinds;
mod known;
mod link;
mod link_change;
mod marks;
mod pair;
mod program;
mod query;
mod schema;
mod shrink;
mod writer;

use std::fs;
use std::time::{Duration, Instant};

pub(in crate::check) use dice::Dice;
use pair::{replay, script, Counts, Difference, Pair};
use program::Program;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::settings::{self, setting, Setting};
use tidelab_server::server::Server;
use writer::Writer;

use super::session::Failure;
use super::{conclude, progress, Check, Lab, Verdict};

/// Statements of a program, but for the last.
const STATEMENTS_EACH: u32 = 200;
/// After so many differences it ends.
const DIFFERENCES: usize = 8;
/// A line of progress comes no more often.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The first seed of the short form unless a seed is named. The part of `make test` is the same each
/// time; the long form searches for new differences.
const SHORT_SEED: u64 = 1_795_322_109;

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let first = if lab.short && !lab.seed_named { SHORT_SEED } else { lab.seed };
    let wanted = lab.statements.unwrap_or(if lab.short { 1_500 } else { 20_000 });
    let settings = settings();
    let mut server = lab.start(&settings)?;
    let start = Instant::now();
    let mut told = start;
    let (mut done, mut programs) = (0_u64, 0_u64);
    let mut counts = Counts::default();
    let mut complaints = Vec::new();
    let line = |done: u64, programs: u64, counts: &Counts| {
        let rate = done as f64 / start.elapsed().as_secs_f64().max(0.001);
        format!(
            "{done} statements in {programs} programs ({} refused), {} queries again in other ways, \
             {} of which the server itself gets wrong, {} known differences, {rate:.0} statements/s",
            counts.refused,
            counts.other_ways,
            counts.server_mistakes,
            counts.known.values().sum::<u64>()
        )
    };
    while done < wanted {
        lab.interrupt.check()?;
        let seed = first.wrapping_add(programs);
        let limit = u32::try_from(wanted - done).unwrap_or(u32::MAX).min(STATEMENTS_EACH);
        server.client().query(&format!("SET GLOBAL tidesdb_pessimistic_locking = {}", seed % 2))?;
        let (program, found) = one_program(&server, seed, limit, &mut counts, &mut done)?;
        programs += 1;
        if let Some(found) = found {
            progress(Check::Sql, &format!("seed {seed}: {} differs: {}", found.what, found.statement));
            complaints.push(shrunk(lab, &mut server, &settings, seed, program, *found)?);
            if complaints.len() == DIFFERENCES {
                break;
            }
        }
        if told.elapsed() > TELL_EVERY {
            told = Instant::now();
            progress(Check::Sql, &line(done, programs, &counts));
        }
    }
    for (reason, times) in &counts.known {
        progress(Check::Sql, &format!("known, {times} times: {reason}"));
    }
    if let Some(mistake) = &counts.first_mistake {
        progress(Check::Sql, &format!("the server's mistake, first seen: {mistake}"));
    }
    let mut summary = line(done, programs, &counts);
    if complaints.is_empty() {
        let seconds = lab.seconds.unwrap_or(if lab.short { 2 } else { 20 });
        let (alters, wrong) = concurrent::run(&server, lab.seed, seconds, lab.interrupt)?;
        summary = format!("{summary}; {alters}");
        complaints = wrong;
    }
    conclude(server, summary, complaints)
}

/// Small memtables. Nothing is synced, since no server is killed here.
fn settings() -> Vec<Setting> {
    let mut all = settings::checks(false);
    all.retain(|s| {
        !["tidesdb_unified_memtable_sync_mode", "tidesdb_default_sync_mode"].contains(&s.name.as_ref())
    });
    all.extend([
        setting("tidesdb_unified_memtable_sync_mode", "NONE"),
        setting("tidesdb_default_sync_mode", "NONE"),
        setting("innodb_flush_log_at_trx_commit", "0"),
    ]);
    all
}

/// Writes and runs a program up to its first difference.
fn one_program(
    server: &Server,
    seed: u64,
    limit: u32,
    counts: &mut Counts,
    done: &mut u64,
) -> Result<(Program, Option<Box<Difference>>)> {
    let mut writer = Writer::new(seed, limit);
    let mut pair = Pair::open(server).map_err(cannot_begin)?;
    let mut steps = Vec::new();
    while let Some(step) = writer.next() {
        // Marks are read once more for the whole program; a single statement needs no numbers.
        let alone = Program::new(vec![step.clone()]);
        let none = std::collections::HashSet::new();
        let outcome = pair.run(&step, |hint| alone.text(0, &none, hint), counts);
        *done += u64::from(!step.looks);
        steps.push(step);
        match outcome {
            Ok(_) if pair.has_ended() => break,
            Ok(accepted) => writer.answered(accepted),
            Err(found) => return Ok((Program::new(steps), Some(found))),
        }
    }
    Ok((Program::new(steps), None))
}

fn cannot_begin(failure: Failure) -> Error {
    Error::Load { what: "a program".to_string(), message: failure.to_string() }
}

/// The complaint: the shortest script with a difference. It is written to a file too.
fn shrunk(
    lab: &Lab<'_>,
    server: &mut Server,
    settings: &[Setting],
    seed: u64,
    program: Program,
    found: Difference,
) -> Result<String> {
    let mut smallest = found.clone();
    let mut runs = 0_u32;
    let removed = shrink::shrink(&program, found.step, |removed| -> Result<Option<usize>> {
        lab.interrupt.check()?;
        runs += 1;
        if server.check_alive().is_err() {
            server.restart(settings, lab.interrupt)?;
        }
        let result = match replay(server, &program, removed) {
            Ok(result) => result,
            // It died while the databases were made anew: what was asked last killed it.
            Err(_) => return Ok(None),
        };
        // Without some pieces another thing may differ, and hide the one that was found.
        let same = result.filter(|difference| difference.step == found.step && difference.what == found.what);
        Ok(same.map(|difference| {
            let at = difference.step;
            smallest = *difference;
            at
        }))
    });
    if server.check_alive().is_err() {
        server.restart(settings, lab.interrupt)?;
    }
    let text = script(&program, &removed, &smallest);
    let path = lab.directory.join(format!("difference-{seed}.sql"));
    fs::write(&path, &text).map_err(io_error("cannot write", &path))?;
    Ok(format!(
        "seed {seed}: shrunk in {runs} runs, tidesdb_pessimistic_locking = {} (also in {})\n{text}",
        seed % 2,
        path.display()
    ))
}
