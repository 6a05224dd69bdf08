//! `make mutants`: each planted fault of the engine in a process of its own, until a seed notices it. Faults between two
//! accesses to memory are for the models of loom alone: coroutines change at waits.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tidesdb_simulated::{Mutant, MUTANTS, VARIABLE};

/// Faults that the models find, with the model's name.
const LOOM: [(Mutant, &str); 7] = [
    (Mutant::FloorAfterScan, "store::snapshot"),
    (Mutant::SlotNotAskedAgain, "store::snapshot"),
    (Mutant::VisibleBeforeDone, "store::visible_seq"),
    (Mutant::DecisionUnseen, "lock::wait_cell"),
    (Mutant::SyncFollowersNotWoken, "wal::leader_queue"),
    (Mutant::FlightEndUntold, "cache::single_flight"),
    (Mutant::FailedFlightStays, "cache::single_flight"),
];

/// How a fault was noticed; `Err`: it was not.
type Answer = Result<String, String>;

/// Looks for every fault; prints a table.
pub fn find_all(from: u64, seeds: u64, only: Option<&str>) -> ExitCode {
    let wanted = |mutant: Mutant| only.is_none_or(|only| format!("{mutant:?}") == only);
    let mutants: Vec<_> = MUTANTS.iter().filter(|(mutant, _)| wanted(*mutant)).collect();
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((mutant, fault)) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
            let model = LOOM.iter().find(|(known, _)| known == mutant);
            let answer = match model {
                Some((_, model)) => by_loom(*mutant, model),
                None => by_seeds(*mutant, from, seeds),
            };
            let (sign, how) = match answer {
                Ok(how) => (' ', how),
                Err(how) => {
                    missed.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{mutant:?}"));
                    ('!', how)
                }
            };
            println!("{sign} {:24} {fault}\n      {how}", format!("{mutant:?}"));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let missed = missed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let names = if missed.is_empty() { String::new() } else { format!(": {}", missed.join(", ")) };
    println!("mutants: {} found, {} not found{names}", mutants.len() - missed.len(), missed.len());
    ExitCode::from(u8::from(!missed.is_empty() || mutants.is_empty()))
}

/// Programs until one fails.
fn by_seeds(mutant: Mutant, from: u64, seeds: u64) -> Answer {
    let program = std::env::current_exe().map_err(|error| format!("no program: {error}"))?;
    let mut child = Command::new(program)
        .args(["--first", "--from", &from.to_string(), "--seeds", &seeds.to_string()])
        .env(VARIABLE, format!("{mutant:?}"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("the program does not start: {error}"))?;
    let lines = child.stdout.take().map(|out| BufReader::new(out).lines());
    let last = lines.into_iter().flatten().map_while(Result::ok).last().unwrap_or_default();
    let ended = child.wait().map_err(|error| format!("no end: {error}"))?;
    let last = last.split("; again: ").next().unwrap_or_default().replace(": FAILED", "");
    match ended.success() {
        true => Err(format!("not found by {seeds} seeds from {from} on")),
        false if ended.code() == Some(1) => Ok(last),
        false => Ok(format!("{last}: the process died ({ended})")),
    }
}

/// A model fails.
fn by_loom(mutant: Mutant, model: &str) -> Answer {
    let cargo = std::env::var("CARGO").map_err(|_| "cargo run starts this program where models are asked")?;
    let test = |planted: Option<Mutant>, arguments: &[&str]| {
        let mut command = Command::new(&cargo);
        command.args(["test", "--quiet", "-p", "tidesdb-loom", "--features", "mutants"]).args(arguments);
        command.env_remove(VARIABLE).envs(planted.map(|mutant| (VARIABLE, format!("{mutant:?}"))));
        command.output().map_err(|error| format!("cargo does not start: {error}"))
    };
    if !test(None, &["--no-run"])?.status.success() {
        return Err("the models do not build".into());
    }
    match test(Some(mutant), &["--", model])?.status.success() {
        true => Err(format!("not found by loom's model {model}")),
        false => Ok(format!("loom, {model}")),
    }
}
