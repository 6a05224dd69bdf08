//! Servers at equal memory: each in a memory group from its first page on, on the steady disk, throttled.
//!
//! A machine without one of these gives the rest, and a note of the run names the effect on the figures.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use tidelab_server::disk::probe::{fell, over_time, verify, Finding};
use tidelab_server::disk::throttle::{Throttle, STEADY};
use tidelab_server::disk::{Had, SteadyDisk};
use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::group::MemoryGroup;
use tidelab_server::server::settings::{self, ruled, Setting, COMPARISON};

use crate::run::{Paths, Run};

/// The rules on top of [`COMPARISON`] within a limit: runs keep and show this file.
pub const RULES: &str = include_str!("../../../tidelab-server/configs/equal-memory.toml");

/// The files of the rules of [`within_a_limit`], by name.
pub fn rules() -> Vec<(String, String)> {
    let files = [("comparison.toml", COMPARISON), ("equal-memory.toml", RULES)];
    files.map(|(name, text)| (name.to_string(), text.to_string())).to_vec()
}

/// The least limit for the start of a server, in megabytes.
const LEAST_MB: u64 = 256;
/// Seconds of watching a disk other than the steady one: a burst ends sooner.
const WATCHED_S: f64 = 30.0;
/// The same for the steady disk, without a burst to find.
const STEADY_WATCHED_S: f64 = 5.0;

/// The sizes reduced by TidesDB within its bound.
const REDUCED: [&str; 2] = ["tidesdb_block_cache_size", "tidesdb_unified_memtable_write_buffer_size"];

/// The settings of a server within a limit, with a cache of so many megabytes or, for an engine that
/// [`sizes_itself`], with no size. TidesDB's own bound is its default, derived from the limit. It may reduce its
/// cache and memtable to fit; the run keeps the actual sizes.
pub fn within_a_limit(engine: Engine, cache_mb: Option<u64>, connections: u32) -> Vec<Setting> {
    let mut all = ruled(&[COMPARISON, RULES], &[engine], cache_mb.unwrap_or_default(), connections);
    let is_set = |setting: &Setting| cache_mb.is_some() || !REDUCED.contains(&setting.name.as_ref());
    all.retain(|setting| setting.name != "tidesdb_max_memory_usage" && is_set(setting));
    for setting in all.iter_mut().filter(|setting| REDUCED.contains(&setting.name.as_ref())) {
        setting.exact = false;
    }
    all
}

/// True of an engine that chooses its sizes by the limit where none is set.
pub fn sizes_itself(engine: Engine) -> bool {
    engine == Engine::TidesDb
}

/// The limits and the disk for an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Limits in megabytes; empty: none.
    pub limits_mb: Vec<u64>,
    /// The steady disk in megabytes; none: the data directory's own disk.
    pub disk_mb: Option<u64>,
}

impl Wants {
    /// Nothing at all.
    pub fn nothing(&self) -> bool {
        self.limits_mb.is_empty() && self.disk_mb.is_none()
    }

    /// Errors name the senseless option.
    pub fn check(&self, name: &str) -> Result<()> {
        let wrong = |what: String| Err(Error::Usage(format!("{name}: {what}")));
        if let Some(limit) = self.limits_mb.iter().find(|limit| **limit < LEAST_MB) {
            return wrong(format!(
                "memory_limits_mb: no server starts in {limit} MB; the least is {LEAST_MB}"
            ));
        }
        match self.disk_mb {
            Some(size) if size < LEAST_MB => {
                wrong(format!("steady_disk_mb: {size} MB hold no server; the least is {LEAST_MB}"))
            }
            _ => Ok(()),
        }
    }
}

/// The place of the servers: made before the first one, undone when it is dropped.
#[derive(Debug)]
pub struct Confined {
    // In this order they go: the limits of the device, the group, the disk.
    throttle: Option<Throttle>,
    group: Option<MemoryGroup>,
    disk: Option<SteadyDisk>,
}

impl Confined {
    /// Makes the wanted limits and disk and probes them. The run gets a note of each finding and of each
    /// missing part.
    pub fn make(wants: &Wants, paths: Paths<'_>, run: &mut Run) -> Result<Confined> {
        let mut confined = Confined { throttle: None, group: None, disk: None };
        let name = group_name(paths);
        if !wants.limits_mb.is_empty() {
            match MemoryGroup::open(&name) {
                Ok(group) => confined.group = Some(group),
                Err(why) => run.note(format!(
                    "no memory group here ({why}): caches are those for the limits, and nothing else is limited. \
                     Hidden: memory beyond the caches, and the page cache of the whole machine, which serves \
                     engines that read through it and not InnoDB"
                )),
            }
        }
        if let Some(disk_mb) = wants.disk_mb {
            let beside = wants.limits_mb.iter().max().copied().unwrap_or(1024) << 20;
            match SteadyDisk::make(&paths.data.join("steady"), disk_mb << 20, beside)? {
                Ok(disk) => confined.throttle(disk, &name, paths, run)?,
                Err(why) => run.note(format!(
                    "no steady disk here ({why}): figures are of the machine's own disk, whose speed nobody vouches \
                     for. Hidden: whatever its speed hides"
                )),
            }
        }
        if confined.disk.is_none() {
            eprintln!("watching the machine's disk for {WATCHED_S} s");
            let watched = over_time(paths.data, WATCHED_S, paths.interrupt)?;
            run.note(watched_note("the machine's disk", &watched));
        }
        Ok(confined)
    }

    /// Takes a disk, throttles it and verifies the throttle.
    fn throttle(&mut self, disk: SteadyDisk, name: &str, paths: Paths<'_>, run: &mut Run) -> Result<()> {
        let folder = disk.path();
        let unified = self.group.as_ref().and_then(MemoryGroup::unified);
        let opened = Throttle::open(name, disk.device(), unified);
        self.disk = Some(disk);
        let limits = STEADY;
        match opened {
            Ok(throttle) => {
                eprintln!("probing the steady disk (half a minute)");
                let mut groups = self.groups();
                groups.extend(throttle.procs());
                let found = verify(&folder, &throttle, &groups, limits, paths.interrupt)?;
                for note in throttle_notes(throttle.name(), &found) {
                    run.note(note);
                }
                self.throttle = Some(throttle);
            }
            Err(why) => run.note(format!(
                "the steady disk is not throttled ({why}): it is as fast as memory. Hidden: what an engine's reads and \
                 writes cost on a disk"
            )),
        }
        let watched = over_time(&folder, STEADY_WATCHED_S, paths.interrupt)?;
        run.note(watched_note("the steady disk", &watched));
        Ok(())
    }

    /// The groups for a server to join.
    pub fn groups(&self) -> Vec<PathBuf> {
        let memory = self.group.as_ref().map(MemoryGroup::procs);
        memory.into_iter().chain(self.throttle.as_ref().and_then(Throttle::procs)).collect()
    }

    /// The directory of the servers: on the steady disk where there is one.
    pub fn data(&self, paths: Paths<'_>) -> PathBuf {
        self.disk.as_ref().map_or_else(|| paths.data.to_path_buf(), SteadyDisk::path)
    }

    /// Before a server starts: its limit, and no page of the disk to be charged to it.
    pub fn ready(&self, limit_mb: Option<u64>) -> Result<()> {
        if let Some(disk) = &self.disk {
            disk.fill()?;
        }
        let limited = self.group.as_ref().map_or(Ok(()), |group| group.limit(limit_mb.map(|mb| mb << 20)));
        limited.map_err(|message| Error::Load { what: "the limit of a memory group".to_string(), message })
    }

    /// Kills by the kernel in the group so far.
    pub fn kills(&self) -> u64 {
        self.group.as_ref().map_or(0, MemoryGroup::kills)
    }
}

/// A name of its own for each directory of servers.
fn group_name(paths: Paths<'_>) -> String {
    let mut hasher = DefaultHasher::new();
    paths.data.hash(&mut hasher);
    format!("tidelab-{:016x}", hasher.finish())
}

/// The probe's findings as notes: all together, and a sentence of its own for each hole.
fn throttle_notes(mechanism: &str, found: &Had<Vec<Finding>>) -> Vec<String> {
    let findings = match found {
        Ok(findings) => findings,
        Err(why) => return vec![format!("the throttle of the steady disk is NOT verified: {why}")],
    };
    let all: Vec<String> = findings.iter().map(Finding::to_string).collect();
    let mut notes = vec![format!("steady disk, throttled by {mechanism}, probed: {}", all.join("; "))];
    notes.extend(findings.iter().filter(|finding| !finding.is_throttled()).map(|finding| {
        format!(
            "the steady disk does not throttle {}: figures that rest on them are too good",
            finding.access
        )
    }));
    notes
}

fn watched_note(disk: &str, watched: &Had<Vec<f64>>) -> String {
    let rates = match watched {
        Ok(rates) => rates,
        Err(why) => return format!("{disk} could not be watched: {why}"),
    };
    let mb = |rate: f64| rate / 1e6;
    match fell(rates) {
        Some((first, last)) => format!(
            "{disk} is throttled after a burst: direct writes fell from {:.0} to {:.0} MB/s while it was watched; \
             figures taken on it mean nothing",
            mb(first),
            mb(last)
        ),
        None => {
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            let most = rates.iter().copied().fold(0.0, f64::max);
            format!("{disk} kept its speed while it was watched: direct writes of {:.0} to {:.0} MB/s", mb(least), mb(most))
        }
    }
}

/// The connections of a server for so many clients.
pub fn connections(clients: u32) -> u32 {
    clients + 20
}

/// The settings of the sysbench kind within a limit, with TidesDB's memtable as the rules have it.
pub fn settings_for(engine: Engine, cache_mb: u64, clients: u32, is_limited: bool) -> Vec<Setting> {
    if is_limited {
        within_a_limit(engine, Some(cache_mb), connections(clients))
    } else {
        settings::comparison(&[engine], cache_mb, connections(clients))
    }
}

#[cfg(test)]
mod tests {
    use tidelab_server::disk::probe::Access;

    use super::*;

    #[test]
    fn settings_within_a_limit_bound_memtables_and_not_the_engine() {
        let value =
            |all: &[Setting], name: &str| all.iter().find(|s| s.name == name).map(|s| s.value.clone());
        for engine in Engine::ALL {
            let all = within_a_limit(engine, Some(192), 40);
            let pool = value(&all, "innodb_buffer_pool_size");
            let own = if engine == Engine::InnoDb { "192M" } else { "16M" };
            assert_eq!(pool.as_deref().and_then(settings::bytes), settings::bytes(own), "{engine}");
            assert_eq!(value(&all, "tidesdb_max_memory_usage"), None);
            let mut names: Vec<&str> = all.iter().map(|s| s.name.as_ref()).collect();
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count);
        }
        let tides = within_a_limit(Engine::TidesDb, Some(192), 40);
        assert_eq!(value(&tides, "tidesdb_unified_memtable_write_buffer_size").as_deref(), Some("64M"));
        let free = within_a_limit(Engine::TidesDb, None, 40);
        assert!(REDUCED.iter().all(|name| value(&free, name).is_none()));
        assert_eq!(value(&free, "tidesdb_unified_memtable_sync_mode").as_deref(), Some("NONE"));
        assert_eq!(free.len() + REDUCED.len(), tides.len(), "nothing else differs");
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let said = |limits: &[u64], disk| {
            Wants { limits_mb: limits.to_vec(), disk_mb: disk }.check("t").map_err(|e| e.to_string())
        };
        assert!(said(&[512, 1024], Some(4096)).is_ok());
        assert!(said(&[512, 5], None).unwrap_err().contains("memory_limits_mb: no server starts in 5 MB"));
        assert!(said(&[], Some(8)).unwrap_err().contains("steady_disk_mb"));
    }

    #[test]
    fn holes_and_bursts_are_sentences_of_the_report() {
        let limits = STEADY;
        let good = Finding { access: Access::DirectReads, at_a_tenth: 2e3, at_the_limit: 2e4, limits };
        let hole = Finding { access: Access::Writeback, at_a_tenth: 9e8, at_the_limit: 9e8, limits };
        assert_eq!(throttle_notes("x", &Ok(vec![good])).len(), 1);
        let notes = throttle_notes("x", &Ok(vec![good, hole]));
        assert!(notes[1].contains("does not throttle the kernel's own writeback"), "{notes:?}");
        assert!(throttle_notes("x", &Err("y".into()))[0].contains("NOT verified: y"));
        let fell = [9e8, 9e8, 9e8, 9e8, 1e8, 1e8, 1e8, 1e8];
        assert!(watched_note("d", &Ok(fell.to_vec())).contains("mean nothing"));
        assert!(watched_note("d", &Ok(vec![9e8; 8])).contains("kept its speed"));
    }
}
