//! Ends of a run from outside: a panic, noted with its place, and a step without an end, seen by the machine's clock
//! alone.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest run of a seed, in looks at it, one a second. They take some hundredths of a second; other work on the machine
/// is no failure, nor is a stop of the whole process, in which nobody looks.
const LONGEST: u32 = 120;

struct Watched {
    seed: u64,
    looks: u32,
    panic: Option<String>,
}

static WATCHED: Mutex<Watched> = Mutex::new(Watched { seed: 0, looks: 0, panic: None });

fn watched() -> MutexGuard<'static, Watched> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes panics from now on, and ends the process in a run without an end.
pub fn begin() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.payload().downcast_ref::<String>().map(String::as_str);
        let text = text.or(info.payload().downcast_ref::<&str>().copied()).unwrap_or("a panic");
        let place = info.location().map(|place| format!(" at {}:{}", place.file(), place.line()));
        // The first one: others come from what it left.
        watched().panic.get_or_insert(format!("panic{}: {text}", place.unwrap_or_default()));
    }));
    std::thread::spawn(|| loop {
        std::thread::sleep(Duration::from_secs(1));
        let mut watched = watched();
        watched.looks += 1;
        if watched.looks > LONGEST {
            println!(
                "seed {}: FAILED: a step without an end; again: make simulate SEEDS=1 FROM={}",
                watched.seed, watched.seed
            );
            let _ = std::io::stdout().flush();
            std::process::exit(1);
        }
    });
}

/// A run begins.
pub fn seed(seed: u64) {
    *watched() = Watched { seed, looks: 0, panic: None };
}

/// The first panic of the run.
pub fn panic() -> Option<String> {
    watched().panic.clone()
}
