//! `tidesdb-simulate`: programs of random transactions on the whole engine, under a deterministic scheduler and on a
//! faulty disk. A seed decides everything, and a failing one can be run again: `--from SEED --seeds 1`.
//!
//! Exit status 1: a seed failed, or a planted fault was not found; 2: the arguments are wrong.

mod client;
mod cut;
mod disk;
mod events;
mod faults;
mod formats;
mod history;
mod host;
#[cfg(mutants)]
mod mutants;
mod random;
mod recovery;
mod run;
mod watch;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

use cut::Cut;
use run::Program;

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

fn simulate(arguments: &Arguments) -> ExitCode {
    let (begun, mut steps, mut failed, mut done) = (Instant::now(), 0, 0u64, 0);
    watch::begin();
    while done < arguments.seeds {
        let seed = arguments.from + done;
        if arguments.first {
            // Whoever reads this knows the seed of a death, too.
            println!("seed {seed}");
        }
        watch::seed(seed);
        let program = Program::new(seed).without(arguments.cut.clone());
        let (result, taken) = program.run();
        steps += taken;
        done += 1;
        if let Err(what) = result {
            failed += 1;
            let what = watch::panic().unwrap_or(what);
            if arguments.first || !arguments.cut.is_empty() {
                println!("seed {seed}: FAILED: {what}; again: {}", again(seed, &arguments.cut));
            } else {
                let (cut, what) = program.shrink(what);
                println!("seed {seed}: FAILED: {what}; again: {}", again(seed, &cut));
            }
            if arguments.first {
                break;
            }
        }
        let rate = done as f64 / begun.elapsed().as_secs_f64().max(1e-9);
        if done % 500 == 0 && std::io::stderr().is_terminal() {
            eprintln!("{done} of {} seeds, {rate:.0} a second, {failed} failed", arguments.seeds);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    if arguments.json {
        let events: Vec<String> =
            events::counts().iter().map(|(kind, n)| format!("\"{kind}\":{n}")).collect();
        println!(
            "{{\"seeds\":{done},\"failed\":{failed},\"steps\":{steps},\"seconds\":{seconds:.1},\"events\":{{{}}}}}",
            events.join(",")
        );
    } else if !arguments.first {
        let (hit, never): (Vec<_>, Vec<_>) = events::counts().into_iter().partition(|(_, n)| *n > 0);
        hit.iter().for_each(|(kind, n)| println!("{n:12} {kind}"));
        if !never.is_empty() {
            let names: Vec<String> = never.into_iter().map(|(kind, _)| kind).collect();
            println!("never hit: {}", names.join("; "));
        }
        println!(
            "simulate: {} passed, {failed} failed, {:.0} programs a second, {:.0} steps each",
            done - failed,
            done as f64 / seconds,
            steps as f64 / done.max(1) as f64
        );
    }
    // A failed run leaves coroutines and their stacks behind: nothing of them is unwound.
    let _ = std::io::stdout().flush();
    ExitCode::from(u8::from(failed > 0))
}
