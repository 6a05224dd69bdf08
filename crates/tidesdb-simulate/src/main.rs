//! `tidesdb-simulate`: programs of random transactions on the whole engine, under a deterministic scheduler and on a
//! faulty disk. A seed decides everything, and a failing one can be run again: `--from SEED --seeds 1`.
//!
//! Exit status 1: a seed failed, or a planted fault was not found; 2: the arguments are wrong.

mod appliers;
mod area;
mod backups;
mod branches;
mod client;
mod clocks;
mod closing;
mod coordinator;
mod cut;
mod ddl;
mod disk;
mod ending;
mod events;
mod faults;
mod formats;
mod history;
mod host;
mod leaning;
mod load;
mod model;
#[cfg(mutants)]
mod mutants;
mod options;
mod owner;
mod positions;
mod program;
mod random;
mod reading;
mod recovery;
mod run;
mod shares;
mod watch;
mod watcher;
mod words;
mod work;
mod world;

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use cut::Cut;
use program::Program;
use shares::Sums;

const USAGE: &str =
    "usage: tidesdb-simulate [--seeds N] [--from SEED] [--cut PARTS] [--json] [--first] [--mutants [--only NAME]]";

struct Arguments {
    seeds: u64,
    from: u64,
    /// Left out of each program.
    cut: Cut,
    json: bool,
    /// End at the first failure.
    first: bool,
    /// Of a run in several processes: the end is told to the first.
    share: bool,
    mutants: bool,
    only: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        seeds: 1000,
        from: 1,
        cut: Cut::default(),
        json: false,
        first: false,
        share: false,
        mutants: false,
        only: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut text = || given.next().ok_or_else(|| format!("{name} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{name}: '{text}' is no number"));
        match name.as_str() {
            "--seeds" => arguments.seeds = number(text()?)?,
            "--from" => arguments.from = number(text()?)?,
            "--cut" => arguments.cut = text()?.parse()?,
            "--only" => arguments.only = Some(text()?),
            "--json" => arguments.json = true,
            "--first" => arguments.first = true,
            "--share" => arguments.share = true,
            "--mutants" => arguments.mutants = true,
            other => return Err(format!("there is no argument {other}")),
        }
    }
    if arguments.mutants && !cfg!(mutants) {
        return Err("this build has no planted faults: make mutants".into());
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(what) => {
            eprintln!("tidesdb-simulate: {what}; {USAGE}");
            return ExitCode::from(2);
        }
    };
    #[cfg(mutants)]
    if arguments.mutants {
        return mutants::find_all(arguments.from, arguments.seeds, arguments.only.as_deref());
    }
    simulate(&arguments)
}

/// The line that runs a seed again.
fn again(seed: u64, cut: &Cut) -> String {
    let cut = if cut.is_empty() { String::new() } else { format!(" CUT={cut}") };
    format!("make simulate SEEDS=1 FROM={seed}{cut}")
}

/// Runs the seeds in this process; with `first`, until one fails.
fn run_seeds(arguments: &Arguments) -> Sums {
    let mut sums = Sums::default();
    watch::begin();
    for seed in arguments.from..arguments.from + arguments.seeds {
        if arguments.first {
            // Whoever reads this knows the seed of a death, too.
            println!("seed {seed}");
        }
        watch::seed(seed);
        let program = Program::new(seed).without(arguments.cut.clone());
        let (result, steps) = program.run();
        sums.steps += steps;
        sums.done += 1;
        if let Err(what) = result {
            sums.failed += 1;
            let what = watch::panic().unwrap_or(what);
            let (cut, what) = match arguments.first || !arguments.cut.is_empty() {
                true => (arguments.cut.clone(), what),
                false => program.shrink(what),
            };
            println!("seed {seed}: FAILED: {what}; again: {}", again(seed, &cut));
            if arguments.first {
                break;
            }
        }
    }
    sums.events = events::counts().into_iter().collect();
    sums
}

fn simulate(arguments: &Arguments) -> ExitCode {
    let begun = Instant::now();
    let alone = arguments.first || arguments.share || arguments.seeds == 1 || !arguments.cut.is_empty();
    let sums = if alone { run_seeds(arguments) } else { shares::run(arguments.from, arguments.seeds) };
    let seconds = begun.elapsed().as_secs_f64();
    if arguments.share {
        shares::tell(&sums);
    } else if arguments.json {
        let events: Vec<String> = sums.events.iter().map(|(kind, n)| format!("\"{kind}\":{n}")).collect();
        println!(
            "{{\"seeds\":{},\"failed\":{},\"steps\":{},\"seconds\":{seconds:.1},\"events\":{{{}}}}}",
            sums.done,
            sums.failed,
            sums.steps,
            events.join(",")
        );
    } else if !arguments.first {
        let (hit, never): (Vec<_>, Vec<_>) = sums.events.iter().partition(|(_, n)| **n > 0);
        hit.iter().for_each(|(kind, n)| println!("{n:12} {kind}"));
        if !never.is_empty() {
            let names: Vec<&str> = never.into_iter().map(|(kind, _)| kind.as_str()).collect();
            println!("never hit: {}", names.join("; "));
        }
        println!(
            "simulate: {} passed, {} failed, {:.0} programs a second in {} processes, {:.0} steps each",
            sums.done - sums.failed,
            sums.failed,
            sums.done as f64 / seconds,
            if alone { 1 } else { shares::processes() },
            sums.steps as f64 / sums.done.max(1) as f64
        );
    }
    // A failed run leaves coroutines and their stacks behind: nothing of them is unwound.
    let _ = std::io::stdout().flush();
    ExitCode::from(u8::from(sums.failed > 0))
}
