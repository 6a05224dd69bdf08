//! A run in several processes, one for each processor. Coroutines have one thread, and what the engine shares in a
//! process (contexts of compression) has locks that only they know how to wait for.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Seeds of a process.
const SHARE: u64 = 250;

/// Counts of a run.
#[derive(Default)]
pub struct Sums {
    /// Programs.
    pub done: u64,
    /// Those that went wrong.
    pub failed: u64,
    /// Of coroutines.
    pub steps: u64,
    /// By kind.
    pub events: BTreeMap<String, u64>,
}

impl Sums {
    fn add(&mut self, other: Sums) {
        self.done += other.done;
        self.failed += other.failed;
        self.steps += other.steps;
        for (kind, times) in other.events {
            *self.events.entry(kind).or_default() += times;
        }
    }
}

/// Runs the seeds; each failure is told when it comes.
pub fn run(from: u64, seeds: u64) -> Sums {
    let (next, all, begun) = (AtomicU64::new(0), Mutex::new(Sums::default()), Instant::now());
    let work = || loop {
        let first = next.fetch_add(SHARE, Relaxed);
        if first >= seeds {
            return;
        }
        let sums = one(from + first, SHARE.min(seeds - first));
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.add(sums);
        if std::io::stderr().is_terminal() {
            let rate = all.done as f64 / begun.elapsed().as_secs_f64();
            eprintln!("{} of {seeds} seeds, {rate:.0} a second, {} failed", all.done, all.failed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..processes() {
            scope.spawn(work);
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// As many as there are processors.
pub fn processes() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The seeds of one process; its death is a failure.
fn one(from: u64, seeds: u64) -> Sums {
    let mut sums = Sums::default();
    let told = (|| {
        let program = std::env::current_exe()?;
        let arguments = ["--share", "--from", &from.to_string(), "--seeds", &seeds.to_string()];
        let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn()?;
        for line in child.stdout.take().map(|out| BufReader::new(out).lines()).into_iter().flatten() {
            let line = line?;
            match line.split_once('\t').map(|(count, kind)| (count.parse(), kind)) {
                Some((Ok(count), "done")) => sums.done = count,
                Some((Ok(count), "failed")) => sums.failed = count,
                Some((Ok(count), "steps")) => sums.steps = count,
                Some((Ok(count), kind)) => drop(sums.events.insert(kind.to_string(), count)),
                _ => println!("{line}"),
            }
        }
        child.wait()
    })();
    if sums.done < seeds {
        let how = told.map_or_else(|error| error.to_string(), |ended| ended.to_string());
        let again = format!("make simulate SEEDS={seeds} FROM={from}");
        println!(
            "seeds {from} to {}: FAILED: the process ended early ({how}); again: {again}",
            from + seeds - 1
        );
        sums.failed += 1;
        sums.done = sums.done.max(sums.failed);
    }
    sums
}

/// Tells the process that began this one.
pub fn tell(sums: &Sums) {
    for (count, kind) in [(sums.done, "done"), (sums.failed, "failed"), (sums.steps, "steps")] {
        println!("{count}\t{kind}");
    }
    sums.events.iter().for_each(|(kind, count)| println!("{count}\t{kind}"));
}
