//! The kernel's counters in `/proc`. Each parser takes the text of a file and returns its numbers, in
//! machine-independent units. A missing line or field, as in an older kernel, counts 0.

/// CPU time of all CPUs together, in ticks, by mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// In programs, those of virtual machines of this one included.
    pub user: u64,
    /// In programs of low priority.
    pub nice: u64,
    /// In the kernel.
    pub system: u64,
    /// Nothing to do.
    pub idle: u64,
    /// Nothing to do but to wait for a disk.
    pub iowait: u64,
    /// In interrupts, hard and soft.
    pub interrupts: u64,
    /// Taken by the machine below this virtual one.
    pub steal: u64,
}

/// The tasks in want of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Running and runnable tasks.
    pub running: u64,
    /// Tasks in wait for a disk.
    pub blocked: u64,
    /// Switches between tasks since the start of the machine.
    pub switches: u64,
}

/// The work of a block device since the start of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Completed reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Completed writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Milliseconds with work to do.
    pub busy_ms: u64,
    /// Milliseconds of all requests under way together.
    pub queue_ms: u64,
}

/// Memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Not used for anything.
    pub free: u64,
    /// The memory available to programs.
    pub available: u64,
    /// Files in memory.
    pub cached: u64,
    /// Bytes of files in memory not yet on the device.
    pub dirty: u64,
    /// On their way to it.
    pub writeback: u64,
    /// Swapped out.
    pub swapped: u64,
}

/// Bytes over network interfaces since the start of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkBytes {
    /// Received, on all interfaces but the machine's own loop.
    pub received: u64,
    /// Sent on them.
    pub sent: u64,
    /// Over the loop, from this machine to itself.
    pub loopback: u64,
}

/// The work of a process since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounters {
    /// Ticks in its own code, all threads, dead ones included.
    pub user: u64,
    /// Ticks in the kernel.
    pub system: u64,
    /// Page faults with a read from a device.
    pub major_faults: u64,
    /// Threads now.
    pub threads: u64,
    /// Resident memory now, in pages.
    pub resident_pages: u64,
}

/// Bytes moved by a process since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessBytes {
    /// Asked for, from files and connections, whether a device was needed or not.
    pub read_calls: u64,
    /// Given to files and connections.
    pub written_calls: u64,
    /// Read from a device.
    pub read: u64,
    /// Caused to be written to a device.
    pub written: u64,
}

/// The number in a column of a line cut at white space; 0 without one.
fn number(line: &str, column: usize) -> u64 {
    line.split_ascii_whitespace().nth(column).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The first number after a label at the start of a line.
fn labelled(text: &str, label: &str) -> u64 {
    text.lines().find_map(|line| line.strip_prefix(label)).map_or(0, |rest| number(rest, 0))
}

/// From `/proc/stat`.
pub fn cpu(stat: &str) -> CpuTicks {
    let Some(line) = stat.lines().find(|line| line.starts_with("cpu ")) else { return CpuTicks::default() };
    CpuTicks {
        user: number(line, 1),
        nice: number(line, 2),
        system: number(line, 3),
        idle: number(line, 4),
        iowait: number(line, 5),
        interrupts: number(line, 6) + number(line, 7),
        steal: number(line, 8),
    }
}

/// From `/proc/stat`.
pub fn tasks(stat: &str) -> Tasks {
    Tasks {
        running: labelled(stat, "procs_running "),
        blocked: labelled(stat, "procs_blocked "),
        switches: labelled(stat, "ctxt "),
    }
}

/// From `/proc/diskstats`, the device with these numbers; none when it is not there.
pub fn disk(diskstats: &str, major: u64, minor: u64) -> Option<DiskCounters> {
    /// The unit of sizes in the file; the device's own may differ.
    const SECTOR: u64 = 512;
    let line = diskstats.lines().find(|line| {
        let mut columns = line.split_ascii_whitespace();
        let mut next = || columns.next().and_then(|n| n.parse::<u64>().ok());
        (next(), next()) == (Some(major), Some(minor))
    })?;
    Some(DiskCounters {
        reads: number(line, 3),
        read_bytes: number(line, 5) * SECTOR,
        writes: number(line, 7),
        written_bytes: number(line, 9) * SECTOR,
        busy_ms: number(line, 12),
        queue_ms: number(line, 13),
    })
}

/// From `/proc/meminfo`.
pub fn memory(meminfo: &str) -> Memory {
    let bytes = |label: &str| labelled(meminfo, label) * 1024;
    Memory {
        free: bytes("MemFree:"),
        available: bytes("MemAvailable:"),
        cached: bytes("Cached:") + bytes("Buffers:"),
        dirty: bytes("Dirty:"),
        writeback: bytes("Writeback:"),
        swapped: bytes("SwapTotal:").saturating_sub(bytes("SwapFree:")),
    }
}

/// From `/proc/net/dev`.
pub fn network(dev: &str) -> NetworkBytes {
    let mut bytes = NetworkBytes::default();
    // A name can reach to its colon, and the first number may follow without a space.
    for (name, numbers) in dev.lines().filter_map(|line| line.split_once(':')) {
        if name.trim() == "lo" {
            bytes.loopback += number(numbers, 0);
        } else {
            bytes.received += number(numbers, 0);
            bytes.sent += number(numbers, 8);
        }
    }
    bytes
}

/// From `/proc/PID/stat`; the program's name in it may hold anything.
pub fn process(stat: &str) -> ProcessCounters {
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // Field 3 of the file, the state, is column 0 here.
    let field = |of_the_file: usize| number(after_name, of_the_file - 3);
    ProcessCounters {
        major_faults: field(12),
        user: field(14),
        system: field(15),
        threads: field(20),
        resident_pages: field(24),
    }
}

/// From `/proc/PID/io`.
pub fn process_bytes(io: &str) -> ProcessBytes {
    ProcessBytes {
        read_calls: labelled(io, "rchar:"),
        written_calls: labelled(io, "wchar:"),
        read: labelled(io, "read_bytes:"),
        written: labelled(io, "write_bytes:"),
    }
}

/// The source of a mount with these numbers, from `/proc/self/mountinfo`. Some file systems, as btrfs, give
/// themselves numbers without a device.
pub fn mounted(mountinfo: &str, major: u64, minor: u64) -> Option<&str> {
    let wanted = format!("{major}:{minor}");
    let line = mountinfo.lines().find(|line| line.split(' ').nth(2) == Some(wanted.as_str()))?;
    // Optional fields end with a dash; the type follows, then the source.
    line.split_once(" - ")?.1.split(' ').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saved on a virtual machine with two CPUs, kernel 6.1.
    const STAT: &str = "\
cpu  4154540 3081344 1493256 2985814 101648 7 43719 22084 0 0
cpu0 2042997 1521315 709267 1620453 34038 0 2194 10892 0 0
cpu1 2111542 1560029 783989 1365360 67610 0 41525 11191 0 0
intr 1038471 0 9 0
ctxt 554403367
btime 1795254487
processes 7937052
procs_running 23
procs_blocked 1
softirq 75139 1 2 3
";
    const DISKSTATS: &str = "   7       0 loop0 46297 2525 4091034 22502 72635 31524 22007914 131488 0 35096 176422 0 0 0 0 32297 22431
 254       0 vda 23861885 390160 840338218 38067499 25509898 3467696 1823815960 14421177 1 4350840 53917543 2067661 1099 1621599696 463038 5454014 965828
 254       1 vda1 5 0 40 1 2 0 16 3 0 4 4
 253       0 zram0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
";

    #[test]
    fn cpus_and_tasks() {
        let cpu = cpu(STAT);
        assert_eq!((cpu.user, cpu.nice, cpu.system, cpu.idle), (4_154_540, 3_081_344, 1_493_256, 2_985_814));
        assert_eq!((cpu.iowait, cpu.interrupts, cpu.steal), (101_648, 43_726, 22_084));
        assert_eq!(tasks(STAT), Tasks { running: 23, blocked: 1, switches: 554_403_367 });
        assert_eq!((super::cpu(""), tasks("")), (CpuTicks::default(), Tasks::default()));
        assert_eq!(super::cpu("cpu  1 2 3 4\n").steal, 0, "an old kernel");
    }

    #[test]
    fn disks_by_their_numbers() {
        let vda = disk(DISKSTATS, 254, 0).unwrap();
        assert_eq!((vda.reads, vda.writes), (23_861_885, 25_509_898));
        assert_eq!((vda.read_bytes, vda.written_bytes), (840_338_218 * 512, 1_823_815_960 * 512));
        assert_eq!((vda.busy_ms, vda.queue_ms), (4_350_840, 53_917_543));
        let part = disk(DISKSTATS, 254, 1).unwrap();
        assert_eq!((part.reads, part.read_bytes, part.written_bytes, part.busy_ms), (5, 20_480, 8192, 4));
        assert_eq!(disk(DISKSTATS, 8, 0), None);
    }

    #[test]
    fn memory_in_bytes() {
        let memory = memory(
            "MemTotal:       24684096 kB\nMemFree:        10416596 kB\nMemAvailable:   22880240 kB\n\
             Buffers:          204372 kB\nCached:         11818604 kB\nSwapCached:            9 kB\n\
             SwapTotal:          1000 kB\nSwapFree:            400 kB\nDirty:             62968 kB\n\
             Writeback:            12 kB\nWritebackTmp:          5 kB\n",
        );
        assert_eq!((memory.free, memory.available), (10_416_596 << 10, 22_880_240 << 10));
        assert_eq!(memory.cached, (11_818_604 + 204_372) << 10);
        assert_eq!((memory.dirty, memory.writeback, memory.swapped), (62_968 << 10, 12 << 10, 600 << 10));
    }

    #[test]
    fn the_loop_is_no_network() {
        let text = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 979055624 3390628    0    0    0     0          0         0 979055624 3390628    0    0    0     0       0          0
  eth0:4335300498  101638    0    0    0     0          0         0  4430303   54927    0    0    0     0       0          0
 wlan0:       5       1    0    0    0     0          0         0        7       1    0    0    0     0       0          0
";
        let wanted = NetworkBytes { received: 4_335_300_503, sent: 4_430_310, loopback: 979_055_624 };
        assert_eq!(network(text), wanted);
    }

    #[test]
    fn a_process_with_any_name() {
        let stat = "17 (a) b (c) S 1 17 17 0 -1 4194304 500 0 31 0 250 150 7 7 20 0 9 0 100 4096000 1234 1 2";
        let found = process(stat);
        assert_eq!((found.user, found.system, found.major_faults), (250, 150, 31));
        assert_eq!((found.threads, found.resident_pages), (9, 1234));
        assert_eq!(process(""), ProcessCounters::default());
        let io = "rchar: 6976\nwchar: 11\nsyscr: 10\nsyscw: 3\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 5\n";
        let bytes = ProcessBytes { read_calls: 6976, written_calls: 11, read: 4096, written: 8192 };
        assert_eq!(process_bytes(io), bytes);
    }

    #[test]
    fn what_is_mounted_is_found_by_its_numbers() {
        let text = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
                    27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
                    30 27 0:40 /@home /home rw shared:1 master:2 - btrfs /dev/nvme0n1p2 rw,ssd\n";
        assert_eq!(mounted(text, 0, 40), Some("/dev/nvme0n1p2"));
        assert_eq!(mounted(text, 254, 0), Some("/dev/vda"));
        assert_eq!(mounted(text, 0, 2), None);
    }
}
