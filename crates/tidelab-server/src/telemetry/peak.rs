//! The largest resident size of a process over a while, as the kernel keeps it: nothing between two
//! looks is missed.

use std::fs;

use super::process::process_use;

/// A period in progress.
#[derive(Clone, Copy, Debug)]
pub struct Peak {
    pid: u32,
    /// The resident size when it began, in bytes.
    pub at_begin: u64,
    /// True if the kernel forgot the earlier peak. It cannot for another user's process; then the figure is
    /// the peak since the process began.
    pub begun_anew: bool,
}

impl Peak {
    /// Begins: the kernel forgets the peak so far.
    pub fn begin(pid: u32) -> Peak {
        // 5: "reset the peak resident set size to the process's current one" (proc(5)).
        let begun_anew = fs::write(format!("/proc/{pid}/clear_refs"), "5").is_ok();
        Peak { pid, at_begin: process_use(pid).resident_bytes, begun_anew }
    }

    /// The peak since then, in bytes; 0 when the process is gone.
    pub fn so_far(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|n| n.parse::<u64>().ok())
            .map_or(0, |kb| kb * 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_back_still_counts_and_what_was_before_does_not() {
        const LARGE: usize = 96 << 20;
        let touched = || std::hint::black_box(vec![1u8; LARGE]).iter().map(|b| u64::from(*b)).sum::<u64>();
        std::hint::black_box(touched());
        let peak = Peak::begin(std::process::id());
        if !peak.begun_anew {
            return;
        }
        let small = peak.so_far();
        std::hint::black_box(touched());
        let large = peak.so_far();
        assert!(large >= small + (LARGE as u64) / 2, "{small}, then {large}");
    }
}
