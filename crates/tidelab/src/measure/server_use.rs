//! The server's use of the machine over a load, from the moments at the load's begin and end.

use tidelab_server::telemetry::process::ResourceSample;

/// CPU time, memory and writes of a server over a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerUse {
    /// User and system time of the server's process, in seconds.
    pub cpu_s: f64,
    /// CPUs busy with neither server nor client, on average.
    pub other_cpus: f64,
    /// The largest resident size seen, in bytes.
    pub resident_bytes: u64,
    /// Bytes written to the device on the server's behalf.
    pub written_bytes: u64,
}

impl ServerUse {
    /// The use between two moments. `seen` are the moments between them, `client_cpu_s` is the CPU
    /// time of the client.
    pub fn between<'a>(
        begin: &'a ResourceSample,
        end: &'a ResourceSample,
        client_cpu_s: f64,
        seen: impl Iterator<Item = &'a ResourceSample>,
    ) -> ServerUse {
        let wall = (end.at - begin.at).as_secs_f64();
        let cpu_s = end.server.cpu_s - begin.server.cpu_s;
        let machine = end.machine_cpu_s - begin.machine_cpu_s;
        let other = machine - cpu_s - client_cpu_s;
        ServerUse {
            cpu_s,
            other_cpus: if wall > 0.0 { (other / wall).max(0.0) } else { 0.0 },
            resident_bytes: seen
                .chain([begin, end])
                .map(|moment| moment.server.resident_bytes)
                .max()
                .unwrap_or(0),
            written_bytes: end.server.written_bytes.saturating_sub(begin.server.written_bytes),
        }
    }
}

/// CPUs used by the server since the moment before; 0 without one.
pub fn server_cpus(before: Option<&ResourceSample>, now: &ResourceSample) -> f64 {
    before.map_or(0.0, |before| {
        let wall = (now.at - before.at).as_secs_f64();
        if wall > 0.0 {
            (now.server.cpu_s - before.server.cpu_s) / wall
        } else {
            0.0
        }
    })
}

/// CPU seconds of all calls, as microseconds of one; 0 without a call.
pub fn per_call_us(cpu_s: f64, calls: u64) -> f64 {
    if calls == 0 {
        return 0.0;
    }
    cpu_s * 1e6 / calls as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_calls_cost_nothing() {
        assert_eq!((per_call_us(1.0, 0), per_call_us(1.0, 4)), (0.0, 250_000.0));
    }
}
