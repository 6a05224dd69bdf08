//! A recording of machine, device and server for each second of a measurement.
//!
//! Once a second a thread reads the kernel's counters, and the server's status where it has an address.
//! The recording becomes a [`Series`] alongside the load's own.
//!
//! Columns end with their unit. `_cpus` are CPU seconds in a second, `_per_s` counts events in a second,
//! `_bytes` and `_tasks` are amounts at its end. The column of a status counter is `status.NAME_per_s`, or
//! `status.NAME_now` for an amount. A value not read is NaN.
//!
//! The recording's own cost is in [`Recording::own_cpu_s`]. Reading `/proc` takes 0.1 to 0.4 ms each
//! second. All status counters of a server take about 1 ms more here, and as much there.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::stat::{major, minor};
use nix::unistd::{sysconf, SysconfVar};

use super::counters::{
    self, CpuTicks, DiskCounters, Memory, NetworkBytes, ProcessBytes, ProcessCounters, Tasks,
};
use super::status::{is_level, ServerStatus, StatusSource, CHOSEN};
use crate::error::{io_error, Result};
use crate::series::Series;
use crate::server::session::Address;

/// The name of a recording in the folder of a cell.
pub const FILE: &str = "telemetry.csv";
/// The interval of samples.
const INTERVAL: Duration = Duration::from_secs(1);
/// A shorter rest at the end is not worth a row.
const SHORTEST: Duration = Duration::from_millis(200);

/// A recording in progress. Dropping it ends it and throws its samples away.
pub struct Recorder {
    stop: Sender<()>,
    thread: Option<JoinHandle<Recording>>,
}

/// The finished recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// A row for each second.
    pub series: Series,
    /// CPU time of the recorder's thread for all of it, in seconds; 0 if the kernel does not count it.
    pub own_cpu_s: f64,
}

impl Recorder {
    /// Begins alongside a load on a server, with the [`CHOSEN`] counters over a connection of its own.
    /// `process` is the server's process, if known. Errors: as in `start`.
    pub fn of_server(process: Option<u32>, directory: &Path, address: &Address) -> Result<Recorder> {
        Recorder::start(process, directory, Some(Box::new(ServerStatus::of(address, CHOSEN))))
    }

    /// Begins: the first row is that of the current second. `server` is the process of the server,
    /// `directory` one on the device of interest. Errors: no thread can be made.
    pub fn start(
        server: Option<u32>,
        directory: &Path,
        mut status: Option<Box<dyn StatusSource>>,
    ) -> Result<Recorder> {
        let device = device_below(directory);
        let start = Instant::now();
        let first = Sample::take(server, device);
        let (stop, stopped) = channel::<()>();
        let thread = Builder::new()
            .name("telemetry".to_string())
            .spawn(move || {
                let mut log = Log { start, samples: vec![first], names: Vec::new(), status: Vec::new() };
                log.note_status(&mut status);
                let mut ticks = 1;
                loop {
                    let due = start + INTERVAL * ticks;
                    let wait = due.saturating_duration_since(Instant::now());
                    let over = !matches!(stopped.recv_timeout(wait), Err(RecvTimeoutError::Timeout));
                    let last = log.samples.last().map_or(start, |s| s.at);
                    if over && last.elapsed() < SHORTEST {
                        break;
                    }
                    log.samples.push(Sample::take(server, device));
                    log.note_status(&mut status);
                    if over {
                        break;
                    }
                    // A second that was slept through is not made up for.
                    ticks = ticks.max(u32::try_from(start.elapsed().as_secs()).unwrap_or(u32::MAX)) + 1;
                }
                let keep_constants = status.as_ref().is_some_and(|s| s.keeps_constants());
                Recording { series: log.series(keep_constants), own_cpu_s: own_cpu_s() }
            })
            .map_err(io_error("cannot make a thread for", "telemetry"))?;
        Ok(Recorder { stop, thread: Some(thread) })
    }

    /// Ends it. The rest of the last second becomes a row if it is 0.2 s or longer.
    pub fn stop(mut self) -> Recording {
        let _ = self.stop.send(());
        // A thread that panicked has nothing to say.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.stop.send(());
    }
}

/// CPU time of the calling thread so far.
fn own_cpu_s() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// The numbers of a directory's block device. None for a file system without a device, as one in memory or
/// over the network.
pub fn device_below(directory: &Path) -> Option<(u64, u64)> {
    let device = fs::metadata(directory).ok()?.dev();
    let numbers = (major(device), minor(device));
    let listed = |numbers: (u64, u64)| {
        let diskstats = fs::read_to_string("/proc/diskstats").unwrap_or_default();
        counters::disk(&diskstats, numbers.0, numbers.1).map(|_| numbers)
    };
    listed(numbers).or_else(|| {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let source = counters::mounted(&mounts, numbers.0, numbers.1)?;
        let device = fs::metadata(source).ok()?.rdev();
        listed((major(device), minor(device)))
    })
}

/// All counters at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    cpu: CpuTicks,
    tasks: Tasks,
    memory: Memory,
    network: NetworkBytes,
    disk: Option<DiskCounters>,
    server: Option<(ProcessCounters, ProcessBytes)>,
}

impl Sample {
    fn take(server: Option<u32>, device: Option<(u64, u64)>) -> Sample {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/stat");
        Sample {
            at: Instant::now(),
            cpu: counters::cpu(&stat),
            tasks: counters::tasks(&stat),
            memory: counters::memory(&read("/proc/meminfo")),
            network: counters::network(&read("/proc/net/dev")),
            disk: device.and_then(|(major, minor)| counters::disk(&read("/proc/diskstats"), major, minor)),
            server: server.and_then(|pid| {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
                let io = read(&format!("/proc/{pid}/io"));
                Some((counters::process(&stat), counters::process_bytes(&io)))
            }),
        }
    }
}

/// A column independent of the server's status. Each is computed from the sample before, this one, and the
/// seconds between them.
type Column = (&'static str, fn(&Sample, &Sample, &Scale) -> Option<f64>);

/// The way from counters to readable figures.
struct Scale {
    seconds: f64,
    ticks_per_s: f64,
    page_bytes: f64,
}

impl Scale {
    fn rate(&self, before: u64, now: u64) -> f64 {
        now.saturating_sub(before) as f64 / self.seconds
    }

    fn cpus(&self, before: u64, now: u64) -> f64 {
        self.rate(before, now) / self.ticks_per_s
    }
}

const COLUMNS: [Column; 35] = [
    ("cpu_user_cpus", |a, b, s| Some(s.cpus(a.cpu.user, b.cpu.user))),
    ("cpu_nice_cpus", |a, b, s| Some(s.cpus(a.cpu.nice, b.cpu.nice))),
    ("cpu_system_cpus", |a, b, s| Some(s.cpus(a.cpu.system, b.cpu.system))),
    ("cpu_interrupts_cpus", |a, b, s| Some(s.cpus(a.cpu.interrupts, b.cpu.interrupts))),
    ("cpu_steal_cpus", |a, b, s| Some(s.cpus(a.cpu.steal, b.cpu.steal))),
    ("cpu_iowait_cpus", |a, b, s| Some(s.cpus(a.cpu.iowait, b.cpu.iowait))),
    ("cpu_idle_cpus", |a, b, s| Some(s.cpus(a.cpu.idle, b.cpu.idle))),
    // The recorder itself runs when it looks.
    ("run_queue_tasks", |_, b, _| Some(b.tasks.running.saturating_sub(1) as f64)),
    ("blocked_tasks", |_, b, _| Some(b.tasks.blocked as f64)),
    ("context_switches_per_s", |a, b, s| Some(s.rate(a.tasks.switches, b.tasks.switches))),
    ("disk_reads_per_s", |a, b, s| Some(s.rate(a.disk?.reads, b.disk?.reads))),
    ("disk_writes_per_s", |a, b, s| Some(s.rate(a.disk?.writes, b.disk?.writes))),
    ("disk_read_bytes_per_s", |a, b, s| Some(s.rate(a.disk?.read_bytes, b.disk?.read_bytes))),
    ("disk_written_bytes_per_s", |a, b, s| Some(s.rate(a.disk?.written_bytes, b.disk?.written_bytes))),
    ("disk_busy_percent", |a, b, s| Some((s.rate(a.disk?.busy_ms, b.disk?.busy_ms) / 10.0).min(100.0))),
    ("disk_queue_requests", |a, b, s| Some(s.rate(a.disk?.queue_ms, b.disk?.queue_ms) / 1000.0)),
    ("memory_free_bytes", |_, b, _| Some(b.memory.free as f64)),
    ("memory_available_bytes", |_, b, _| Some(b.memory.available as f64)),
    ("memory_cached_bytes", |_, b, _| Some(b.memory.cached as f64)),
    ("memory_dirty_bytes", |_, b, _| Some(b.memory.dirty as f64)),
    ("memory_writeback_bytes", |_, b, _| Some(b.memory.writeback as f64)),
    ("memory_swapped_bytes", |_, b, _| Some(b.memory.swapped as f64)),
    ("network_received_bytes_per_s", |a, b, s| Some(s.rate(a.network.received, b.network.received))),
    ("network_sent_bytes_per_s", |a, b, s| Some(s.rate(a.network.sent, b.network.sent))),
    ("network_loopback_bytes_per_s", |a, b, s| Some(s.rate(a.network.loopback, b.network.loopback))),
    ("server_user_cpus", |a, b, s| Some(s.cpus(a.server?.0.user, b.server?.0.user))),
    ("server_system_cpus", |a, b, s| Some(s.cpus(a.server?.0.system, b.server?.0.system))),
    ("server_resident_bytes", |_, b, s| Some(b.server?.0.resident_pages as f64 * s.page_bytes)),
    ("server_threads_tasks", |_, b, _| Some(b.server?.0.threads as f64)),
    ("server_major_faults_per_s", |a, b, s| Some(s.rate(a.server?.0.major_faults, b.server?.0.major_faults))),
    ("server_read_bytes_per_s", |a, b, s| Some(s.rate(a.server?.1.read, b.server?.1.read))),
    ("server_written_bytes_per_s", |a, b, s| Some(s.rate(a.server?.1.written, b.server?.1.written))),
    ("server_read_calls_bytes_per_s", |a, b, s| Some(s.rate(a.server?.1.read_calls, b.server?.1.read_calls))),
    ("server_written_calls_bytes_per_s", |a, b, s| {
        Some(s.rate(a.server?.1.written_calls, b.server?.1.written_calls))
    }),
    ("server_gone_flag", |a, b, _| a.server.map(|_| f64::from(u8::from(b.server.is_none())))),
];

/// The samples of a recorder.
struct Log {
    start: Instant,
    samples: Vec<Sample>,
    /// Status counters in the order of their first appearance.
    names: Vec<String>,
    /// For each sample the values of those, NaN where one was not there.
    status: Vec<Vec<f64>>,
}

impl Log {
    fn note_status(&mut self, source: &mut Option<Box<dyn StatusSource>>) {
        let mut values = vec![f64::NAN; self.names.len()];
        let answer = source.as_mut().and_then(|source| source.read()).unwrap_or_default();
        for (at, (name, value)) in answer.into_iter().enumerate() {
            // They come in the same order each time, but for one that comes or goes.
            let place = if self.names.get(at) == Some(&name) {
                at
            } else if let Some(place) = self.names.iter().position(|n| *n == name) {
                place
            } else {
                self.names.push(name);
                values.push(f64::NAN);
                self.names.len() - 1
            };
            values[place] = value;
        }
        self.status.push(values);
    }

    fn series(&self, keep_constants: bool) -> Series {
        let status: Vec<(usize, bool)> = (0..self.names.len())
            .map(|place| (place, self.values(place)))
            .filter(|(_, values)| keep_constants || values.windows(2).any(|w| w[0] != w[1]))
            // A value that became less is no count of events, in spite of its name.
            .map(|(place, values)| {
                (place, is_level(&self.names[place]) || values.windows(2).any(|w| w[1] < w[0]))
            })
            .collect();
        let named: Vec<String> = status
            .iter()
            .map(|(place, level)| {
                format!("status.{}_{}", self.names[*place], if *level { "now" } else { "per_s" })
            })
            .collect();
        let mut series =
            Series::new(COLUMNS.iter().map(|(name, _)| *name).chain(named.iter().map(String::as_str)));
        let mut scale = Scale { seconds: 1.0, ticks_per_s: ticks_per_s(), page_bytes: page_bytes() };
        for (place, pair) in self.samples.windows(2).enumerate() {
            let (before, now) = (&pair[0], &pair[1]);
            scale.seconds = (now.at - before.at).as_secs_f64().max(1e-6);
            let mut row = vec![rounded((now.at - self.start).as_secs_f64())];
            row.extend(
                COLUMNS.iter().map(|(_, value)| rounded(value(before, now, &scale).unwrap_or(f64::NAN))),
            );
            row.extend(status.iter().map(|(counter, level)| {
                let value = |sample: usize| self.status[sample].get(*counter).copied().unwrap_or(f64::NAN);
                let (before, now) = (value(place), value(place + 1));
                rounded(if *level { now } else { (now - before) / scale.seconds })
            }));
            series.rows.push(row);
        }
        series
    }

    /// The value of a status counter in a sample; none where it was missing.
    fn values(&self, place: usize) -> Vec<f64> {
        self.status.iter().filter_map(|v| v.get(place)).copied().filter(|v| !v.is_nan()).collect()
    }
}

/// To thousandths: more digits are none of the measurement.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn ticks_per_s() -> f64 {
    system(SysconfVar::CLK_TCK, 100.0)
}

fn page_bytes() -> f64 {
    system(SysconfVar::PAGE_SIZE, 4096.0)
}

fn system(variable: SysconfVar, otherwise: f64) -> f64 {
    match sysconf(variable) {
        Ok(Some(value)) if value > 0 => value as f64,
        _ => otherwise,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::thread::sleep;

    use super::*;

    fn sample(start: Instant, s: f64, times: u64) -> Sample {
        Sample {
            at: start + Duration::from_secs_f64(s),
            cpu: CpuTicks { user: 100 * times, idle: 50 * times, ..CpuTicks::default() },
            tasks: Tasks { running: 3, blocked: 1, switches: 1000 * times },
            memory: Memory { dirty: 4096 * times, ..Memory::default() },
            network: NetworkBytes { received: 5, sent: 10 * times, loopback: 0 },
            disk: Some(DiskCounters {
                reads: 7 * times,
                written_bytes: 1 << (10 + times),
                busy_ms: 250 * times,
                queue_ms: 2000 * times,
                ..DiskCounters::default()
            }),
            server: Some((
                ProcessCounters { user: 30 * times, resident_pages: 10, threads: 4, ..Default::default() },
                ProcessBytes { written: 100 * times, ..Default::default() },
            )),
        }
    }

    fn log(samples: Vec<Sample>, start: Instant) -> Log {
        let status = vec![Vec::new(); samples.len()];
        Log { start, samples, names: Vec::new(), status }
    }

    #[test]
    fn rates_are_by_the_time_that_passed() {
        let start = Instant::now();
        let series = log(vec![sample(start, 0.0, 0), sample(start, 1.0, 1), sample(start, 3.0, 2)], start)
            .series(false);
        let column = |name: &str| series.column(name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(column("at_s"), [1.0, 3.0]);
        let per_tick = 100.0 / ticks_per_s();
        assert_eq!(column("cpu_user_cpus"), [per_tick, per_tick / 2.0]);
        assert_eq!(column("context_switches_per_s"), [1000.0, 500.0]);
        assert_eq!(column("run_queue_tasks"), [2.0, 2.0], "without the recorder");
        assert_eq!(column("disk_reads_per_s"), [7.0, 3.5]);
        assert_eq!(column("disk_written_bytes_per_s"), [1024.0, 1024.0]);
        assert_eq!(column("disk_busy_percent"), [25.0, 12.5]);
        assert_eq!(column("disk_queue_requests"), [2.0, 1.0]);
        assert_eq!(column("memory_dirty_bytes"), [4096.0, 8192.0], "what there is, not what came");
        assert_eq!(column("network_sent_bytes_per_s"), [10.0, 5.0]);
        assert_eq!(column("server_resident_bytes"), [10.0 * page_bytes(); 2]);
        assert_eq!(column("server_written_bytes_per_s"), [100.0, 50.0]);
        assert_eq!(series.columns.len(), 1 + COLUMNS.len());
    }

    #[test]
    fn what_cannot_be_read_is_no_number() {
        let start = Instant::now();
        let without = |s: f64, times: u64| Sample { disk: None, server: None, ..sample(start, s, times) };
        let gone = Sample { server: None, ..sample(start, 1.0, 1) };
        let series = log(vec![without(0.0, 0), without(1.0, 1)], start).series(false);
        for name in ["disk_reads_per_s", "server_resident_bytes", "server_gone_flag"] {
            assert!(series.column(name).unwrap()[0].is_nan(), "{name}");
        }
        let series = log(vec![sample(start, 0.0, 0), gone], start).series(false);
        assert_eq!(series.column("server_gone_flag").unwrap(), [1.0]);
        assert!(series.column("server_user_cpus").unwrap()[0].is_nan());
        assert_eq!(series.column("disk_reads_per_s").unwrap(), [7.0]);
    }

    /// Answers as it is told.
    struct Told(VecDeque<Option<Vec<(&'static str, f64)>>>, bool);

    impl StatusSource for Told {
        fn read(&mut self) -> Option<Vec<(String, f64)>> {
            let answer = self.0.pop_front().flatten()?;
            Some(answer.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
        }

        fn keeps_constants(&self) -> bool {
            self.1
        }
    }

    fn told(answers: Vec<Option<Vec<(&'static str, f64)>>>, named: bool) -> Series {
        let start = Instant::now();
        let mut log = Log { start, samples: Vec::new(), names: Vec::new(), status: Vec::new() };
        let number = answers.len();
        let mut source: Option<Box<dyn StatusSource>> = Some(Box::new(Told(answers.into(), named)));
        for n in 0..number {
            log.samples.push(sample(start, n as f64, n as u64));
            log.note_status(&mut source);
        }
        log.series(named)
    }

    #[test]
    fn status_counters_become_rates_and_levels_stay() {
        let series = told(
            vec![
                Some(vec![("Com_commit", 10.0), ("Threads_running", 5.0), ("Odd", 3.0), ("Still", 1.0)]),
                Some(vec![("Com_commit", 30.0), ("Threads_running", 6.0), ("Odd", 9.0), ("Still", 1.0)]),
                Some(vec![("Com_commit", 35.0), ("Odd", 2.0), ("New", 8.0), ("Threads_running", 7.0)]),
            ],
            false,
        );
        assert_eq!(series.column("status.Com_commit_per_s").unwrap(), [20.0, 5.0]);
        assert_eq!(series.column("status.Threads_running_now").unwrap(), [6.0, 7.0], "in any order");
        assert_eq!(series.column("status.Odd_now").unwrap(), [9.0, 2.0], "it fell: it is no count");
        assert_eq!(series.column("status.Still_per_s"), None, "what never changes is left out");
        assert!(series.rows.iter().all(|row| row.len() == series.columns.len()), "{series:?}");
    }

    #[test]
    fn chosen_counters_stay_though_they_do_not_change() {
        let commits = |n: f64| Some(vec![("Com_commit", n)]);
        let series = told(vec![commits(4.0), commits(4.0), None, commits(4.0)], true);
        let column = series.column("status.Com_commit_per_s").unwrap();
        assert_eq!(column[0], 0.0);
        assert!(column[1].is_nan() && column[2].is_nan(), "no answer in the third second: {column:?}");
    }

    #[test]
    fn this_machine_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::start(Some(std::process::id()), folder.path(), None).unwrap();
        let mut sum = 0u64;
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(1500) {
            sum = sum.wrapping_mul(31).wrapping_add(1);
        }
        std::hint::black_box(sum);
        let recording = recorder.stop();
        let column = |name: &str| recording.series.column(name).unwrap();
        // Of a second and a half; on a busy machine the second look may be late.
        assert!(matches!(recording.series.rows.len(), 1 | 2), "{:?}", column("at_s"));
        assert!(column("server_user_cpus").iter().sum::<f64>() > 0.0);
        assert!(column("server_resident_bytes")[0] > 100_000.0);
        assert!(column("memory_available_bytes")[0] > 0.0);
        // Tests may run with low priority.
        assert!(column("cpu_user_cpus")[0] + column("cpu_nice_cpus")[0] > 0.0);
        // Two looks; the bound is wide because a debug build on a busy machine is slow.
        assert!(recording.own_cpu_s < 0.1, "{} s", recording.own_cpu_s);
        let file = folder.path().join("telemetry.csv");
        recording.series.write(&file).unwrap();
        assert_eq!(Series::read(&file).unwrap().columns, recording.series.columns);
    }

    #[test]
    fn a_recording_can_be_thrown_away() {
        drop(Recorder::start(None, Path::new("/nowhere"), None).unwrap());
        let recorder = Recorder::start(None, Path::new("/nowhere"), None).unwrap();
        sleep(Duration::from_millis(10));
        assert!(recorder.stop().series.rows.is_empty(), "too short for a row");
    }
}
