//! The lines of the table: a limit, sizes, a load; and the conditions of each.

use std::sync::atomic::AtomicU32;

use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings::{hint, setting, Setting};
use tidelab_server::server::Server;
use tidelab_server::telemetry::process::process_use;

use super::super::{connect, must, Verdict};
use super::container::Container;
use super::loads::{self, Scene, Work};
use super::slow::SlowDisk;
use super::{watch, MEGABYTE};

/// Major faults a second over ten seconds; each reads a stretch of the program, and reads of a load are none.
///
/// Measured on 2026-11-24 in 512 MB with 192 + 64: 15 and 23 of two plugins that filled the container to 462
/// and 480 MB without a file, 3 of one with at most 378 MB. In 350 MB this one had 6.
const FAULTS: f64 = 10.0;

/// Resident bytes beyond cache, write buffers and the server without the engine. Of a cache that grows: beyond the engine's
/// bound and that server.
///
/// Measured on 2026-11-25: 50 MB and less, 45 MB on the slow disk. InnoDB's pool has 52 MB beyond it under the same load.
const BEYOND: i64 = 60 * MEGABYTE as i64;

/// A server alone in a container.
#[derive(Debug)]
pub(super) struct Line {
    /// Its name in figures and complaints.
    pub name: &'static str,
    /// Of the short form, else of the long one.
    pub short: bool,
    /// The container's limit, in MB.
    pub limit: u64,
    /// Cache and one of two write buffers, in MB; none: no option is set.
    pub sizes: Option<(u64, u64)>,
    /// InnoDB's pool at the same limit, in MB.
    pub pool: u64,
    /// The load.
    pub work: Work,
    /// True with a slow disk.
    pub slow_disk: bool,
    /// The least statements a second of every stretch of the load.
    pub floor: f64,
}

const LONG: Line = Line {
    name: "",
    short: false,
    limit: 768,
    sizes: None,
    pool: 560,
    work: Work::Sysbench { rows: 2_500_000 },
    slow_disk: false,
    floor: 50.0,
};
const SMALL: Line = Line { limit: 512, pool: 352, work: Work::RandomThenLarge, floor: 10.0, ..LONG };
const SMALLEST: Line =
    Line { sizes: Some((128, 32)), pool: 160, work: Work::LargeThenIndexes, floor: 10.0, ..LONG };
const SHORT: Line = Line { short: true, floor: 5.0, ..SMALL };

/// All lines. A name has the cache and both write buffers, in MB.
pub(super) const LINES: [Line; 14] = [
    Line { name: "sysbench, 384 + 128", sizes: Some((384, 64)), ..LONG },
    Line { name: "sysbench, 256 + 128", sizes: Some((256, 64)), ..LONG },
    Line { name: "sysbench, no option", ..LONG },
    Line {
        name: "sysbench on a slow disk, 512 + 128",
        sizes: Some((512, 64)),
        slow_disk: true,
        floor: 10.0,
        ..LONG
    },
    Line {
        name: "start under merges, 384 + 128",
        sizes: Some((384, 64)),
        work: Work::StartUnderMerge,
        floor: 10.0,
        ..LONG
    },
    Line { name: "start under merges, no option", work: Work::StartUnderMerge, floor: 10.0, ..LONG },
    Line { name: "random keys, 16 KB values, 256 + 64", sizes: Some((256, 32)), ..SMALL },
    Line { name: "random keys, 16 KB values, no option", ..SMALL },
    Line {
        name: "UPDATE of 16 KB values, 192 + 64",
        sizes: Some((192, 32)),
        work: Work::UpdateLarge,
        ..SMALL
    },
    Line { name: "16 KB values, three indexes, 128 + 64 in 350", limit: 350, ..SMALLEST },
    Line { name: "16 KB values, three indexes, 128 + 64 in 380", limit: 380, ..SMALLEST },
    Line {
        name: "sysbench, no option, small",
        limit: 768,
        pool: 560,
        work: Work::Sysbench { rows: 100_000 },
        ..SHORT
    },
    Line { name: "random keys, 16 KB values, no option, small", ..SHORT },
    Line { name: "start under merges, no option, small", work: Work::StartUnderMerge, ..SHORT },
];

/// Settings of every server here. Durable commits would make a line as slow as the disk.
pub(super) fn settings(engine: Option<Engine>) -> Vec<Setting> {
    let mut all = vec![
        setting("max_connections", "151"),
        setting("max_allowed_packet", "1G"),
        setting("innodb_flush_log_at_trx_commit", "0"),
    ];
    if engine == Some(Engine::TidesDb) {
        all.push(setting("tidesdb_unified_memtable_sync_mode", "NONE"));
        all.push(setting("tidesdb_default_sync_mode", "NONE"));
    }
    all
}

/// Resident bytes of a server with InnoDB as its only engine, at its usual pool, after a few statements.
pub(super) fn without_engine(container: &Container<'_>) -> Result<u64> {
    let server = container.start(512, &[], &settings(None))?;
    let sessions = (0..8).map(|_| connect(&server)).collect::<Result<Vec<_>>>()?;
    for mut session in sessions {
        must("a look", session.run("SELECT COUNT(*) FROM information_schema.GLOBAL_VARIABLES"))?;
    }
    let resident = process_use(server.pid()).resident_bytes;
    server.stop(false)?;
    Ok(resident)
}

/// Runs a line; `plain` are the resident bytes of the server without the engine.
pub(super) fn run(container: &Container<'_>, line: &Line, engine: Engine, plain: u64) -> Result<Verdict> {
    let title = format!("{engine}, {}, {} MB", line.name, line.limit);
    let lab = container.lab;
    // Declared before the server, which ends before its disk goes.
    let slow = match line.slow_disk.then(|| SlowDisk::make(container, line.limit)).transpose()? {
        Some(Ok(disk)) => Some(disk),
        Some(Err(why)) => {
            return Ok(Verdict { summary: format!("{title}: LEFT OUT: {why}"), complaints: Vec::new() })
        }
        None => None,
    };
    let settings = sized(line, engine);
    let directory = slow.as_ref().map_or_else(|| lab.directory.clone(), SlowDisk::directory);
    let groups = slow.as_ref().map(SlowDisk::groups).unwrap_or_default();
    let kills_before = container.kills();
    let mut server = container.start_in(&directory, line.limit, &[engine], &settings, &groups)?;
    let configured = Configured::of(&server, engine, line)?;
    let pid = AtomicU32::new(server.pid());
    let seconds = lab.seconds.unwrap_or(if line.short { 6 } else { 60 });
    let scene = Scene { lab, engine, settings: &settings, seconds, pid: &pid, short: line.short };
    let (done, seen) = watch::during(&pid, || loads::run(&scene, &mut server, line.work));
    let kills = container.kills() - kills_before;
    let mut complaints = Vec::new();
    let mut rates = Vec::new();
    match done {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) if kills == 0 => complaints.push(format!("the load ended: {error}")),
        Err(_) => {}
        Ok(stretches) => {
            for stretch in stretches {
                rates.push(format!("{} {:.0}/s", stretch.name, stretch.per_s));
                if stretch.per_s < line.floor {
                    complaints.push(format!("{} makes {:.1} statements/s", stretch.name, stretch.per_s));
                }
            }
        }
    }
    if kills > 0 {
        complaints.push(format!("killed with {} MB anonymous", seen.anonymous / MEGABYTE));
    }
    // Without a limit other programs may be the cause.
    if seen.faults_per_s > FAULTS && container.missing().is_none() {
        complaints.push(format!("{:.0} major faults/s: pages of the program are evicted", seen.faults_per_s));
    }
    let beyond = seen.resident as i64 - (configured.bytes + plain) as i64;
    if beyond > BEYOND {
        complaints.push(format!("{} MB beyond what is configured", beyond / MEGABYTE as i64));
    }
    let summary = format!(
        "{title}: {} MB anonymous, {} MB resident, {:+} MB beyond {} and the server, {} major faults ({:.0}/s at most), {}",
        seen.anonymous / MEGABYTE,
        seen.resident / MEGABYTE,
        beyond / MEGABYTE as i64,
        configured.words,
        seen.faults,
        seen.faults_per_s,
        if rates.is_empty() { "no rate".to_string() } else { rates.join(", ") },
    );
    if kills > 0 {
        // A killed server cannot be ended in order; its files go with the next start.
        drop(server);
    } else {
        server.stop(!complaints.is_empty())?;
    }
    let complaints = complaints.into_iter().map(|complaint| format!("{title}: {complaint}")).collect();
    Ok(Verdict { summary, complaints })
}

/// The settings of a line's server.
fn sized(line: &Line, engine: Engine) -> Vec<Setting> {
    // The engine reduces sizes that a container has no room for.
    let wanted = |name: &'static str, megabytes: u64| hint(name, format!("{megabytes}M"));
    let mut settings = settings(Some(engine));
    match (engine, line.sizes) {
        (Engine::InnoDb, _) => settings.push(setting("innodb_buffer_pool_size", format!("{}M", line.pool))),
        (_, Some((cache, buffer))) => settings.extend([
            wanted("tidesdb_block_cache_size", cache),
            wanted("tidesdb_unified_memtable_write_buffer_size", buffer),
        ]),
        _ => {}
    }
    settings
}

/// The memory that a server may take for data.
struct Configured {
    bytes: u64,
    words: String,
}

impl Configured {
    /// Cache and two write buffers as the server has them; InnoDB's pool; the bound of a cache that grows.
    fn of(server: &Server, engine: Engine, line: &Line) -> Result<Configured> {
        let number = |name: &str| -> u64 {
            server.variables().get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
        };
        let (bytes, words) = match (engine, line.sizes) {
            (Engine::InnoDb, _) => {
                let pool = number("innodb_buffer_pool_size");
                (pool, format!("{}", pool / MEGABYTE))
            }
            (_, Some(_)) => {
                let cache = number("tidesdb_block_cache_size");
                let buffer = number("tidesdb_unified_memtable_write_buffer_size");
                (cache + 2 * buffer, format!("{} + 2 x {}", cache / MEGABYTE, buffer / MEGABYTE))
            }
            (_, None) => {
                let bound = must("the bound", connect(server)?.status("tidesdb_memory_limit"))?;
                let bound = u64::try_from(bound).unwrap_or(0);
                (bound, format!("a bound of {}", bound / MEGABYTE))
            }
        };
        Ok(Configured { bytes, words })
    }
}
