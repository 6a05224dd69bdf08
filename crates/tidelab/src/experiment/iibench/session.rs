//! A whole queue: its folder, its tasks in their order, its cells, and the table at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::workload::iibench::counts::Group;
use tidelab_server::workload::iibench::lines::{counted, errors_path};
use tidelab_server::workload::iibench::queue::Task;
use tidelab_server::workload::iibench::runner::{is_last_on_its_table, Measured, Runner};

use super::cells::{self, flatness};
use crate::run::{now_unix_s, Cell, CellId, Folder, Run};

/// Runs a queue into a folder with the head `run`. `server` is the server's process if it is on this machine.
/// True: all tasks came to their end and their tables hold every acknowledged row.
///
/// A task unable to run fails its own cell, and the next one is begun: the published benchmark goes on too.
/// An interrupt ends the queue.
pub fn run(
    tasks: &[Task],
    run: &mut Run,
    folder: &mut Folder,
    server: Option<u32>,
    settle: Duration,
    interrupt: &Interrupt,
) -> Result<bool> {
    let mut runner = Runner::new(interrupt, server, settle);
    let mut named: BTreeMap<(String, &str), u32> = BTreeMap::new();
    let mut good = true;
    // Cells of tables that are not examined yet.
    let mut open: Vec<(String, Cell)> = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        say(&format!("[{}/{}] {}", index + 1, tasks.len(), task.name));
        let log = folder.path().join(&task.log_file);
        let examine = is_last_on_its_table(tasks, index);
        let result = runner.run(task, &log, examine, &mut |text| say(text));
        if let Err(Error::Interrupted) = result {
            run.ended_early = Some("interrupted".to_string());
            folder.write_head(run)?;
            return Err(Error::Interrupted);
        }
        let asked = task.engine_name().unwrap_or("default").to_string();
        let engine = result.as_ref().map_or(asked, |measured| measured.engine.clone());
        let phase = cells::phase(task);
        let round = named.entry((engine.clone(), phase)).or_default();
        *round += 1;
        let id = CellId::new([("engine", engine), ("phase", phase.to_string())], *round);
        let mut cell = Cell::new(id, task.seed);
        match &result {
            Ok(measured) => {
                run.files.push(task.log_file.clone());
                run.files.extend(errors_path(&log).file_name().map(|n| n.to_string_lossy().into_owned()));
                let making = folder.begin(&cell.id)?;
                cells::fill(&mut cell, measured, None, &making)?;
                say(&summary(task, measured));
            }
            Err(error) => {
                cell.failures.push(error.to_string());
                say(&format!("FAILED: {error}"));
            }
        }
        for failure in cell.failures.iter().filter(|_| result.is_ok()) {
            say(&format!("WRONG: {failure}"));
        }
        open.push((format!("{}/{}", task.dsn, task.table), cell));
        if examine {
            good &= close(&mut open, folder)?;
            folder.write_head(run)?;
        }
    }
    run.ended_unix_s = Some(now_unix_s());
    folder.write_head(run)?;
    Ok(good)
}

/// Puts the cells of the last examined table into the folder. A fault of the table fails each of them.
fn close(open: &mut Vec<(String, Cell)>, folder: &mut Folder) -> Result<bool> {
    let Some((table, last)) = open.last() else { return Ok(true) };
    let (table, failures) = (table.clone(), last.failures.clone());
    let (of_it, others) = open.drain(..).partition(|(other, _)| *other == table);
    *open = others;
    let of_it: Vec<(String, Cell)> = of_it;
    let mut good = true;
    for (_, mut cell) in of_it {
        for failure in &failures {
            if !cell.failures.contains(failure) {
                cell.failures.push(failure.clone());
            }
        }
        good &= cell.counts();
        folder.finish(cell)?;
    }
    Ok(good)
}

fn say(text: &str) {
    eprintln!("iibench: {text}");
}

/// The result of a task, for a person.
pub fn summary(task: &Task, measured: &Measured) -> String {
    let outcome = &measured.outcome;
    let mut parts = vec![format!("{}: {} on {}", task.name, cells::phase(task), measured.engine)];
    for group in Group::ALL {
        let counts = outcome.total.group(group);
        let number = counted(group, &counts);
        if number == 0 && counts.failed() == 0 {
            continue;
        }
        let what = match group {
            Group::Insert => "rows inserted",
            Group::Query => "queries",
            Group::Delete => "rows deleted",
        };
        let mut part = format!(
            "{number} {what}, {:.0}/s, p50 {:.2} p99 {:.2} max {:.1} ms",
            number as f64 / outcome.seconds.max(1e-3),
            counts.latencies.within_ms(0.5),
            counts.latencies.within_ms(0.99),
            counts.latencies.figures().max_ms
        );
        if counts.given_up > 0 {
            part += &format!(", {} slots given up", counts.given_up);
        }
        for (code, count) in &counts.errors {
            part += &format!(", {count} x error {code}");
        }
        parts.push(part);
    }
    if let Some(flat) = flatness(measured, Group::Delete) {
        parts.push(format!(
            "worst of ten seconds: median {:.1} ms, worst {:.1} ms: {}",
            flat.median_ms,
            flat.worst_ms,
            if flat.is_flat() { "flat" } else { "not flat" }
        ));
    }
    parts.push(format!("{:.1} s", outcome.seconds));
    parts.join("; ")
}
