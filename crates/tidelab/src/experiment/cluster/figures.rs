//! The figures of a load on all nodes: those of the nodes summed or merged, with the counters of the provider.

use std::time::Duration;

use tidelab_server::cluster::state::Counters;

use crate::run::{Better, Buckets, Metric};

/// The columns of a cell's seconds, over all nodes.
pub const SECONDS: [&str; 2] = ["transactions_per_s", "aborts_per_s"];

/// The figures of the cells, the most important one first.
pub fn metrics() -> Vec<Metric> {
    use Better::{Higher, Lower, Neither};
    vec![
        Metric::main("transactions_per_s", "Transactions, with the drain", "1/s", Higher),
        Metric::main("p99_ms", "99th percentile", "ms", Lower),
        Metric::main("aborts_per_s", "Aborted, told to the client", "1/s", Lower),
        Metric::main("paused_ms_per_s", "Paused by flow control", "ms/s", Lower),
        Metric::main("drain_s", "Until all nodes had it all", "s", Lower),
        Metric::main("conflicts_per_s", "Met another node's change", "1/s", Lower),
        Metric::detail("certification_failures_per_s", "Failed certifications", "1/s", Lower),
        Metric::detail("brute_force_aborts_per_s", "Ended by an applier", "1/s", Lower),
        Metric::detail("transaction_cpu_us", "CPU of all servers for one", "us", Lower),
        Metric::detail("answered_per_s", "Transactions, drain left out", "1/s", Higher),
        Metric::detail("p50_ms", "Median latency", "ms", Lower),
        Metric::detail("p95_ms", "95th percentile", "ms", Lower),
        Metric::detail("transactions", "Transactions measured", "", Neither),
    ]
}

/// The measured time of one node's clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeLoad {
    /// Its length.
    pub seconds: f64,
    /// Transactions with an answer.
    pub transactions: u64,
    /// Transactions refused by a conflict, each told to its client.
    pub aborts: u64,
    /// CPU time of the node's server, in seconds.
    pub server_cpu_s: f64,
    /// Latencies of the transactions, in milliseconds.
    pub latencies_ms: Buckets,
    /// Transactions and aborts a second, second by second, each after its time.
    pub per_second: Vec<[f64; 3]>,
}

/// A load on all nodes.
#[derive(Clone, Debug)]
pub struct ClusterLoad {
    /// By node.
    pub nodes: Vec<NodeLoad>,
    /// From the start of the first client to the end of the last one, warm-up included.
    pub ran: Duration,
    /// From there until all nodes had the last commit.
    pub drain: Duration,
    /// The nodes' counters before the load.
    pub before: Vec<Counters>,
    /// The same at its end.
    pub after: Vec<Counters>,
}

impl ClusterLoad {
    /// The latencies of all nodes.
    pub fn latencies_ms(&self) -> Buckets {
        let mut all: Buckets = self.nodes.iter().flat_map(|node| node.latencies_ms.iter().copied()).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut merged = Buckets::new();
        for (bound, count) in all {
            match merged.last_mut() {
                Some((last, sum)) if *last == bound => *sum += count,
                _ => merged.push((bound, count)),
            }
        }
        merged
    }

    /// The rows of [`SECONDS`], each after its time, as far as all nodes have them.
    pub fn seconds(&self) -> Vec<Vec<f64>> {
        let common = self.nodes.iter().map(|node| node.per_second.len()).min().unwrap_or(0);
        let row = |at: usize| {
            let sum = |column: usize| self.nodes.iter().map(|node| node.per_second[at][column]).sum::<f64>();
            vec![self.nodes[0].per_second[at][0], sum(1), sum(2)]
        };
        (0..common).map(row).collect()
    }

    /// The figures. Rates of clients are those of the measured time, rates of counters those of the whole load. The
    /// drain counts as time of the load.
    pub fn figures(&self) -> Vec<(&'static str, f64)> {
        let drain = self.drain.as_secs_f64();
        let sum = |of: &dyn Fn(&NodeLoad) -> f64| self.nodes.iter().map(of).sum::<f64>();
        let transactions = sum(&|node| node.transactions as f64);
        let counted = |of: fn(&Counters) -> u64| {
            let pairs = self.before.iter().zip(&self.after);
            pairs.map(move |(before, after)| of(after).saturating_sub(of(before)) as f64)
        };
        let per_s = |count: f64| count / self.ran.as_secs_f64();
        let certification = per_s(counted(|c| c.certification_failures).sum());
        let brute_force = per_s(counted(|c| c.brute_force_aborts).sum());
        let latencies = self.latencies_ms();
        vec![
            ("transactions", transactions),
            ("transactions_per_s", sum(&|node| node.transactions as f64 / (node.seconds + drain))),
            ("answered_per_s", sum(&|node| node.transactions as f64 / node.seconds)),
            ("aborts_per_s", sum(&|node| node.aborts as f64 / node.seconds)),
            ("p50_ms", percentile(&latencies, 50.0)),
            ("p95_ms", percentile(&latencies, 95.0)),
            ("p99_ms", percentile(&latencies, 99.0)),
            // A pause holds all nodes: each counts the same one.
            ("paused_ms_per_s", per_s(counted(|c| c.paused_ns).fold(0.0, f64::max) / 1e6)),
            ("conflicts_per_s", certification + brute_force),
            ("certification_failures_per_s", certification),
            ("brute_force_aborts_per_s", brute_force),
            ("drain_s", drain),
            ("transaction_cpu_us", sum(&|node| node.server_cpu_s) * 1e6 / transactions),
        ]
    }
}

/// The upper bound of so large a part of the latencies; 0 for none.
fn percentile(latencies: &Buckets, percent: f64) -> f64 {
    let total: u64 = latencies.iter().map(|(_, count)| count).sum();
    let needed = (total as f64 * percent / 100.0).ceil().max(1.0) as u64;
    let mut seen = 0;
    for (bound, count) in latencies {
        seen += count;
        if seen >= needed {
            return *bound;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn load() -> ClusterLoad {
        let node = |transactions, latencies_ms: &[(f64, u64)]| NodeLoad {
            seconds: 8.0,
            transactions,
            aborts: 16,
            server_cpu_s: 0.5,
            latencies_ms: latencies_ms.to_vec(),
            per_second: vec![[1.0, 100.0, 2.0], [2.0, 120.0, 2.0]],
        };
        let counters = |paused_ns, certification_failures, brute_force_aborts| Counters {
            paused_ns,
            certification_failures,
            brute_force_aborts,
            ..Counters::default()
        };
        let mut nodes =
            vec![node(800, &[(1.0, 790), (9.0, 10)]), node(800, &[(1.0, 700), (2.0, 95), (9.0, 5)])];
        nodes[1].per_second.pop();
        ClusterLoad {
            nodes,
            ran: Duration::from_secs(10),
            drain: Duration::from_secs(2),
            before: vec![counters(1_000_000, 5, 0), counters(7_000_000, 0, 0)],
            after: vec![counters(501_000_000, 15, 20), counters(407_000_000, 10, 0)],
        }
    }

    #[test]
    fn rates_are_sums_and_the_drain_counts() {
        let f: BTreeMap<&str, f64> = load().figures().into_iter().collect();
        assert_eq!((f["answered_per_s"], f["transactions_per_s"]), (200.0, 160.0));
        assert_eq!((f["aborts_per_s"], f["drain_s"], f["transactions"]), (4.0, 2.0, 1600.0));
        assert_eq!(f["transaction_cpu_us"], 625.0);
    }

    #[test]
    fn counters_are_those_of_the_load_alone() {
        let f: BTreeMap<&str, f64> = load().figures().into_iter().collect();
        assert_eq!(f["paused_ms_per_s"], 50.0, "the longer pause of both nodes");
        assert_eq!((f["certification_failures_per_s"], f["brute_force_aborts_per_s"]), (2.0, 2.0));
        assert_eq!(f["conflicts_per_s"], 4.0);
    }

    #[test]
    fn percentiles_are_those_of_all_nodes_together() {
        let load = load();
        assert_eq!(load.latencies_ms(), [(1.0, 1490), (2.0, 95), (9.0, 15)]);
        let f: BTreeMap<&str, f64> = load.figures().into_iter().collect();
        assert_eq!((f["p50_ms"], f["p95_ms"], f["p99_ms"]), (1.0, 2.0, 2.0));
        assert_eq!(percentile(&Buckets::new(), 99.0), 0.0);
    }

    #[test]
    fn seconds_are_sums_over_all_nodes() {
        assert_eq!(load().seconds(), [[1.0, 200.0, 4.0]]);
    }

    #[test]
    fn every_metric_of_a_cell_is_a_figure() {
        let named: BTreeMap<&str, f64> = load().figures().into_iter().collect();
        for metric in metrics() {
            assert!(named.contains_key(metric.name.as_str()), "{}", metric.name);
            assert!(metric.title.len() <= 28, "a table has no room for {}", metric.title);
        }
    }
}
