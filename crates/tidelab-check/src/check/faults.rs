//! `faults`: a server with a preloaded library that makes its calls on files fail, under writers of TidesDB tables and
//! of both engines, with the binary log off and on.
//!
//! Each round has one fault: a kind of call on a kind of file fails, tears, is short, late, or a lie, once, a few times
//! or until the round's end. Then the server is ended in order or killed, or it goes on, and after a restart these hold:
//!
//! - Every acknowledged transaction is there, none that was refused, and of those in doubt any, whole.
//! - Engines and binary log tell of the same transactions; indexes agree with their tables.
//! - Nothing hung: every answer, every shutdown and every start came in time.
//! - The error log, or an answer, names the file that failed. A log that failed asks for a restart; in all other cases
//!   writes go on.
//!
//! In some rounds the restart meets a fault as well; the next one without a fault must succeed. The rounds' seeds are
//! the check's and the numbers after it: `--seed` with a later one goes on from there.

mod plan;

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::SeedableRng;
use tidelab_server::error::{Error, Result};

use self::plan::{End, Plan, SEEN};
use super::preloaded::{Bench, Health, LIMIT};
use super::{accounts, conclude, progress, Check, Lab, Verdict};
use crate::preload::{Call, Counts, Fault, Fired, Kind};

/// Rounds with the binary log off, then as many with it on.
const TURN: u32 = 5;
/// A start that took longer hung.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// What a check has counted.
#[derive(Default)]
struct Tally {
    fired: u32,
    wants_restart: u32,
    ends: BTreeMap<&'static str, u32>,
    failed_starts: u32,
    seen: Counts,
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let rounds = lab.rounds.unwrap_or(if lab.short { 8 } else { 100 });
    let turn = if lab.short { rounds.div_ceil(2) } else { TURN };
    let mut bench = Bench::start(lab, false)?;
    let mut tally = Tally::default();
    let mut complaints = Vec::new();
    let mut done = 0;
    for round in 0..rounds {
        lab.interrupt.check()?;
        let seed = lab.seed + u64::from(round);
        let wrong = run_round(&mut bench, lab, round / turn % 2 == 1, seed, &mut tally)
            .unwrap_or_else(|error| vec![error.to_string()]);
        lab.interrupt.check()?;
        done += 1;
        complaints.extend(wrong.into_iter().map(|complaint| format!("seed {seed}: {complaint}")));
        if !complaints.is_empty() {
            // The rest would fail for the same reason, and the evidence is fresh.
            break;
        }
    }
    tally.seen = bench.control.counts()?;
    if complaints.is_empty() {
        complaints.extend(unseen(&tally.seen));
        // Faults come at random numbers of calls; some lie beyond a round's end.
        if tally.fired * 3 < done {
            complaints.push(format!("only {} of {done} faults were met", tally.fired));
        }
    }
    let (acknowledged, refused) = accounts::done(&bench.writers);
    if acknowledged == 0 {
        complaints.push("no transaction was acknowledged".to_string());
    }
    let ends: Vec<String> = tally.ends.iter().map(|(end, count)| format!("{count} {end}")).collect();
    let summary = format!(
        "{done} rounds from seed {}, {} faults met, {} asked for a restart, {} starts failed; {}; {acknowledged} acknowledged \
         transactions, {refused} refused in a conflict; calls: {}",
        lab.seed,
        tally.fired,
        tally.wants_restart,
        tally.failed_starts,
        ends.join(", "),
        tally.seen
    );
    conclude(bench.server, summary, complaints)
}

/// Kinds of calls that were to be seen and were not, and those that the library must not miss.
fn unseen(seen: &Counts) -> Vec<String> {
    let missing = SEEN.iter().filter(|(kind, call)| seen.of(*kind, *call) == 0);
    let mut wrong: Vec<String> =
        missing.map(|(kind, call)| format!("no {} of {} was seen", call.name(), kind.name())).collect();
    for kind in Kind::ALL {
        if seen.of(kind, Call::Map) > 0 {
            wrong.push(format!(
                "{} is written through a mapping, which the library does not see",
                kind.name()
            ));
        }
    }
    wrong
}

/// One round; the faults that it found.
fn run_round(
    bench: &mut Bench<'_>,
    lab: &Lab<'_>,
    binary_log: bool,
    seed: u64,
    tally: &mut Tally,
) -> Result<Vec<String>> {
    let mut random = StdRng::seed_from_u64(seed);
    let plan = Plan::draw(binary_log, &mut random);
    bench.set_binary_log(binary_log)?;
    bench.mark_error_log()?;
    let (before, _) = accounts::done(&bench.writers);
    bench.control.arm(&plan.fault)?;
    let ((gone, in_time), lost) = bench.under_load(&mut random, |server, control| {
        let start = Instant::now();
        let mut met = None;
        while start.elapsed() < plan.load && met.is_none_or(|met: Instant| met.elapsed() < plan.after) {
            if server.check_alive().is_err() {
                return Ok((true, true));
            }
            if met.is_none() && control.fired()?.is_some() {
                met = Some(Instant::now());
            }
            sleep(Duration::from_millis(10));
        }
        Ok(match plan.end {
            End::KillUnderLoad => {
                server.crash()?;
                (true, true)
            }
            End::ShutDownUnderLoad => (true, server.shut_down_within(LIMIT)),
            _ => (false, true),
        })
    })?;
    let mut wrong = Vec::new();
    let fired = bench.control.fired()?;
    // Some stand in for what a library call should never do: the server ends by itself when InnoDB's files fail.
    let died = gone && !plan.end.under_load() && bench.server.check_alive().is_err();
    if died && plan.fault.kind.is_store() {
        wrong.push("the server ended by itself".to_string());
    }
    if !in_time {
        wrong.push(format!("a shutdown did not end within {} s", LIMIT.as_secs()));
    }
    if !gone {
        wrong.extend(lost.into_iter().map(|failure| format!("while the server ran: {failure}")));
    }
    let mut health = Health::Works;
    let failed: Vec<String> =
        bench.writers.iter().flat_map(|writer| writer.failed.values().cloned()).collect();
    if !gone {
        wrong.extend(bench.look()?);
        bench.control.disarm()?;
        health = bench.health();
        wrong.extend(bench.look()?);
    }
    bench.control.disarm()?;
    let mut end = plan.end;
    match &health {
        Health::Wrong(why) => wrong.push(why.clone()),
        Health::WantsRestart => {
            tally.wants_restart += 1;
            end = if end == End::GoOn { End::ShutDown } else { end };
        }
        Health::Works => {}
    }
    if !gone {
        match end {
            End::Kill => bench.server.crash()?,
            End::ShutDown if !bench.server.shut_down_within(LIMIT) => {
                wrong.push(format!("a shutdown did not end within {} s", LIMIT.as_secs()));
            }
            _ => {}
        }
    }
    if let Some(fired) = &fired {
        tally.fired += 1;
        wrong.extend(named(bench, &plan.fault, fired, &failed)?);
    }
    let mut took = None;
    if gone || end != End::GoOn {
        if let Some(fault) = plan.at_start {
            tally.failed_starts += u32::from(!start_with(bench, &fault)?);
        }
        took = Some(bench.restart()?);
    }
    if took.is_some_and(|took| took > STARTS_WITHIN) {
        wrong.push(format!("the start took {:?}", took));
    }
    // A failure of the binary log's own files rolls transactions back that it has already.
    let log_is_whole = plan.fault.kind != Kind::Binlog || !plan.fault.action.fails();
    wrong.extend(bench.judge(log_is_whole)?);
    if bench.error_log()?.contains("panicked at") {
        wrong.push("the error log tells of a panic".to_string());
    }
    let end = if died { "died" } else { end.name() };
    *tally.ends.entry(end).or_default() += 1;
    report(bench, lab, seed, &plan, &fired, end, took, before, &wrong);
    Ok(wrong)
}

/// Starts the server with a fault, which it may or may not survive, and ends it. True: it came up.
fn start_with(bench: &mut Bench<'_>, fault: &Fault) -> Result<bool> {
    bench.control.arm(fault)?;
    let up = match bench.restart() {
        Ok(_) => true,
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(_) => false,
    };
    bench.server.crash()?;
    bench.control.disarm()?;
    Ok(up)
}

/// A call of the store that failed is named by the error log or by an answer: its file, or for a name its directory.
fn named(bench: &Bench<'_>, fault: &Fault, fired: &Fired, answers: &[String]) -> Result<Vec<String>> {
    // Reads may have met nobody who waits; files that stay for now and closed ones are tried again or forgotten.
    let told = matches!(
        fault.call,
        Call::Write | Call::Sync | Call::Allocate | Call::Create | Call::Rename | Call::Truncate
    );
    if !fault.kind.is_store() || !fault.action.fails() || !told {
        return Ok(Vec::new());
    }
    let log = bench.error_log()?;
    let path = fired.path.to_string_lossy();
    if log.contains(&*path) || answers.iter().any(|answer| answer.contains(&*path)) {
        return Ok(Vec::new());
    }
    Ok(vec![format!("neither the error log nor an answer names {path}")])
}

#[allow(clippy::too_many_arguments)] // all of them are in the line
fn report(
    bench: &Bench<'_>,
    lab: &Lab<'_>,
    seed: u64,
    plan: &Plan,
    fired: &Option<Fired>,
    end: &str,
    took: Option<Duration>,
    before: usize,
    wrong: &[String],
) {
    let (acknowledged, _) = accounts::done(&bench.writers);
    let met = match fired {
        None => "not met".to_string(),
        Some(fired) => {
            let file = fired.path.file_name().unwrap_or_default().to_string_lossy();
            format!("met in {file}, {} times", fired.calls)
        }
    };
    progress(
        Check::Faults,
        &format!(
            "seed {seed} ({} of {}){}: {}, {met}; {end}{}; {} transactions, {} wrong",
            seed - lab.seed + 1,
            lab.rounds.map_or("its form's".to_string(), |rounds| rounds.to_string()),
            if bench.binary_log { " (binary log)" } else { "" },
            plan.fault,
            took.map_or(String::new(), |took| format!(", up again in {:.1} s", took.as_secs_f64())),
            acknowledged - before,
            wrong.len()
        ),
    );
}
