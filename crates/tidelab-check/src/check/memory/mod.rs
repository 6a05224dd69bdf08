//! `memory`: servers alone in memory cgroups, as in containers, under the most memory-hungry loads.
//!
//! Each line of [`lines`] is a server with a limit from its first page on. It lives, keeps its program in
//! memory and makes progress. The engine's own count agrees with the kernel's ([`agreement`]). A large value
//! costs a few times its length ([`blob`]); a thousand connections write and sleep ([`connections`]); clients
//! in want of more than the bound get it in turn ([`pressure`]); tables and connections have limits of their
//! own ([`tables`]).
//!
//! Without cgroups the lines run without a limit, and the check says so.

mod agreement;
mod blob;
mod connections;
mod container;
mod lines;
mod loads;
mod pressure;
mod slow;
mod tables;
mod watch;

use tidelab_server::error::Result;
use tidelab_server::server::engine::Engine;

use super::{progress, Check, Lab, Verdict};
use container::Container;

const MEGABYTE: u64 = 1 << 20;

/// A part of the check alongside the lines.
struct Part {
    name: &'static str,
    /// Of the short form too.
    short: bool,
    run: fn(&Container<'_>) -> Result<Verdict>,
}

const PARTS: [Part; 6] = [
    Part { name: "agreement", short: true, run: agreement::run },
    Part { name: "blob", short: true, run: blob::run },
    Part { name: "connections", short: false, run: connections::run },
    Part { name: "refused", short: false, run: blob::refused },
    Part { name: "pressure", short: false, run: |container| pressure::run(container.lab) },
    Part { name: "tables", short: false, run: |container| tables::run(container.lab) },
];

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let is_wanted = |name: &str| lab.part.is_none_or(|part| name.contains(part));
    let mut verdict = Verdict::default();
    let mut told = Vec::new();
    let container = Container::make(lab)?;
    if let Some(why) = container.missing() {
        let text = format!("NO LIMIT: {why}; servers run without one, and only sizes and progress count");
        progress(Check::Memory, &text);
        told.push(text);
    }
    let engines = if lab.engines.is_empty() { &[Engine::TidesDb][..] } else { lab.engines };
    let plain = lines::without_engine(&container)?;
    for line in lines::LINES.iter().filter(|line| line.short == lab.short && is_wanted(line.name)) {
        for &engine in engines {
            let one = lines::run(&container, line, engine, plain)?;
            take(&mut verdict, &mut told, one);
        }
    }
    for part in PARTS.iter().filter(|part| (part.short || !lab.short) && is_wanted(part.name)) {
        let one = (part.run)(&container)?;
        take(&mut verdict, &mut told, one);
    }
    verdict.summary = told.join("; ");
    Ok(verdict)
}

fn take(verdict: &mut Verdict, told: &mut Vec<String>, one: Verdict) {
    progress(Check::Memory, &one.summary);
    for complaint in &one.complaints {
        progress(Check::Memory, &format!("WRONG: {complaint}"));
    }
    told.push(one.summary);
    verdict.complaints.extend(one.complaints);
}
