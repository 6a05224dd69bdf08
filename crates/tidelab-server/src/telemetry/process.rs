//! CPU time, memory and I/O of one process and of the machine, at a moment.

use std::fs;
use std::time::Instant;

use nix::unistd::{sysconf, SysconfVar};

use crate::error::{io_error, Result};

/// A process's use of resources at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUse {
    /// User and system time of all its threads, dead ones included, in seconds.
    pub cpu_s: f64,
    /// Resident memory in bytes.
    pub resident_bytes: u64,
    /// The part of it without a file: heaps and stacks.
    pub anonymous_bytes: u64,
    /// Page faults with a wait for a disk.
    pub major_faults: u64,
    /// Bytes written to the device on its behalf; 0 if this may not be read.
    pub written_bytes: u64,
}

/// Both the server and the machine at one moment.
#[derive(Clone, Copy, Debug)]
pub struct ResourceSample {
    /// When.
    pub at: Instant,
    /// The server's process.
    pub server: ProcessUse,
    /// CPU time of everything on the machine, in seconds.
    pub machine_cpu_s: f64,
}

/// Ticks a second of the times in `/proc`.
fn ticks() -> f64 {
    match sysconf(SysconfVar::CLK_TCK) {
        Ok(Some(ticks)) if ticks > 0 => ticks as f64,
        _ => 100.0,
    }
}

/// A process's use of resources so far; zeros when it is gone.
pub fn process_use(pid: u32) -> ProcessUse {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let (stat, status) = (read("stat"), read("status"));
    ProcessUse {
        cpu_s: cpu_ticks(&stat) as f64 / ticks(),
        resident_bytes: field(&status, "VmRSS:") * 1024,
        anonymous_bytes: field(&status, "RssAnon:") * 1024,
        major_faults: major_faults(&stat),
        written_bytes: field(&read("io"), "write_bytes:"),
    }
}

/// Forgets the peak memory of a process; [`peak_resident`] then counts from now on. It takes the process's
/// own user or root, and is an error for a process already gone.
pub fn forget_peak(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    // proc(5): 5 resets the peak to what is resident now.
    fs::write(&path, "5").map_err(io_error("reset the peak memory by", path))
}

/// The peak resident memory since [`forget_peak`], by the kernel's own count: no look misses it. 0 when it is
/// gone.
pub fn peak_resident(pid: u32) -> u64 {
    field(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default(), "VmHWM:") * 1024
}

/// The server and the machine now.
pub fn now(server: u32) -> ResourceSample {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    ResourceSample {
        at: Instant::now(),
        server: process_use(server),
        machine_cpu_s: machine_ticks(&stat) as f64 / ticks(),
    }
}

/// majflt of a `/proc/PID/stat`, field 12.
fn major_faults(stat: &str) -> u64 {
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().nth(9).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// utime + stime of a `/proc/PID/stat`; the program's name in it may hold anything.
fn cpu_ticks(stat: &str) -> u64 {
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // Field 3 (state) is the first after the name; 14 and 15 are the times.
    after_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum()
}

/// The first number after a label.
fn field(text: &str, label: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(label))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// Busy ticks of all CPUs. Idle ticks and waits for a disk do not count, nor does the guests' time: user time
/// already includes it.
fn machine_ticks(stat: &str) -> u64 {
    let Some(line) = stat.lines().find(|l| l.starts_with("cpu ")) else { return 0 };
    let of =
        |index: usize| line.split_whitespace().nth(index).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    [1, 2, 3, 6, 7].into_iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_faults_are_found_behind_any_name() {
        let stat = "17 (a) b (c) S 1 17 17 0 -1 4194304 5 0 12 0 250 150 7 7 20 0 9 0 100 1 1";
        assert_eq!(cpu_ticks(stat), 400);
        assert_eq!(major_faults(stat), 12);
        assert_eq!(major_faults(""), 0);
        assert_eq!(cpu_ticks(""), 0);
    }

    #[test]
    fn fields_with_units() {
        assert_eq!(field("VmPeak:\t 9 kB\nVmRSS:\t  1234 kB\n", "VmRSS:"), 1234);
        assert_eq!(field("rchar: 1\nwrite_bytes: 77\n", "write_bytes:"), 77);
        assert_eq!(field("", "VmRSS:"), 0);
    }

    #[test]
    fn idle_time_is_not_use() {
        // user nice system idle iowait irq softirq steal guest guest_nice
        assert_eq!(machine_ticks("cpu  10 1 5 1000 500 2 3 40 9 9\ncpu0 1 1 1 1 1 1 1\n"), 21);
    }

    #[test]
    fn this_process_uses_something() {
        let before = process_use(std::process::id());
        assert!(before.resident_bytes > 100_000);
        assert!(before.anonymous_bytes > 0 && before.anonymous_bytes < before.resident_bytes);
        let mut sum = 0u64;
        let start = Instant::now();
        while start.elapsed().as_millis() < 100 {
            sum = sum.wrapping_mul(31).wrapping_add(1);
        }
        std::hint::black_box(sum);
        assert!(process_use(std::process::id()).cpu_s > before.cpu_s);
    }
}
