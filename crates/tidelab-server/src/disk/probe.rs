//! Measures a disk from within a server's groups, before figures count: whether each kind of access keeps to
//! the throttle, whether it reaches it, whether the speed stays the same.
//!
//! The throttle is verified at a tenth of its limits, for every machine outruns these. At the limits
//! themselves a machine may be slower, and the finding says so.

use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::throttle::{Limits, Throttle};
use super::Had;
use crate::error::Result;
use crate::interrupt::Interrupt;
use crate::server::group::joined;

/// The probe's file on the disk.
const FILE: &str = "tidelab-probe";
/// Seconds of an access at its limit.
const SECONDS: f64 = 1.5;
/// A working throttle lets through this much at most: it counts in slices of a tenth of a second, and lets
/// some requests through at its beginning.
const TOLERANCE: f64 = 1.3;
/// Below this share of its limit an access does not reach it.
const REACHES: f64 = 0.7;
/// A disk whose last rates are below this share of its first ones was in a burst.
const STEADY: f64 = 0.6;
/// Rates left out when a disk is watched.
const UNCOUNTED: u32 = 2;
/// Readers at once: one alone waits for each answer.
const READERS: u64 = 4;
const SMALL: u64 = 4 << 10;
const LARGE: u64 = 1 << 20;

/// A kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads of 4 KB past the page cache.
    DirectReads,
    /// Reads through the page cache, without the file in it.
    BufferedReads,
    /// Writes of 4 KB, each synchronous.
    SmallWrites,
    /// Writes into the page cache, and one fsync.
    BufferedWrites,
    /// Writes into the page cache, written back by the kernel itself.
    Writeback,
}

impl Access {
    /// All.
    pub const ALL: [Access; 5] = [
        Access::DirectReads,
        Access::BufferedReads,
        Access::SmallWrites,
        Access::BufferedWrites,
        Access::Writeback,
    ];

    /// True if requests bound it, not bytes.
    fn by_requests(self) -> bool {
        matches!(self, Access::DirectReads | Access::SmallWrites)
    }

    fn block(self) -> u64 {
        if self.by_requests() {
            SMALL
        } else {
            LARGE
        }
    }

    /// The limit in its unit: requests or bytes a second.
    fn limit(self, limits: Limits) -> f64 {
        if self.by_requests() {
            limits.iops as f64
        } else {
            limits.bytes_per_s as f64
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Access::DirectReads => "direct reads of 4 KB",
            Access::BufferedReads => "buffered reads",
            Access::SmallWrites => "synchronous writes of 4 KB",
            Access::BufferedWrites => "buffered writes with fsync",
            Access::Writeback => "the kernel's own writeback",
        })
    }
}

/// The measurement of one access, in requests or bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// The access.
    pub access: Access,
    /// Its rate with a tenth of the limits.
    pub at_a_tenth: f64,
    /// Its rate with the limits.
    pub at_the_limit: f64,
    /// The limits.
    pub limits: Limits,
}

impl Finding {
    /// The throttle holds this access.
    pub fn is_throttled(&self) -> bool {
        self.at_a_tenth <= self.access.limit(self.limits.tenth()) * TOLERANCE
            && self.at_the_limit <= self.access.limit(self.limits) * TOLERANCE
    }

    /// The access is as fast as the limit lets it be.
    pub fn reaches_the_limit(&self) -> bool {
        self.at_the_limit >= self.access.limit(self.limits) * REACHES
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = if self.access.by_requests() { (1.0, "requests/s") } else { (1e6, "MB/s") };
        let verdict = match (self.is_throttled(), self.reaches_the_limit()) {
            (false, _) => "NOT throttled",
            (true, true) => "throttled",
            (true, false) => "throttled, slower than the limit on this machine",
        };
        write!(
            f,
            "{}: {:.0} of {:.0} {unit} ({:.0} of {:.0} at a tenth): {verdict}",
            self.access,
            self.at_the_limit / scale,
            self.access.limit(self.limits) / scale,
            self.at_a_tenth / scale,
            self.access.limit(self.limits.tenth()) / scale
        )
    }
}

/// Measures each access below a folder of the disk, in these groups. The throttle has the limits afterwards.
/// The inner error is why nothing could be measured.
pub fn verify(
    folder: &Path,
    throttle: &Throttle,
    groups: &[PathBuf],
    limits: Limits,
    interrupt: &Interrupt,
) -> Result<Had<Vec<Finding>>> {
    Probe { file: folder.join(FILE), groups, interrupt, seconds: SECONDS }.verify(throttle, limits)
}

/// The rates of direct writes over a while, in bytes a second, one each half second or so. The first
/// [`UNCOUNTED`] are left out: a throttle gives credit for the time before, and their size is a guess.
pub fn over_time(folder: &Path, seconds: f64, interrupt: &Interrupt) -> Result<Had<Vec<f64>>> {
    let probe = Probe { file: folder.join(FILE), groups: &[], interrupt, seconds };
    let start = Instant::now();
    let mut rates = Vec::new();
    // As many blocks at a time as took about half a second.
    let mut blocks = 64u64;
    let mut begun = 0;
    let mut failed = probe.make(256 * LARGE).err();
    while failed.is_none() && start.elapsed().as_secs_f64() < seconds {
        interrupt.check()?;
        begun += 1;
        let begin = Instant::now();
        let words = probe.write(blocks, &["oflag=direct", "conv=notrunc,fsync"]);
        match probe.all(vec![words]) {
            Ok(()) => {
                let took = begin.elapsed().as_secs_f64().max(1e-3);
                if begun > UNCOUNTED {
                    rates.push((blocks * LARGE) as f64 / took);
                }
                blocks = ((blocks as f64 * 0.5 / took) as u64).clamp(1, 256);
            }
            Err(why) => failed = Some(why),
        }
    }
    let _ = std::fs::remove_file(&probe.file);
    Ok(failed.map_or(Ok(rates), Err))
}

/// The rates at the begin and at the end, where a disk became much slower meanwhile: medians of a quarter of
/// the measured rates each.
pub fn fell(rates: &[f64]) -> Option<(f64, f64)> {
    let quarter = rates.len() / 4;
    if quarter == 0 {
        return None;
    }
    let median = |part: &[f64]| {
        let mut sorted = part.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let (first, last) = (median(&rates[..quarter]), median(&rates[rates.len() - quarter..]));
    (last < first * STEADY).then_some((first, last))
}

struct Probe<'a> {
    file: PathBuf,
    groups: &'a [PathBuf],
    interrupt: &'a Interrupt,
    /// Seconds of an access at its limit.
    seconds: f64,
}

impl Probe<'_> {
    /// See [`verify`].
    fn verify(&self, throttle: &Throttle, limits: Limits) -> Result<Had<Vec<Finding>>> {
        let most = (limits.bytes_per_s as f64 * self.seconds) as u64;
        let made = throttle.set(None).and_then(|()| self.make(most));
        let mut findings = Vec::new();
        let mut failed = made.err();
        for access in Access::ALL {
            let rate = |limits: Limits| -> Had<f64> {
                throttle.set(Some(limits))?;
                self.rate(access, limits)
            };
            if failed.is_some() {
                break;
            }
            self.interrupt.check()?;
            match rate(limits.tenth()).and_then(|tenth| Ok((tenth, rate(limits)?))) {
                Ok((at_a_tenth, at_the_limit)) => {
                    findings.push(Finding { access, at_a_tenth, at_the_limit, limits });
                }
                Err(why) => failed = Some(format!("{access}: {why}")),
            }
        }
        let _ = std::fs::remove_file(&self.file);
        let failed = failed.or(throttle.set(Some(limits)).err());
        Ok(failed.map_or(Ok(findings), Err))
    }

    /// Makes the file, written to the device and out of the page cache.
    fn make(&self, bytes: u64) -> Had<()> {
        let words = self.write(bytes.div_ceil(LARGE), &["conv=fsync"]);
        self.all(vec![words]).and_then(|()| self.forget())
    }

    /// Takes the file out of the page cache.
    fn forget(&self) -> Had<()> {
        self.all(vec![self.write(0, &["oflag=nocache", "conv=notrunc,fdatasync"])])
    }

    /// Writes so many large blocks from the file's begin.
    fn write(&self, blocks: u64, more: &[&str]) -> Vec<String> {
        let words = [format!("of={}", self.file.display()), format!("bs={LARGE}"), format!("count={blocks}")];
        let from = "if=/dev/zero".to_string();
        std::iter::once(from).chain(words).chain(more.iter().map(|w| w.to_string())).collect()
    }

    fn read(&self, block: u64, skip: u64, count: u64, more: &[&str]) -> Vec<String> {
        [
            format!("if={}", self.file.display()),
            "of=/dev/null".to_string(),
            format!("bs={block}"),
            format!("skip={skip}"),
            format!("count={count}"),
        ]
        .into_iter()
        .chain(more.iter().map(|w| w.to_string()))
        .collect()
    }

    /// The rate of an access, in requests or bytes a second.
    fn rate(&self, access: Access, limits: Limits) -> Had<f64> {
        let requests = access.limit(limits) * self.seconds;
        let blocks = if access.by_requests() { requests } else { requests / LARGE as f64 }.max(1.0) as u64;
        self.forget()?;
        let block = access.block();
        let start = Instant::now();
        match access {
            Access::DirectReads => {
                let each = blocks / READERS;
                let one = |n: u64| self.read(block, n * each, each, &["iflag=direct"]);
                self.all((0..READERS).map(one).collect())?;
            }
            Access::BufferedReads => self.all(vec![self.read(block, 0, blocks, &[])])?,
            Access::SmallWrites => {
                let mut words = self.write(blocks, &["oflag=dsync", "conv=notrunc"]);
                words[2] = format!("bs={block}");
                self.all(vec![words])?;
            }
            Access::BufferedWrites => self.all(vec![self.write(blocks, &["conv=notrunc,fsync"])])?,
            Access::Writeback => {
                self.all(vec![self.write(blocks, &["conv=notrunc"])])?;
                // It asks the kernel's flusher, and waits for it.
                self.call("sync", &["-f".to_string(), self.file.display().to_string()])
                    .and_then(|child| self.end("sync", child))?;
            }
        }
        let units = if access.by_requests() { blocks } else { blocks * block };
        Ok(units as f64 / start.elapsed().as_secs_f64().max(1e-3))
    }

    /// Runs some `dd` at once.
    fn all(&self, commands: Vec<Vec<String>>) -> Had<()> {
        let children: Vec<Had<Child>> = commands.iter().map(|words| self.call("dd", words)).collect();
        let ended: Vec<Had<()>> =
            children.into_iter().map(|child| child.and_then(|child| self.end("dd", child))).collect();
        ended.into_iter().collect()
    }

    fn call(&self, program: &str, words: &[String]) -> Had<Child> {
        joined(self.groups, Path::new(program))
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C asks the laboratory, which ends it.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{program}: {error}"))
    }

    fn end(&self, program: &str, mut child: Child) -> Had<()> {
        loop {
            match child.try_wait() {
                Ok(Some(_)) => break,
                Ok(None) if self.interrupt.check().is_ok() => std::thread::sleep(Duration::from_millis(2)),
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err("interrupted".to_string());
                }
            }
        }
        let output = child.wait_with_output().map_err(|error| format!("{program}: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::SteadyDisk;
    use super::*;

    const LIMITS: Limits = Limits { iops: 20_000, bytes_per_s: 400_000_000 };

    #[test]
    fn a_throttle_that_lets_more_through_is_named() {
        for (access, at_a_tenth, at_the_limit, throttled, reaches) in [
            (Access::DirectReads, 2000.0, 20_000.0, true, true),
            (Access::DirectReads, 2100.0, 9_000.0, true, false),
            (Access::DirectReads, 9000.0, 9_000.0, false, false),
            (Access::BufferedWrites, 41e6, 390e6, true, true),
            (Access::Writeback, 1.2e9, 1.2e9, false, true),
        ] {
            let finding = Finding { access, at_a_tenth, at_the_limit, limits: LIMITS };
            assert_eq!(
                (finding.is_throttled(), finding.reaches_the_limit()),
                (throttled, reaches),
                "{finding}"
            );
            assert_eq!(finding.to_string().contains("NOT throttled"), !throttled);
        }
    }

    #[test]
    fn a_burst_that_ends_is_seen_and_noise_is_not() {
        assert_eq!(fell(&[900.0, 910.0, 890.0, 900.0, 880.0, 100.0, 95.0, 105.0]), Some((910.0, 105.0)));
        assert_eq!(fell(&[900.0, 400.0, 950.0, 910.0, 880.0, 300.0, 905.0, 895.0]), None);
        assert_eq!(fell(&[900.0, 100.0]), None);
    }

    #[test]
    #[ignore = "mounts, loop devices, control groups: as root, `cargo test -p tidelab-server disk -- --ignored`"]
    fn a_steady_disk_is_throttled_for_a_group_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let disk = match SteadyDisk::make(folder.path(), 96 << 20, 0).unwrap() {
            Ok(disk) => disk,
            Err(why) => return eprintln!("not here: {why}"),
        };
        let name = format!("tidelab-test-{}", std::process::id());
        let Ok(throttle) = Throttle::open(&name, disk.device(), None) else { return };
        let groups: Vec<PathBuf> = throttle.procs().into_iter().collect();
        let limits = Limits { iops: 2_000, bytes_per_s: 30_000_000 };
        let interrupt = Interrupt::default();
        let probe =
            Probe { file: disk.path().join(FILE), groups: &groups, interrupt: &interrupt, seconds: 0.5 };
        let findings = probe.verify(&throttle, limits).unwrap().unwrap();
        assert_eq!(findings.len(), Access::ALL.len());
        for finding in findings {
            // In so short a time the throttle's first slice counts much; a disk without it is ten times as fast.
            assert!(finding.at_a_tenth <= finding.access.limit(limits.tenth()) * 2.0, "{finding}");
        }
    }
}
