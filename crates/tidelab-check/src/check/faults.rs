//! `faults`: a preloaded library makes a server's calls on files fail, under writers of TidesDB tables and of
//! both engines, with the binary log off and on.
//!
//! Each round has one fault: a kind of call on a kind of file fails, tears, is short, late, or a lie, once, a few times
//! or until the round's end. Then the server is ended in order or killed, or it goes on, and after a restart these hold:
//!
//! - Every acknowledged transaction is there, no refused one, and of those in doubt any, whole.
//! - Engines and binary log tell of the same transactions; indexes agree with their tables.
//! - Nothing hung: every answer, every shutdown and every start came in time.
//! - The error log, or an answer, names the failed file, or the answer says "disk full".
//! - A log whose write or sync failed asks for a restart; in all other cases, a log without room among them, writes go on.
//!
//! In some rounds the restart meets a fault as well; the next one without a fault must succeed. The rounds' seeds are
//! the check's and the numbers after it: `--seed` with a later one goes on from there, and `--rounds 1` repeats one.
//!
//! After the rounds a table is copied until nothing has room (`faults/copies.rs`). Another server's store lies on
//! a file system: it fills up and then fails (`faults/disk.rs`).

mod copies;
mod disk;
pub(super) mod plan;

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::SeedableRng;
use tidelab_server::error::{Error, Result};

use self::plan::{End, Plan, SEEN};
use super::preloaded::{binary_log_of, Bench, Health, LIMIT};
use super::rounds::{self, Rounds};
use super::{accounts, conclude, progress, Check, Lab, Verdict};
use crate::preload::{Call, Counts, Fault, Fired, Kind};

/// Rounds needed to see each kind of call.
const ENOUGH: u32 = 8;
/// Time limit of a start: a longer one hangs.
const STARTS_WITHIN: Duration = Duration::from_secs(90);

/// Counts of a check.
#[derive(Default)]
struct FaultCounts {
    fired: u32,
    wants_restart: u32,
    ends: BTreeMap<&'static str, u32>,
    starts_failed: u32,
    starts_survived: u32,
    seen: Counts,
}

/// Runs the check: the rounds, and then the file system, whatever they found.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    // It would be in the way of the rounds' server, which empties the directory.
    disk::clear(lab);
    let rounds = part("rounds", run_rounds(lab))?;
    let file_system = part("file system", disk::run(lab))?;
    Ok(Verdict {
        summary: format!("{}; then {}", rounds.summary, file_system.summary),
        complaints: [rounds.complaints, file_system.complaints].concat(),
    })
}

/// The verdict of a part; its error is a fault, so the other part is not lost with it. Errors: an interruption.
fn part(name: &str, verdict: Result<Verdict>) -> Result<Verdict> {
    match verdict {
        Err(Error::Interrupted) => Err(Error::Interrupted),
        Err(error) => {
            Ok(Verdict { summary: format!("{name} cut short"), complaints: vec![format!("{name}: {error}")] })
        }
        done => done,
    }
}

fn run_rounds(lab: &Lab<'_>) -> Result<Verdict> {
    let rounds = lab.rounds.unwrap_or(if lab.short { 8 } else { 100 });
    let mut bench = Bench::start(lab, false)?;
    let mut tally = FaultCounts::default();
    let Rounds { done, mut complaints } = rounds::run(lab, rounds, |number, seed| {
        Round { seed, number: number + 1, rounds, binary_log: binary_log_of(seed) }
            .run(&mut bench, &mut tally)
    })?;
    tally.seen = bench.library.control.counts()?;
    if complaints.is_empty() && done >= ENOUGH {
        complaints.extend(unseen(&tally.seen));
        // Faults come at random numbers of calls; some lie beyond a round's end.
        if tally.fired * 3 < done {
            complaints.push(format!("only {} of {done} faults were met", tally.fired));
        }
    }
    if complaints.is_empty() {
        complaints.extend(copies::run(&mut bench)?);
    }
    let (acknowledged, refused) = accounts::done(&bench.writers);
    if acknowledged == 0 {
        complaints.push("no transaction was acknowledged".to_string());
    }
    let ends: Vec<String> = tally.ends.iter().map(|(end, count)| format!("{count} {end}")).collect();
    let summary = format!(
        "{done} rounds from seed {}, {} faults met, {} asked for a restart, {} of {} starts with a fault failed; {}; {acknowledged} acknowledged \
         transactions, {refused} refused in a conflict; calls: {}",
        lab.first_seed(),
        tally.fired,
        tally.wants_restart,
        tally.starts_failed,
        tally.starts_failed + tally.starts_survived,
        ends.join(", "),
        tally.seen
    );
    conclude(bench.server, summary, complaints)
}

/// Expected kinds of calls not seen, and calls missed by the library.
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

/// A round.
#[derive(Clone, Copy)]
struct Round {
    seed: u64,
    number: u32,
    rounds: u32,
    binary_log: bool,
}

/// The end of the time under load.
struct Loaded {
    /// The server is gone.
    gone: bool,
    /// By itself.
    died: bool,
    /// A shutdown was in time.
    in_time: bool,
    /// Failures of clients in place of answers.
    lost: Vec<String>,
}

impl Round {
    /// Returns the faults found.
    fn run(self, bench: &mut Bench<'_>, tally: &mut FaultCounts) -> Result<Vec<String>> {
        let mut random = StdRng::seed_from_u64(self.seed);
        let plan = Plan::draw(self.binary_log, &mut random);
        bench.set_binary_log(self.binary_log)?;
        bench.mark_error_log()?;
        let (before, _) = accounts::done(&bench.writers);
        bench.library.control.arm(&plan.fault)?;
        let loaded = load(bench, &plan, &mut random)?;
        let mut answers: Vec<String> =
            bench.writers.iter().flat_map(|writer| writer.failed.values().cloned()).collect();
        answers.append(&mut bench.answers);
        let mut wrong = explained(&loaded, &plan);
        let mut end = plan.end;
        if !loaded.gone {
            end = look_and_end(bench, &plan, tally, &mut wrong)?;
        }
        bench.library.control.disarm()?;
        let fired = bench.library.control.fired()?;
        if let Some(fired) = &fired {
            tally.fired += 1;
            wrong.extend(named(bench, &plan.fault, fired, &answers)?);
        }
        let mut took = None;
        if loaded.gone || end != End::GoOn {
            if let Some(fault) = plan.at_start {
                wrong.extend(start_with(bench, &fault, tally)?);
            }
            took = Some(bench.restart()?);
        }
        wrong.extend(took.and_then(slow));
        wrong.extend(bench.judge()?);
        if bench.error_log()?.contains("panicked at") {
            wrong.push("the error log tells of a panic".to_string());
        }
        let end = if loaded.died { "died" } else { end.name() };
        *tally.ends.entry(end).or_default() += 1;
        let (acknowledged, _) = accounts::done(&bench.writers);
        let again = took.map_or(String::new(), |took| format!(", up again in {:.1} s", took.as_secs_f64()));
        progress(
            Check::Faults,
            &format!(
                "seed {} ({} of {}){}: {}, {}; {end}{again}; {} transactions, {} wrong",
                self.seed,
                self.number,
                self.rounds,
                if self.binary_log { " (binary log)" } else { "" },
                plan.fault,
                met(fired.as_ref()),
                acknowledged - before,
                wrong.len()
            ),
        );
        Ok(wrong)
    }
}

/// Puts clients on the server until the plan's time, or a while after the fault.
fn load(bench: &mut Bench<'_>, plan: &Plan, random: &mut StdRng) -> Result<Loaded> {
    let ((gone, died, in_time), lost) = bench.under_load(random, |server, control| {
        let start = Instant::now();
        let mut met: Option<Instant> = None;
        while start.elapsed() < plan.load && met.is_none_or(|met| met.elapsed() < plan.after) {
            if server.check_alive().is_err() {
                return Ok((true, true, true));
            }
            if met.is_none() && control.fired()?.is_some() {
                met = Some(Instant::now());
            }
            sleep(Duration::from_millis(10));
        }
        if plan.fault.is_full_log() && !plan.end.is_under_load() {
            // Commits wait for room, and the clients for them.
            control.disarm()?;
        }
        Ok(match plan.end {
            _ if server.check_alive().is_err() => (true, true, true),
            End::KillUnderLoad => {
                server.crash()?;
                (true, false, true)
            }
            End::ShutDownUnderLoad => (true, false, server.shut_down_within(LIMIT)),
            _ => (false, false, true),
        })
    })?;
    // It may end by itself at the very end.
    let died = died || !gone && bench.server.check_alive().is_err();
    Ok(Loaded { gone: gone || died, died, in_time, lost })
}

/// Compares the load's end with a fault of the engine's. The server ends by itself when InnoDB's files fail.
fn explained(loaded: &Loaded, plan: &Plan) -> Vec<String> {
    let mut wrong = Vec::new();
    if loaded.died && !matches!(plan.fault.kind, Kind::Redo | Kind::InnoDb) {
        wrong.push("the server ended by itself".to_string());
    }
    if !loaded.in_time {
        wrong.push(format!("a shutdown did not end within {} s", LIMIT.as_secs()));
    }
    if !loaded.gone {
        wrong.extend(loaded.lost.iter().map(|failure| format!("while the server ran: {failure}")));
    }
    wrong
}

/// After the load: the state before a restart, and a test of further writes. Then the server ends, or not.
fn look_and_end(
    bench: &mut Bench<'_>,
    plan: &Plan,
    tally: &mut FaultCounts,
    wrong: &mut Vec<String>,
) -> Result<End> {
    wrong.extend(bench.look()?);
    bench.library.control.disarm()?;
    let health = bench.health();
    wrong.extend(bench.look()?);
    let mut end = plan.end;
    match health {
        Health::Wrong(why) => wrong.push(why),
        Health::WantsRestart => {
            tally.wants_restart += 1;
            if !plan.fault.may_want_restart() {
                wrong.push("the store asks for a restart".to_string());
            }
            end = if end == End::GoOn { End::ShutDown } else { end };
        }
        Health::Works => {}
    }
    match end {
        End::Kill => bench.server.crash()?,
        End::ShutDown if !bench.server.shut_down_within(LIMIT) => {
            wrong.push(format!("a shutdown did not end within {} s", LIMIT.as_secs()));
        }
        _ => {}
    }
    Ok(end)
}

/// A complaint about a slow start.
fn slow(took: Duration) -> Option<String> {
    (took > STARTS_WITHIN).then(|| format!("a start took {:.0} s", took.as_secs_f64()))
}

/// Starts the server with a fault, survived or not, and ends it.
fn start_with(bench: &mut Bench<'_>, fault: &Fault, tally: &mut FaultCounts) -> Result<Option<String>> {
    bench.library.control.arm(fault)?;
    let start = Instant::now();
    match bench.restart() {
        Ok(_) => tally.starts_survived += 1,
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(_) => tally.starts_failed += 1,
    }
    let took = start.elapsed();
    bench.server.crash()?;
    bench.library.control.disarm()?;
    Ok(slow(took).map(|slow| format!("{slow}, with {fault}")))
}

/// The error log or an answer names a failed call of the store.
fn named(bench: &Bench<'_>, fault: &Fault, fired: &Fired, answers: &[String]) -> Result<Vec<String>> {
    // Nobody may wait for a read; an old file that stays is tried again; a close loses nothing. Further segments of the
    // log, and their entries in the manifest, are made ahead, and made again when somebody needs them.
    let told = match fault.call {
        Call::Write | Call::Sync => fault.kind != Kind::Manifest,
        Call::Allocate | Call::Create => !matches!(fault.kind, Kind::Log | Kind::Manifest),
        _ => false,
    };
    if !fault.kind.is_store() || !fault.action.fails() || !told {
        return Ok(Vec::new());
    }
    let log = bench.error_log()?;
    let path = fired.path.to_string_lossy();
    // The server's answer to a full disk, 1021, has no place for the file.
    let tells = |answer: &String| {
        answer.contains(&*path) || fault.action.is_full() && answer.to_lowercase().contains("disk full")
    };
    if log.contains(&*path) || answers.iter().any(tells) {
        return Ok(Vec::new());
    }
    Ok(vec![format!("neither the error log nor an answer names {path}")])
}

/// The calls hit by a fault, in words.
fn met(fired: Option<&Fired>) -> String {
    match fired {
        None => "not met".to_string(),
        Some(fired) => {
            let file = fired.path.file_name().unwrap_or_default().to_string_lossy();
            format!("met in {file}, {} times", fired.calls)
        }
    }
}
