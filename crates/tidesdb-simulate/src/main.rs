//! `tidesdb-simulate`: programs of random transactions on the whole engine, under a deterministic scheduler and on a
//! faulty disk. A seed decides everything, and a failing one can be run again: `--from SEED --seeds 1`.
//!
//! Exit status 1: a seed failed; 2: the arguments are wrong.

mod client;
mod disk;
mod events;
mod history;
mod host;
mod random;
mod run;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;

use run::Program;

const USAGE: &str = "usage: tidesdb-simulate [--seeds N] [--from SEED] [--json]";

struct Arguments {
    seeds: u64,
    from: u64,
    json: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments { seeds: 1000, from: 1, json: false };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut number = || {
            let text = given.next().ok_or_else(|| format!("{name} needs a number"))?;
            text.parse().map_err(|_| format!("{name}: '{text}' is no number"))
        };
        match name.as_str() {
            "--seeds" => arguments.seeds = number()?,
            "--from" => arguments.from = number()?,
            "--json" => arguments.json = true,
            other => return Err(format!("there is no argument {other}")),
        }
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
    let (begun, mut steps, mut failed) = (Instant::now(), 0, 0u64);
    // A panic of a coroutine is told with its seed, below.
    std::panic::set_hook(Box::new(|_| {}));
    for done in 0..arguments.seeds {
        let seed = arguments.from + done;
        let (result, taken) = Program::new(seed).run();
        steps += taken;
        if let Err(what) = result {
            failed += 1;
            println!("seed {seed}: FAILED: {what}; again: make simulate SEEDS=1 FROM={seed}");
        }
        let rate = (done + 1) as f64 / begun.elapsed().as_secs_f64().max(1e-9);
        if (done + 1) % 500 == 0 && std::io::stderr().is_terminal() {
            eprintln!("{} of {} seeds, {rate:.0} a second, {failed} failed", done + 1, arguments.seeds);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    if arguments.json {
        let events: Vec<String> =
            events::counts().iter().map(|(kind, n)| format!("\"{kind}\":{n}")).collect();
        println!(
            "{{\"seeds\":{},\"failed\":{failed},\"steps\":{steps},\"seconds\":{seconds:.1},\"events\":{{{}}}}}",
            arguments.seeds,
            events.join(",")
        );
    } else {
        events::counts().iter().for_each(|(kind, n)| println!("{n:12} {kind}"));
        println!(
            "simulate: {} passed, {failed} failed, {:.0} programs a second, {:.0} steps each",
            arguments.seeds - failed,
            arguments.seeds as f64 / seconds,
            steps as f64 / arguments.seeds.max(1) as f64
        );
    }
    ExitCode::from(u8::from(failed > 0))
}
