use std::path::PathBuf;

use super::super::source;
use super::super::tests::files;
use super::*;

/// The layout with reports of our own short runs.
fn ours() -> Files {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/import/percona");
    source::read(&[folder]).unwrap()
}

fn rate(imported: &Imported, scenario: &str, tier: &str, server: &str, threads: u64) -> f64 {
    percona_tables::rate(imported, scenario, tier, server, &threads.to_string())
        .unwrap_or_else(|| panic!("{scenario}, {tier}, {server}, {threads}"))
}

#[test]
fn paths_say_what_a_file_is() {
    let place =
        Place::of("x/benchmark_remote_logs_read_only/percona-server/8.4.7-7/Tier12G_RW_512th.sysbench.txt");
    let place = place.unwrap();
    assert_eq!((place.scenario, place.tier_gb, place.threads), ("read-only network", 12, Some(512)));
    assert_eq!((place.server().name(), place.kind.as_str()), ("Percona Server 8.4.7-7".to_string(), REPORT));
    let place =
        Place::of("benchmark_logs/mariadb/10.11.16-MariaDB-ubu2204/Tier2G-pt-mysql-summary.txt").unwrap();
    assert_eq!((place.threads, place.kind.as_str()), (None, "pt-mysql-summary.txt"));
    assert_eq!(place.server().name(), "MariaDB 10.11.16");
    for other in
        ["benchmark_logs/mariadb/Tier2G_RW_1th.sysbench.txt", "b/m/v/Tier2G_RW_1th.sysbench.txt", "a"]
    {
        assert_eq!(Place::of(other), None, "{other}");
    }
    assert!(is_one("benchmark_logs/f/v/Tier2G_RW_1th.sysbench.txt"));
    assert!(!is_one("benchmark_logs/f/v/Tier2G_RW_1th.iostat.txt"));
}

#[test]
fn versions_are_ordered_by_their_numbers() {
    let server = |family: &str, version: &str| {
        Place::of(&format!("benchmark_logs/{family}/{version}/Tier2G.vars.txt")).unwrap().server()
    };
    let mut all = [
        server("zedb", "1.0"),
        server("percona-server", "5.7.44-48"),
        server("mysql", "8.0.45"),
        server("mariadb", "12.1.2-MariaDB-ubu2404"),
        server("custom-mysql", "9.7.0-er"),
        server("mariadb", "10.11.16-MariaDB-ubu2204"),
        server("mysql", "5.7.44"),
    ];
    all.sort();
    let names: Vec<String> = all.iter().map(Server::name).collect();
    assert_eq!(
        names,
        [
            "MariaDB 10.11.16",
            "MariaDB 12.1.2",
            "MySQL 5.7.44",
            "MySQL 8.0.45",
            "custom MySQL 9.7.0-er",
            "Percona Server 5.7.44-48",
            "zedb 1.0",
        ]
    );
}

#[test]
fn the_layout_with_our_own_reports_becomes_a_run() {
    let imported = import(ours()).unwrap();
    assert_eq!(imported.cells.len(), 8);
    assert!(imported.cells.iter().all(|c| c.cell.counts()), "{:?}", imported.run.notes);
    let axes: Vec<(&str, &[String])> =
        imported.run.axes.iter().map(|a| (a.name.as_str(), a.values.as_slice())).collect();
    let expected: [(&str, &[&str]); 4] = [
        ("server", &["MariaDB 11.8.6", "tidesdb 11.8.6"]),
        ("scenario", &["read-write local", "read-only local"]),
        ("tier", &["2 GB"]),
        ("threads", &["1", "4"]),
    ];
    for ((name, values), (axis, wanted)) in axes.iter().zip(expected) {
        assert_eq!((*name, values.iter().map(String::as_str).collect::<Vec<_>>()), (axis, wanted.to_vec()));
    }
    let four = imported.cells.iter().find(|c| c.files.len() == 2).expect("one cell has telemetry");
    assert_eq!(four.files[1].0, "vmstat.txt");
    assert_eq!(four.series[0].1.rows.len(), 3);
    let facts = &imported.run.servers["MariaDB 11.8.6"];
    assert_eq!(facts.settings["innodb_buffer_pool_size"], "64M");
    assert_eq!(facts.variables["innodb_buffer_pool_size"], "67108864");
    assert_eq!(imported.files.len(), 3, "options, variables, status: {:?}", imported.run.notes);
    assert!(
        imported.tables.contains("read-only local, 2 GB: transactions/s by threads"),
        "{}",
        imported.tables
    );
}

#[test]
fn nothing_strange_is_dropped_silently() {
    let whole = ours();
    let report = |threads: u64| {
        let name = format!("benchmark_logs/tidesdb/11.8.6/Tier2G_RW_{threads}th.sysbench.txt");
        whole.files.iter().find(|f| f.path == name).unwrap().text()
    };
    let reads = whole.files.iter().find(|f| f.path.starts_with("benchmark_logs_read_only/")).unwrap().text();
    let (one, four) = (report(1), report(4));
    let p = |file: &str| format!("benchmark_logs/m/1/{file}");
    let (a, b, c, d, e) = (
        p("Tier2G_RW_1th.sysbench.txt"),
        p("Tier2G_RW_16th.sysbench.txt"),
        p("Tier2G_RW_4th.sysbench.txt"),
        p("Tier12G_RW_4th.sysbench.txt"),
        p("Tier12G_RW_1th.sysbench.txt"),
    );
    let other = one.replace("reconn/s: 0.00", "reconn/s: 0.01");
    let imported = import(files(&[
        (&a, &one),
        (&a, &one),
        (&a, &other),
        (&b, &one),
        (&c, ""),
        (&d, &reads),
        (&e, &four[..four.len() / 2]),
        (&p("Tier2G_RW_4th.perf.txt"), "?"),
        (&p("Tier2G_RW_8th.iostat.txt"), "x"),
        ("README.md", "hello"),
    ]))
    .unwrap();
    let failed: Vec<&str> =
        imported.cells.iter().filter(|c| !c.cell.counts()).map(|c| c.cell.failures[0].as_str()).collect();
    assert_eq!((imported.cells.len(), failed.len()), (6, 4), "{failed:?}");
    assert_eq!(imported.files.len(), 3);
    for said in [
        "README.md is not of the layout: it is kept and not read",
        "have the same contents, byte for byte: they are one measurement",
        "have the same contents, byte for byte: one of them is no measurement of what its name says",
        "has labels that are taken: it stands as round 2",
        "does not count: its name says 16 threads, its report 1",
        "does not count: the file is empty",
        "does not count: it printed no final report",
        "does not count: its folder says read-write, its report counts no write",
        "Tier2G_RW_4th.perf.txt: what it is is not known; it is kept",
        "Tier2G_RW_8th.iostat.txt belongs to no report; it is kept",
    ] {
        assert!(
            imported.run.notes.iter().any(|n| n.contains(said)),
            "{said} is not in {:#?}",
            imported.run.notes
        );
    }
}

/// The published archive: `TIDELAB_PERCONA_DATA`, or a folder next to the repository.
fn archive() -> Option<PathBuf> {
    let near = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/percona-2026.tar.xz");
    let further =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/percona-2026.tar.xz");
    let named = std::env::var_os("TIDELAB_PERCONA_DATA").map(PathBuf::from);
    named.into_iter().chain([near, further]).find(|path| path.exists())
}

/// The figures in the report, from its text. All of them must come out of its data.
#[test]
fn the_published_figures_come_out_of_the_published_data() {
    let Some(archive) = archive() else {
        eprintln!("skipped: percona-2026.tar.xz is not here (TIDELAB_PERCONA_DATA names it)");
        return;
    };
    let imported = import(source::read(&[archive]).unwrap()).unwrap();
    assert_eq!(imported.cells.len(), 984);
    let failed: Vec<&ImportedCell> = imported.cells.iter().filter(|c| !c.cell.counts()).collect();
    assert_eq!(failed.len(), 1, "one of the published reports is empty");
    assert_eq!(failed[0].cell.failures, ["the file is empty"]);
    let empty = "benchmark_logs/mysql/5.7.44/Tier2G_RW_512th.sysbench.txt does not count: the file is empty";
    assert!(imported.run.notes.iter().any(|n| n == empty), "{:#?}", imported.run.notes);
    let (rw, ro, net) = ("read-write local", "read-only local", "read-write network");
    let (ma1011, ma121) = ("MariaDB 10.11.16", "MariaDB 12.1.2");
    let (my57, my80, my84, my96) = ("MySQL 5.7.44", "MySQL 8.0.45", "MySQL 8.4.8", "MySQL 9.6.0");
    let (ps57, ps80, ps84) =
        ("Percona Server 5.7.44-48", "Percona Server 8.0.45-36", "Percona Server 8.4.7-7");
    for (scenario, tier, server, threads, published) in [
        (rw, "32 GB", ps84, 512, 13_385.0),
        (rw, "32 GB", my84, 512, 13_325.0),
        (rw, "32 GB", my57, 64, 7_338.0),
        (rw, "32 GB", my57, 512, 3_144.0),
        (rw, "12 GB", ps57, 512, 1_385.0),
        (rw, "12 GB", my80, 512, 1_144.0),
        (rw, "2 GB", ps57, 512, 813.0),
        (ro, "32 GB", ma1011, 128, 32_392.0),
        (ro, "32 GB", my57, 32, 13_684.0),
        (ro, "32 GB", my57, 512, 3_889.0),
        (net, "32 GB", my84, 512, 12_781.0),
        (net, "32 GB", my96, 512, 12_715.0),
        (net, "32 GB", ps84, 512, 13_076.0),
        (net, "32 GB", ma1011, 128, 10_050.0),
        (net, "32 GB", ma1011, 512, 4_088.0),
        (net, "12 GB", ps57, 512, 1_417.0),
        (net, "2 GB", ps57, 512, 842.0),
    ] {
        let found = rate(&imported, scenario, tier, server, threads);
        assert_eq!(found.round(), published, "{scenario}, {tier}, {server}, {threads} threads: {found}");
    }
    let peak = |scenario: &str, tier: &str, server: &str| {
        let all = [1, 4, 16, 32, 64, 128, 256, 512].map(|n| rate(&imported, scenario, tier, server, n));
        all.into_iter().fold(0.0, f64::max)
    };
    assert_eq!(peak(net, "12 GB", ps80).round(), 797.0);
    assert_eq!(peak(ro, "2 GB", ma121).round(), 1_753.0);
    assert!((3_650.0..3_690.0).contains(&peak(ro, "12 GB", my84)), "{}", peak(ro, "12 GB", my84));
    let lead = rate(&imported, ro, "32 GB", ma1011, 128);
    let next = imported.run.axes[0].values.iter().filter(|s| *s != ma1011 && !s.starts_with("MariaDB"));
    let next = next.filter(|s| !s.starts_with("custom")).map(|s| peak(ro, "32 GB", s)).fold(0.0, f64::max);
    assert!((lead / next - 1.38).abs() < 0.01, "38 % ahead: {}", lead / next);
    assert!(imported.tables.contains("13385"), "{}", imported.tables);
    let facts = &imported.run.servers[ma1011];
    assert_eq!(facts.settings["innodb_buffer_pool_size"], "2G at 2 GB, 12G at 12 GB, 32G at 32 GB");
    assert!(!facts.variables.is_empty());
    let seconds: usize = imported.cells.iter().flat_map(|c| &c.series).map(|(_, s)| s.rows.len()).sum();
    assert_eq!(seconds, 884_645);
}
