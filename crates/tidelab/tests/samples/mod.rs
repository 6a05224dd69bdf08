//! Invented runs: figures from a formula and a seeded generator, the same each time.
//!
//! They have everything possible in a report: rounds, several axes, failures, histograms, series, notes, and
//! names in the form of markup.

use std::fs;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab::run::{Axis, Better, Bound, Cell, CellId, Folder, Metric, Role, Run, Series};
use tidelab_server::server::facts::ServerFacts;
use tidelab_server::telemetry::machine::Machine;

/// A title with a script, harmful as markup.
pub const EVIL_TITLE: &str =
    "Three engines </script><script>window.pwned = 1</script> & <b>eight</b> threads";
pub const ENGINES: [&str; 3] = ["TidesDB", "InnoDB", "MyRocks"];
pub const WORKLOADS: [&str; 4] = ["point_select", "read_write", "update_index", "insert"];
pub const THREADS: [u32; 5] = [1, 4, 16, 64, 256];
pub const ROUNDS: u32 = 5;

fn axis(name: &str, title: &str, role: Role, values: impl IntoIterator<Item = impl ToString>) -> Axis {
    let values = values.into_iter().map(|v| v.to_string()).collect();
    Axis { name: name.into(), title: title.into(), role, values }
}

fn machine() -> Machine {
    Machine {
        cpu: "A processor of the sample".into(),
        cpus: 2,
        memory_bytes: 24 << 30,
        kernel: "6.1.0".into(),
        system: "Debian GNU/Linux 12 (bookworm)".into(),
        file_system: "ext4".into(),
        free_bytes: 100 << 30,
        load_before: 0.1,
    }
}

fn metrics() -> Vec<Metric> {
    vec![
        Metric::main("transactions_per_s", "Transactions", "1/s", Better::Higher),
        Metric::main("p99_ms", "p99", "ms", Better::Lower),
        Metric::main("server_cpu_us", "Server CPU a statement", "us", Better::Lower),
        Metric::detail("p50_ms", "p50", "ms", Better::Lower),
        Metric::detail("p95_ms", "p95", "ms", Better::Lower),
        Metric::detail("max_ms", "Longest", "ms", Better::Lower),
        Metric::detail("written_bytes", "Written to the device", "B", Better::Lower),
        Metric::detail("retried", "Retried", "", Better::Neither),
    ]
}

/// The answers of a server: its highest rate, and the number of threads at its bend.
struct Shape {
    most: f64,
    bend: f64,
}

impl Shape {
    fn rate(&self, threads: f64) -> f64 {
        self.most * threads / (threads + self.bend) * (1.0 - (threads / 900.0).min(0.4))
    }
}

/// The figures, a histogram and the files of one cell.
fn measured(
    folder: &mut Folder,
    id: CellId,
    rate: f64,
    threads: f64,
    seconds: u32,
    random: &mut StdRng,
    failure: Option<&str>,
) {
    let mut cell = Cell::new(id, 7);
    let p50 = 1000.0 * threads / rate;
    let drift = 1.0 + 0.03 * (random.random::<f64>() - 0.5);
    let rate = rate * drift;
    let making = folder.begin(&cell.id).unwrap();
    let mut series = Series::new(["transactions_per_s", "p95_ms", "errors_per_s"]);
    let mut telemetry =
        Series::new(["server_cpus", "disk_write_bytes_per_s", "disk_utilisation_percent", "resident_bytes"]);
    for at in 1..=seconds {
        let noise = 1.0 + 0.1 * (random.random::<f64>() - 0.5);
        let flush = if at % 47 < 3 { 0.55 } else { 1.0 };
        let at = f64::from(at);
        series.rows.push(vec![at, (rate * noise * flush).round(), p50 * 2.4 / (noise * flush), 0.0]);
        let busy = (threads / 16.0).min(1.9) * noise;
        telemetry.rows.push(vec![
            at,
            busy,
            4e6 * noise / flush,
            (30.0 * noise / flush).min(100.0),
            2e8 + at * 3e5,
        ]);
    }
    series.write(&making.join("seconds.csv")).unwrap();
    telemetry.write(&making.join("telemetry.csv")).unwrap();
    fs::write(making.join("load.txt"), "what the load printed\n").unwrap();
    cell.series = vec!["seconds.csv".into(), "telemetry.csv".into()];
    cell.files = vec!["load.txt".into()];
    for (name, value) in [
        ("transactions_per_s", rate),
        ("p50_ms", p50),
        ("p95_ms", p50 * 2.4),
        ("p99_ms", p50 * 4.0 * drift),
        ("max_ms", p50 * 60.0),
        ("server_cpu_us", 55.0 + 4000.0 / rate),
        ("written_bytes", 6e7 * drift),
        ("retried", (threads / 3.0).round()),
    ] {
        cell.figure(name, value);
    }
    // Latencies fall off like 2^-k from the middle on, with a shoulder at twenty times it.
    let bucket = |k: i32| {
        let shoulder = if k == 18 { 40.0 } else { 0.0 };
        let count = 20_000.0 * 0.5f64.powf(f64::from(k) / 2.0) + shoulder;
        (p50 * 1000.0 * 1.18f64.powi(k), count as u64)
    };
    cell.histograms.insert("transaction_us".into(), (0..30).map(bucket).filter(|(_, n)| *n > 0).collect());
    if let Some(failure) = failure {
        cell.failures.push(failure.to_string());
    }
    folder.finish(cell).unwrap();
}

/// Three engines, four workloads, five numbers of threads, five rounds; two combinations failed, one
/// of them in one round only. TidesDB's rates are multiplied by `speed`.
#[allow(clippy::too_many_lines, reason = "a made-up run")]
pub fn engines(parent: &Path, speed: f64) -> PathBuf {
    let mut run = Run::new("sample-engines", EVIL_TITLE, "sysbench");
    run.about = "A sample: no server was measured. Its figures come from a formula.".into();
    run.machine = Some(machine());
    run.axes = vec![
        axis("engine", "Engine", Role::Competitor, ENGINES),
        axis("workload", "Workload", Role::Category, WORKLOADS),
        axis("threads", "Threads", Role::Number, THREADS),
    ];
    run.metrics = metrics();
    run.reference = Some("InnoDB".into());
    run.notes = vec![
        "The largest cache is 64 MB; <img src=x onerror=\"window.pwned = 2\"> is text.".into(),
        "MyRocks: rocksdb_cache_index_and_filter_blocks is OFF by rule \"small-cache\".".into(),
    ];
    run.design = serde_json::json!({"rounds": ROUNDS, "load": {"tables": 1, "rows": 100_000, "time_s": 60}});
    for (engine, cache) in [
        ("TidesDB", "tidesdb_block_cache_size"),
        ("InnoDB", "innodb_buffer_pool_size"),
        ("MyRocks", "rocksdb_block_cache_size"),
    ] {
        let pairs = |more: (&str, &str)| {
            [("version", "11.8.6-MariaDB"), ("tx_isolation", "REPEATABLE-READ"), more]
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .into()
        };
        let facts = ServerFacts {
            version: "11.8.6-MariaDB".into(),
            prefix: "/cache/mariadb".into(),
            settings: pairs((cache, "64M")),
            read_back: pairs((cache, "67108864")),
            variables: pairs(("innodb_flush_log_at_trx_commit", if engine == "InnoDB" { "0" } else { "1" })),
        };
        run.servers.insert(engine.into(), facts);
    }
    run.files = vec!["rules.toml".into()];
    for (workload, threads, value) in [("point_select", 8.0, 20_000.0), ("read_write", 8.0, 9_000.0)] {
        for (n, what) in ["BLACKHOLE", "MEMORY"].into_iter().enumerate() {
            run.bounds.push(Bound {
                labels: [("workload".to_string(), workload.to_string())].into(),
                metric: "transactions_per_s".into(),
                what: format!("sysbench {workload} on {what}, {threads} clients"),
                value: value / (n as f64 + 1.0),
                driver_cpu_us: 18.0,
                server_cpu_us: 31.0,
            });
        }
    }
    run.ended_unix_s = Some(run.started_unix_s + 5400);
    let mut folder = Folder::create(parent, &run).unwrap();
    fs::write(
        folder.path().join("rules.toml"),
        "# How settings are aligned\n[cache]\nTidesDB = \"block cache\"\n",
    )
    .unwrap();
    let mut random = StdRng::seed_from_u64(11);
    for round in 1..=ROUNDS {
        for (w, workload) in WORKLOADS.iter().enumerate() {
            for threads in THREADS {
                for turn in 0..ENGINES.len() {
                    let engine = ENGINES[(turn + round as usize) % ENGINES.len()];
                    let shape = match engine {
                        "TidesDB" => {
                            Shape { most: [21_000.0, 2_300.0, 14_000.0, 19_000.0][w] * speed, bend: 6.0 }
                        }
                        "InnoDB" => Shape { most: [21_100.0, 2_000.0, 8_000.0, 12_000.0][w], bend: 5.0 },
                        _ => Shape { most: [13_000.0, 1_500.0, 9_000.0, 12_100.0][w], bend: 8.0 },
                    };
                    let rate = shape.rate(f64::from(threads));
                    let failure = match (engine, *workload, threads, round) {
                        ("MyRocks", "insert", 256, _) => Some("the load ended early: error 1180 at COMMIT"),
                        ("TidesDB", "read_write", 64, 3) => Some("sbtest1: 99999 rows where 100000 belong"),
                        _ => None,
                    };
                    let labels = [
                        ("engine", engine.to_string()),
                        ("workload", workload.to_string()),
                        ("threads", threads.to_string()),
                    ];
                    let id = CellId::new(labels, round);
                    measured(&mut folder, id, rate, f64::from(threads), 60, &mut random, failure);
                }
            }
        }
    }
    folder.path().to_path_buf()
}

/// Versions of two families, one round, long series, as an import has them.
pub fn versions(parent: &Path, seconds: u32) -> PathBuf {
    let servers =
        ["MySQL 5.7", "MySQL 8.0", "MySQL 8.4", "MySQL 9.7", "MariaDB 10.5", "MariaDB 10.11", "MariaDB 11.8"];
    grid(parent, &servers, &["2 GB", "32 GB"], &["read-write", "read-only"], &[1, 16, 128], seconds)
}

/// As many cells as the largest import.
#[allow(dead_code)]
pub fn large(parent: &Path) -> PathBuf {
    let servers: Vec<String> =
        (0..21).map(|n| format!("{} {}.{}", ["MySQL", "MariaDB", "Percona"][n / 7], 5 + n % 7, n)).collect();
    let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
    let tiers = ["2 GB", "12 GB", "32 GB"];
    grid(parent, &servers, &tiers, &["read-write", "read-only"], &[1, 4, 16, 32, 64, 128, 256, 512], 1800)
}

fn grid(
    parent: &Path,
    servers: &[&str],
    tiers: &[&str],
    scenarios: &[&str],
    threads: &[u32],
    seconds: u32,
) -> PathBuf {
    let mut run = Run::new("sample-versions", "Versions of two families", "import");
    run.tidelab.clear();
    run.axes = vec![
        axis("server", "Server", Role::Competitor, servers),
        axis("tier", "Memory", Role::Category, tiers),
        axis("scenario", "Scenario", Role::Category, scenarios),
        axis("threads", "Threads", Role::Number, threads),
    ];
    run.metrics = metrics();
    run.reference = Some(servers[0].to_string());
    run.ended_unix_s = Some(run.started_unix_s);
    let mut folder = Folder::create(parent, &run).unwrap();
    let mut random = StdRng::seed_from_u64(12);
    for (s, server) in servers.iter().enumerate() {
        for (t, tier) in tiers.iter().enumerate() {
            for (c, scenario) in scenarios.iter().enumerate() {
                for threads in threads {
                    let most = 2_000.0 * (1.0 + t as f64) * (1.0 + 1.5 * c as f64) * (1.0 - 0.04 * s as f64);
                    let rate = Shape { most, bend: 12.0 }.rate(f64::from(*threads));
                    let labels = [
                        ("server", server.to_string()),
                        ("tier", tier.to_string()),
                        ("scenario", scenario.to_string()),
                        ("threads", threads.to_string()),
                    ];
                    let id = CellId::new(labels, 1);
                    measured(&mut folder, id, rate, f64::from(*threads), seconds, &mut random, None);
                }
            }
        }
    }
    folder.path().to_path_buf()
}
