//! The cost of this process so far: CPU time and bytes written, read from `/proc`.

use tidelab_server::telemetry::process::process_use;

/// Counters of this process since its start. The difference of two is the cost between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// CPU time of all threads, in seconds.
    pub cpu_s: f64,
    /// Bytes given to write calls; 0 where `/proc` does not tell. Nothing here writes through a map.
    pub written_bytes: u64,
    /// Bytes of pages made dirty, written yet or not, and of direct writes.
    pub device_bytes: u64,
    /// Resident memory now.
    pub resident_bytes: u64,
}

impl Cost {
    /// Now.
    pub fn now() -> Cost {
        let used = process_use(std::process::id());
        let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        Cost {
            cpu_s: used.cpu_s,
            written_bytes: written(&io),
            device_bytes: used.written_bytes,
            resident_bytes: used.resident_bytes,
        }
    }

    /// The growth since an earlier moment; the memory is this moment's.
    pub fn since(self, earlier: Cost) -> Cost {
        Cost {
            cpu_s: self.cpu_s - earlier.cpu_s,
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            device_bytes: self.device_bytes.saturating_sub(earlier.device_bytes),
            resident_bytes: self.resident_bytes,
        }
    }
}

/// `wchar` of a `/proc/PID/io`.
fn written(io: &str) -> u64 {
    io.lines().find_map(|line| line.strip_prefix("wchar: ")).and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted() {
        assert_eq!(written("rchar: 9\nwchar: 77\nsyscr: 1\n"), 77);
        let before = Cost::now();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![1; 100_000]).unwrap();
        let cost = Cost::now().since(before);
        assert!(cost.written_bytes >= 100_000 && cost.resident_bytes > 0, "{cost:?}");
    }
}
