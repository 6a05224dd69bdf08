//! The engine's memory in use stays within `tidesdb_max_memory_usage` under any load.
//!
//! Clients read more than the cache holds, write more than is flushed, change more in transactions than
//! memory takes, and keep snapshots and locks. The server's memory grows by more, because its own memory and
//! the allocator's reserve come on top. It must level off.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidelab_server::error::Result;
use tidelab_server::server::settings::{self, setting, Setting};
use tidelab_server::server::Server;
use tidelab_server::telemetry::process::process_use;

use super::super::session::{Failure, Session};
use super::super::{conclude, connect, set_up, Lab, Verdict};
use super::MEGABYTE;

/// The bound, and the shares of the cache and of each of two write buffers.
const BOUND: u64 = 128 * MEGABYTE;
const CACHE: u64 = 48 * MEGABYTE;
const BUFFER: u64 = 24 * MEGABYTE;
/// The permitted growth of anonymous memory, with that of the server for 16 clients. Measured on two cores
/// after 12 seconds: 169 MB, 121 of it counted by the engine.
const GROWTH: u64 = 2 * BOUND;
/// Clients of each kind.
const CLIENTS: u32 = 4;
/// Rows of each table, and bytes of each.
const ROWS: u32 = 60_000;
const ROW: u32 = 1000;

/// Runs the check.
pub(super) fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let seconds = lab.seconds.unwrap_or(if lab.short { 5 } else { 30 });
    let mut complaints = Vec::new();
    let settings = settings();
    let mut server = lab.start(&settings)?;
    load(&server)?;
    // From files, with nothing of the load in memory.
    server.shut_down()?;
    server.restart(&settings, lab.interrupt)?;
    let mut session = connect(&server)?;
    let before = process_use(server.pid()).anonymous_bytes;
    let stop = AtomicBool::new(false);
    let (most, pressure) = (AtomicU64::new(0), AtomicU64::new(0));
    let kinds = ["reads", "writes", "large", "locks"];
    let done = kinds.map(|_| AtomicU64::new(0));
    let mut engine = 0;
    let mut status =
        |name| session.status(name).ok().and_then(|value| u64::try_from(value).ok()).unwrap_or(0);
    let failures: Vec<String> = thread::scope(|scope| {
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            for (kind, done) in kinds.iter().zip(&done) {
                let (socket, stop) = (server.socket(), &stop);
                clients.push(scope.spawn(move || {
                    let failure = client(socket, kind, number, stop, done).err();
                    failure.map(|failure| format!("{kind}: {failure}"))
                }));
            }
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(seconds) && lab.interrupt.check().is_ok() {
            thread::sleep(Duration::from_millis(50));
            let anonymous = process_use(server.pid()).anonymous_bytes;
            if most.fetch_max(anonymous, Ordering::Relaxed) < anonymous {
                engine = status("tidesdb_memory_total");
            }
            pressure.fetch_max(status("tidesdb_memory_pressure"), Ordering::Relaxed);
        }
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().filter_map(|client| client.join().expect("a client does not panic")).collect()
    });
    lab.interrupt.check()?;
    complaints.extend(failures);
    for (kind, done) in kinds.iter().zip(&done) {
        if done.load(Ordering::Relaxed) == 0 {
            complaints.push(format!("no transaction of {kind} under the bound"));
        }
    }
    let grown = most.into_inner().saturating_sub(before);
    let percent = pressure.into_inner();
    let counts: Vec<String> = kinds
        .iter()
        .zip(&done)
        .map(|(kind, done)| format!("{} {kind}", done.load(Ordering::Relaxed)))
        .collect();
    let growth = format!(
        "{} MB of growth under a bound of {} MB (the engine counts {})",
        grown / MEGABYTE,
        BOUND / MEGABYTE,
        engine / MEGABYTE
    );
    let summary = format!("{}, {growth}, pressure {percent} %", counts.join(", "));
    if grown >= GROWTH {
        complaints.push(growth);
    }
    if percent > 100 {
        complaints.push(format!("the engine took {percent} % of the bound"));
    }
    conclude(server, summary, complaints)
}

/// The checks' settings, with the sizes of this one, and without syncs.
fn settings() -> Vec<Setting> {
    let mut settings = settings::checks(false);
    let sizes = [
        ("tidesdb_block_cache_size", CACHE),
        ("tidesdb_unified_memtable_write_buffer_size", BUFFER),
        ("tidesdb_max_memory_usage", BOUND),
    ];
    settings.retain(|known| sizes.iter().all(|(name, _)| known.name != *name));
    settings.extend(sizes.map(|(name, bytes)| setting(name, bytes.to_string())));
    settings.retain(|known| !known.name.ends_with("sync_mode"));
    settings.push(setting("tidesdb_unified_memtable_sync_mode", "NONE"));
    settings.push(setting("tidesdb_default_sync_mode", "NONE"));
    settings
}

/// Makes a table for each number of a client.
fn load(server: &Server) -> Result<()> {
    let mut session = connect(server)?;
    set_up(&mut session, &["CREATE DATABASE bound", "USE bound"])?;
    for number in 0..CLIENTS {
        let pad = format!("CONCAT(seq, REPEAT(MD5(seq), {}))", ROW / 32);
        set_up(
            &mut session,
            &[
                &format!("CREATE TABLE t{number} (a INT PRIMARY KEY, b INT NOT NULL, pad TEXT CHARACTER SET latin1, KEY (b)) ENGINE=TidesDB COMPRESSION='NONE'"),
                &format!("INSERT INTO t{number} SELECT seq, seq % 1000, {pad} FROM seq_1_to_{ROWS}"),
            ],
        )?;
    }
    Ok(())
}

/// Transactions of one kind until the end.
fn client(
    socket: &Path,
    kind: &str,
    number: u32,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> std::result::Result<(), Failure> {
    let mut session = Session::open(socket)?;
    session.run("USE bound")?;
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let (table, other) = (format!("t{number}"), format!("t{}", (number + turn) % CLIENTS));
        let at = turn * 7919 % ROWS;
        let statements = match kind {
            "reads" => vec![format!("SELECT SUM(LENGTH(pad)), MAX(b) FROM {other} WHERE a > {at}")],
            "writes" => vec![format!(
                "UPDATE {table} SET pad = CONCAT('w', pad) WHERE a BETWEEN {at} AND {}",
                at + 100
            )],
            "large" => vec![
                "BEGIN".to_string(),
                format!("UPDATE {table} SET b = b + 1, pad = CONCAT(LEFT(pad, {ROW}), 'l')"),
                if turn % 2 == 0 { "COMMIT" } else { "ROLLBACK" }.to_string(),
            ],
            _ => vec![
                "START TRANSACTION WITH CONSISTENT SNAPSHOT".to_string(),
                format!("SELECT COUNT(*) FROM {other}"),
                format!("SELECT COUNT(*) FROM {table} WHERE a % 2 = 0 FOR UPDATE"),
                "DO SLEEP(0.5)".to_string(),
                "ROLLBACK".to_string(),
            ],
        };
        let refused =
            |failure: &Failure| failure.is_conflict() || matches!(failure, Failure::Sql { code: 1206, .. });
        let mut run = || statements.iter().try_for_each(|statement| session.run(statement).map(drop));
        match run() {
            Ok(()) => {
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(failure) if refused(&failure) => {
                session.run("ROLLBACK")?;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}
