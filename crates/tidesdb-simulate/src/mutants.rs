//! `make mutants`: each planted fault of the engine in a process of its own, until a seed notices it. Faults between two
//! accesses to memory are for the models of loom alone: coroutines change at waits.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use tidesdb_simulated::{Mutant, MUTANTS, VARIABLE};

/// Faults that the models find, with the model's name.
const LOOM: [(Mutant, &str); 8] = [
    (Mutant::FloorAfterScan, "store::snapshot"),
    (Mutant::SlotNotAskedAgain, "store::snapshot"),
    (Mutant::VisibleBeforeDone, "store::visible_seq"),
    (Mutant::DecisionUnseen, "lock::wait_cell"),
    (Mutant::NewBlockerUnreported, "lock::wait_cell"),
    (Mutant::SyncFollowersNotWoken, "wal::leader_queue"),
    (Mutant::FlightEndUntold, "cache::single_flight"),
    (Mutant::FailedFlightStays, "cache::single_flight"),
];

/// How a fault was noticed: for the table, and what went wrong.
struct Found {
    by: String,
    what: String,
}

/// `Err`: it was not noticed, or nobody could look.
type Answer = Result<Found, String>;

/// Looks for every fault, or for those named in `only`, with commas between them. Prints each when it is found or given up,
/// and at the end the table of `docs/mutants.md`.
pub fn find_all(from: u64, seeds: u64, only: Option<&str>) -> ExitCode {
    let wanted =
        |mutant: Mutant| only.is_none_or(|only| only.split(',').any(|name| name == format!("{mutant:?}")));
    let mutants: Vec<_> = MUTANTS.iter().filter(|(mutant, _)| wanted(*mutant)).collect();
    let (next, answers) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some((mutant, fault)) = mutants.get(at) else { return };
        let answer = match LOOM.iter().find(|(known, _)| known == mutant) {
            Some((_, model)) => by_loom(*mutant, model),
            None => by_seeds(*mutant, from, seeds),
        };
        let (sign, how) = match &answer {
            Ok(found) => (' ', &found.what),
            Err(how) => ('!', how),
        };
        println!("{sign} {:24} {fault}\n      {how}", format!("{mutant:?}"));
        answers.lock().unwrap_or_else(PoisonError::into_inner).push((at, answer));
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(at, _)| *at);
    let mut missed = Vec::new();
    println!("\n| fault | seed | what it does |\n|---|---|---|");
    for (at, answer) in answers {
        let (mutant, fault) = mutants[at];
        let by = answer.map(|found| found.by).unwrap_or_else(|_| {
            missed.push(format!("{mutant:?}"));
            "not found".into()
        });
        println!("| `{mutant:?}` | {by} | {fault} |");
    }
    let names = if missed.is_empty() { String::new() } else { format!(": {}", missed.join(", ")) };
    println!("\nmutants: {} found, {} not found{names}", mutants.len() - missed.len(), missed.len());
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
    let seed = last.trim_start_matches("seed ").split(':').next().unwrap_or_default().to_string();
    match ended.success() {
        true => Err(format!("not found by {seeds} seeds from {from} on")),
        false if ended.code() == Some(1) => Ok(Found { by: seed, what: last }),
        false => Ok(Found { by: seed, what: format!("{last}: the process died ({ended})") }),
    }
}

/// Tests of models by their names, with a fault or without one; whether they pass.
fn models_pass(planted: Option<Mutant>, names: &[&str]) -> Result<bool, String> {
    let cargo = std::env::var("CARGO").map_err(|_| "cargo run starts this program where models are asked")?;
    let mut command = Command::new(&cargo);
    command.args(["test", "--quiet", "-p", "tidesdb-loom", "--features", "mutants", "--"]).args(names);
    command.env_remove(VARIABLE).envs(planted.map(|mutant| (VARIABLE, format!("{mutant:?}"))));
    let ended = command.output().map_err(|error| format!("cargo does not start: {error}"))?;
    Ok(ended.status.success())
}

/// A model fails, and passes without the fault.
fn by_loom(mutant: Mutant, model: &str) -> Answer {
    static SOUND: OnceLock<Result<bool, String>> = OnceLock::new();
    let sound = SOUND.get_or_init(|| {
        let mut names = LOOM.map(|(_, model)| model).to_vec();
        names.dedup();
        models_pass(None, &names)
    });
    if !sound.clone()? {
        return Err("the models do not build, or fail without a fault".into());
    }
    match models_pass(Some(mutant), &[model])? {
        true => Err(format!("not found by loom's model {model}")),
        false => Ok(Found { by: format!("loom, `{model}`"), what: format!("loom, {model}") }),
    }
}
