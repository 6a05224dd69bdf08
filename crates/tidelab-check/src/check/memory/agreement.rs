//! The engine's own count of its memory against the kernel's count of the process.
//!
//! Two servers have the same options, connections and statements. The first has no engine: BLACKHOLE takes
//! its rows, so its anonymous memory is the server's own. The second has TidesDB. The difference is the
//! engine's share, and `tidesdb_memory_total` has to be near it at every moment of the load.

use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::hint;
use tidelab_server::server::Server;
use tidelab_server::telemetry::process::process_use;

use super::super::session::Session;
use super::super::{conclude, connect, must, progress, Check, Verdict};
use super::container::Container;
use super::loads::{self, Statement};
use super::{lines, MEGABYTE};

/// The container's limit, in MB.
const LIMIT: u64 = 512;
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(250);
/// After the load the background flushes and merges for a while.
const REST: Duration = Duration::from_secs(2);
/// The permitted difference: a tenth of the engine's memory, or this.
const NEAR: u64 = 16 * MEGABYTE;
/// Looks of a stretch that may be further off, up to twice as far: one in so many. Freed pages are the
/// allocator's for a second before the kernel has them back.
const FURTHER_OFF: usize = 4;
/// Between the view's sum and the variable, in percent: one is read after the other.
const SUM_PERCENT: u64 = 1;
/// Rows that the load updates: the first inserted ones.
const ROWS: u32 = 2_000;

pub(super) const TOTAL: &str = "SELECT variable_value FROM information_schema.global_status
    WHERE variable_name = 'tidesdb_memory_total'";

/// A part of the load: its name and its statements.
type LoadPart = (&'static str, fn(&mut StdRng) -> String);

const STRETCHES: [LoadPart; 4] = [
    ("random keys", loads::random_keys),
    ("16 KB values", loads::large),
    ("UPDATE", |random| loads::update_large(random, ROWS)),
    ("three indexes", loads::indexes),
];

/// One look at a server under the load.
#[derive(Clone, Copy, Debug)]
struct Look {
    stretch: &'static str,
    /// The process's anonymous bytes beyond those of the server without the engine.
    kernel: u64,
    /// The engine's count.
    engine: u64,
}

impl Look {
    fn difference(self) -> u64 {
        self.kernel.abs_diff(self.engine)
    }

    fn allowed(self) -> u64 {
        NEAR.max(self.kernel / 10)
    }

    fn agrees(self) -> bool {
        self.difference() <= self.allowed()
    }

    fn told(self) -> String {
        let (kernel, engine) = (self.kernel / MEGABYTE, self.engine / MEGABYTE);
        format!("tidesdb_memory_total is {engine} MB and the process has {kernel} MB ({})", self.stretch)
    }
}

/// Runs the part.
pub(super) fn run(container: &Container<'_>) -> Result<Verdict> {
    let lab = container.lab;
    let seconds = lab.seconds.unwrap_or(if lab.short { 3 } else { 30 });
    let settings = |engine| {
        let mut all = lines::settings(engine);
        all.push(hint("plugin-load-add", "ha_blackhole.so"));
        all
    };

    let server = container.start(LIMIT, &[], &settings(None))?;
    loads::make_tables(&server, "BLACKHOLE")?;
    let mut plain = Vec::new();
    for (name, statement) in STRETCHES {
        let mut seen = during(container, &server, seconds, name, &statement, |bytes| Ok(bytes()))?;
        seen.sort_unstable();
        plain.push(seen.get(seen.len() / 2).copied().unwrap_or(0));
    }
    server.stop(false)?;

    let server = container.start(LIMIT, &[Engine::TidesDb], &settings(Some(Engine::TidesDb)))?;
    let mut session = connect(&server)?;
    if session.number(TOTAL).is_err() {
        let complaint = "the server has no status variable tidesdb_memory_total".to_string();
        return conclude(server, "agreement: nothing to compare".to_string(), vec![complaint]);
    }
    loads::make_tables(&server, Engine::TidesDb.name())?;
    let mut looks = Vec::new();
    for ((name, statement), plain) in STRETCHES.into_iter().zip(&plain) {
        let seen = during(container, &server, seconds, name, &statement, |bytes| {
            let before = bytes();
            let engine = bytes_of(&mut session, TOTAL)?;
            let kernel = ((before + bytes()) / 2).saturating_sub(*plain);
            Ok(Look { stretch: name, kernel, engine })
        })?;
        if let Some(last) = seen.last() {
            progress(Check::Memory, &last.told());
        }
        looks.extend(seen);
    }
    thread::sleep(REST);
    let mut complaints = disagreements(&looks);
    let sum = sum_of_view(&mut session)?;
    complaints.extend(sum.1);
    let worst = looks.iter().max_by_key(|look| look.difference()).map_or(String::new(), |look| look.told());
    let summary = format!(
        "agreement: {} looks, at worst {worst}; the server alone has {} MB; {}",
        looks.len(),
        plain.iter().max().unwrap_or(&0) / MEGABYTE,
        sum.0
    );
    conclude(server, summary, complaints)
}

/// Runs one stretch of the load, and looks all the while; `look` gets the process's anonymous bytes.
fn during<T>(
    container: &Container<'_>,
    server: &Server,
    seconds: u64,
    name: &'static str,
    statement: Statement<'_>,
    mut look: impl FnMut(&dyn Fn() -> u64) -> Result<T>,
) -> Result<Vec<T>> {
    let (lab, socket) = (container.lab, server.socket());
    let anonymous = || process_use(server.pid()).anonymous_bytes;
    let mut seen = Vec::new();
    thread::scope(|scope| {
        let load = scope.spawn(move || loads::clients(lab, seconds, socket, name, statement));
        while !load.is_finished() {
            thread::sleep(PAUSE);
            seen.push(look(&anonymous)?);
        }
        let ended = |_| Error::Load { what: name.to_string(), message: "its thread ended".to_string() };
        load.join().map_err(ended)??;
        Ok(seen)
    })
}

/// One complaint a stretch: the worst look of those in disagreement, if they are many or it is far off.
fn disagreements(looks: &[Look]) -> Vec<String> {
    if looks.is_empty() {
        return vec!["no look at the server's memory".to_string()];
    }
    let complaint = |(name, _): LoadPart| {
        let of_stretch: Vec<&Look> = looks.iter().filter(|look| look.stretch == name).collect();
        let (all, mut wrong) = (of_stretch.len(), of_stretch);
        wrong.retain(|look| !look.agrees());
        let worst = wrong.iter().max_by_key(|look| look.difference())?;
        if wrong.len() * FURTHER_OFF <= all
            && wrong.iter().all(|look| look.difference() <= 2 * look.allowed())
        {
            return None;
        }
        Some(format!("{} of {all} looks do not agree: {}", wrong.len(), worst.told()))
    };
    STRETCHES.into_iter().filter_map(complaint).collect()
}

/// The view's holders against the variable, read in one statement: figures, and a complaint.
fn sum_of_view(session: &mut Session) -> Result<(String, Option<String>)> {
    let statement = format!("SELECT (SELECT SUM(bytes) FROM information_schema.tidesdb_memory), ({TOTAL})");
    let rows = must(&statement, session.numbers(&statement))?;
    let [sum, total] = rows.first().map(Vec::as_slice).unwrap_or_default() else {
        return Ok((String::new(), Some(format!("{statement}: no row"))));
    };
    let told = format!("the view's holders have {sum} bytes, tidesdb_memory_total is {total}");
    let told = format!("{told}: {}", holders(session)?);
    let is_sum = sum.abs_diff(*total) <= total.unsigned_abs() * SUM_PERCENT / 100;
    Ok((told.clone(), (!is_sum).then_some(told)))
}

/// The view's rows from a megabyte on: they tell where a difference comes from.
fn holders(session: &mut Session) -> Result<String> {
    let statement = "SELECT holder, bytes DIV 1048576 FROM information_schema.tidesdb_memory
        WHERE bytes >= 1048576";
    let rows = must(statement, session.rows(statement))?;
    let told: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
    Ok(format!("{} MB", told.join(", ")))
}

fn bytes_of(session: &mut Session, statement: &str) -> Result<u64> {
    Ok(u64::try_from(must(statement, session.number(statement))?).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(kernel_mb: u64, engine_mb: u64) -> Look {
        Look { stretch: STRETCHES[0].0, kernel: kernel_mb * MEGABYTE, engine: engine_mb * MEGABYTE }
    }

    #[test]
    fn a_tenth_or_16_mb_agree() {
        assert!(look(10, 26).agrees() && look(26, 10).agrees() && look(400, 440).agrees());
        assert!(!look(10, 27).agrees() && !look(400, 441).agrees() && !look(400, 359).agrees());
    }

    #[test]
    fn the_worst_look_of_a_stretch_is_the_complaint() {
        assert!(disagreements(&[look(10, 10), look(400, 410)]).is_empty());
        let said = disagreements(&[look(10, 50), look(400, 300), look(10, 10)]);
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("2 of 3") && said[0].contains("300 MB"), "{said:?}");
        assert_eq!(disagreements(&[]).len(), 1);
        let mut few = vec![look(400, 400); 4];
        few[0] = look(400, 475);
        assert!(disagreements(&few).is_empty(), "freed pages");
        few[1] = look(400, 350);
        assert_eq!(disagreements(&few).len(), 1, "two of four");
        assert_eq!(
            disagreements(&[vec![look(400, 400); 9], vec![look(400, 500)]].concat()).len(),
            1,
            "too far"
        );
    }
}
