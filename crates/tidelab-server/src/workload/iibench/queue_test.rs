use super::*;
use crate::workload::iibench::dsn::Endpoint;

/// The published queue, word for word.
const PUBLISHED: &str = include_str!("testdata/published-queue.toml");

fn published() -> Vec<Task> {
    parse(PUBLISHED, &Changes::default()).unwrap()
}

/// A task with these keys, and the few required ones.
fn with(keys: &str) -> std::result::Result<Task, String> {
    let text = format!("[defaults]\ndsn = \"u@unix(/s)/d\"\n[[task]]\nname = \"t\"\n{keys}");
    parse(&text, &Changes::default()).map(|tasks| tasks[0].clone())
}

fn refused(keys: &str) -> String {
    with(keys).unwrap_err()
}

#[test]
fn the_published_queue_is_understood_as_it_is() {
    let tasks = published();
    let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "innodb_load_30M",
            "innodb_mixed_15m",
            "tidesdb_load_30M",
            "tidesdb_mixed_15m",
            "rocksdb_load_30M",
            "rocksdb_mixed_15m"
        ]
    );
    let load = &tasks[2];
    assert_eq!(load.dsn.endpoint, Endpoint::Unix("/tmp/mariadb.sock".into()));
    assert_eq!((load.dialect, load.table.as_str()), (Some(Dialect::MariaDb), "purchases_tides"));
    assert_eq!(load.create.as_deref(), Some("ENGINE=TidesDB DEFAULT CHARSET=utf8mb4"));
    assert_eq!(
        load.shape,
        Shape { secondary_indexes: 3, char_fields: 4, char_length: 100, percent_compressible: 30 }
    );
    assert_eq!(
        load.writers,
        Writers {
            threads: 16,
            rows_per_insert: 1000,
            max_rows: Some(30_000_000),
            rows_per_second: None,
            delete: false
        }
    );
    assert_eq!(load.queries.threads, 0);
    assert_eq!(
        (load.duration, load.report_every),
        (Some(Duration::from_secs(1200)), Duration::from_secs(10))
    );
    assert_eq!(load.log_file, "tidesdb_load.tsv");

    let mixed = &tasks[5];
    assert_eq!((mixed.create.as_ref(), mixed.table.as_str()), (None, "purchases_rocks"));
    assert_eq!((mixed.writers.threads, mixed.writers.rows_per_second), (8, Some(30_000)));
    assert_eq!(mixed.writers.max_rows, None);
    assert_eq!(
        mixed.queries,
        Queries { threads: 8, per_second: Some(300.0), start_at_rows: 1_000_000, limit: 10 }
    );
    assert_eq!(mixed.duration, Some(Duration::from_secs(900)));
    assert_eq!(engines(&tasks).unwrap(), [Engine::InnoDb, Engine::TidesDb, Engine::RocksDb]);
}

#[test]
fn scaling_divides_rows_and_durations_and_keeps_rates() {
    let tasks = parse(PUBLISHED, &Changes { scale: Some(60.0), ..Changes::default() }).unwrap();
    assert_eq!(
        (tasks[0].writers.max_rows, tasks[0].duration),
        (Some(500_000), Some(Duration::from_secs(20)))
    );
    let mixed = &tasks[1];
    assert_eq!((mixed.duration, mixed.report_every), (Some(Duration::from_secs(15)), Duration::from_secs(1)));
    assert_eq!((mixed.writers.rows_per_second, mixed.queries.per_second), (Some(30_000), Some(300.0)));
    assert_eq!(mixed.queries.start_at_rows, 16_667);
    for wrong in [0.0, -1.0, f64::NAN] {
        assert!(parse(PUBLISHED, &Changes { scale: Some(wrong), ..Changes::default() }).is_err(), "{wrong}");
    }
}

#[test]
fn another_server_and_some_tasks_alone() {
    let changes = Changes {
        dsn: Some(Dsn::parse("a@tcp(h:1)/x").unwrap()),
        only: vec!["rocksdb_load_30M".into(), "innodb_load_30M".into()],
        scale: None,
    };
    let tasks = parse(PUBLISHED, &changes).unwrap();
    let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["innodb_load_30M", "rocksdb_load_30M"], "in the queue's order");
    assert!(tasks.iter().all(|task| task.dsn.to_string() == "a@tcp(h:1)/x"));
    let error = parse(PUBLISHED, &Changes { only: vec!["x".into()], ..Changes::default() }).unwrap_err();
    assert!(error.contains("no task x") && error.contains("tidesdb_mixed_15m"), "{error}");
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_known() {
    let error = refused("writer_thread = 4\nduration = \"1s\"");
    assert!(error.contains("task t: there is no key writer_thread; is writer_threads meant?"), "{error}");
    let error =
        parse("[defaults]\nrow_per_inserts = 3\n[[task]]\nname=\"t\"", &Changes::default()).unwrap_err();
    assert!(
        error.contains("[defaults]: there is no key row_per_inserts; is rows_per_insert meant?"),
        "{error}"
    );
    let error = refused("colour = 1");
    assert!(error.contains("no key colour; known are name, table"), "{error}");
    let error = parse("[defaultz]\n", &Changes::default()).unwrap_err();
    assert!(error.contains("defaultz"), "{error}");
    let error = parse("[defaults]\nlog_file = \"x\"\n", &Changes::default()).unwrap_err();
    assert!(error.contains("log_file belongs to one task"), "{error}");
}

#[test]
fn every_key_is_known_in_both_lists() {
    for key in KEYS {
        let text = format!("[[task]]\n{key} = []\n");
        let error = toml::from_str::<File>(&text).unwrap_err().to_string();
        assert!(!error.contains("unknown field"), "{key}: {error}");
    }
    let error = toml::from_str::<File>("[[task]]\nx = 1\n").unwrap_err().to_string();
    let named = error.matches('`').count() / 2 - 1;
    assert!(error.contains("unknown field"), "{error}");
    // The message lists all fields, and quotes the unknown one and each of them.
    assert_eq!(named, KEYS.len(), "{error}");
}

#[test]
fn a_key_that_does_nothing_is_refused() {
    for (keys, said) in [
        (
            "writer_threads = 1\nduration = \"1s\"\nqueries_per_second = 3.0",
            "queries_per_second does nothing",
        ),
        ("writer_threads = 1\nduration = \"1s\"\nquery_limit = 3", "query_limit does nothing"),
        (
            "writer_threads = 1\nduration = \"1s\"\ntable_options = \"ENGINE=InnoDB\"",
            "without create_table = true",
        ),
        ("query_threads = 1\nduration = \"1s\"\nmax_rows_per_second = 3", "max_rows_per_second does nothing"),
        ("query_threads = 1\nduration = \"1s\"\ndelete_per_insert = true", "delete_per_insert does nothing"),
    ] {
        assert!(refused(keys).contains(said), "{}", refused(keys));
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    for (keys, said) in [
        ("duration = \"1s\"", "neither writer_threads nor query_threads"),
        ("writer_threads = 1", "no end"),
        ("query_threads = 1", "no end"),
        ("writer_threads = 1\nduration = \"1 s\"", "duration: '1 s' is no duration"),
        ("writer_threads = 1\nduration = \"0s\"", "duration is 0"),
        ("writer_threads = 1\nduration = 20", "invalid type"),
        ("writer_threads = 1\nduration = \"1s\"\nreport_every = \"1500ms\"", "whole seconds"),
        ("writer_threads = 5000\nduration = \"1s\"", "too many"),
        ("writer_threads = 1\nduration = \"1s\"\ndriver = \"postgres\"", "no driver 'postgres'"),
        ("writer_threads = 1\nduration = \"1s\"\ndialect = \"oracle\"", "no dialect 'oracle'"),
        ("writer_threads = 1\nduration = \"1s\"\ndsn = \"x\"", "dsn: it has no slash"),
        ("writer_threads = 1\nduration = \"1s\"\ntable = \"a.b\"", "no name of a table"),
        ("writer_threads = 1\nduration = \"1s\"\nnum_secondary_indexes = 4", "num_secondary_indexes"),
        ("writer_threads = 1\nduration = \"1s\"\npercent_compressible = 101", "percent_compressible"),
        ("writer_threads = 1\nduration = \"1s\"\nrows_per_insert = 0", "inserts nothing"),
        ("writer_threads = 1\nduration = \"1s\"\nrows_per_insert = 20000", "placeholders"),
        ("writer_threads = 1\nduration = \"1s\"\nlog_file = \"../x.tsv\"", "no file name"),
        ("writer_threads = 1\nmax_rows_total = 0", "above 0"),
    ] {
        assert!(refused(keys).contains(said), "{keys}: {}", refused(keys));
    }
    let twice =
        "[defaults]\ndsn=\"u@/d\"\nwriter_threads=1\nduration=\"1s\"\n[[task]]\nname=\"a\"\n[[task]]\nname=";
    let of = |second: &str| parse(&format!("{twice}{second}"), &Changes::default()).unwrap_err();
    assert!(of("\"a\"").contains("two tasks are called a"));
    assert!(of("\"b\"\nlog_file=\"a.tsv\"").contains("both write a.tsv"));
    assert!(parse("", &Changes::default()).unwrap_err().contains("no [[task]]"));
}

#[test]
fn what_is_left_out_is_as_documented() {
    let task = with("writer_threads = 1\nmax_rows_total = 10").unwrap();
    assert_eq!((task.table.as_str(), task.log_file.as_str()), ("purchases_index", "t.tsv"));
    assert_eq!((task.writers.rows_per_insert, task.shape.secondary_indexes), (1000, 3));
    assert_eq!((task.create, task.duration, task.dialect), (None, None, None));
}

#[test]
fn the_engine_is_read_from_the_options() {
    for (options, engine) in [
        ("ENGINE=InnoDB ROW_FORMAT=DYNAMIC", Some("InnoDB")),
        ("engine = 'ROCKSDB', CHARSET=utf8mb4", Some("ROCKSDB")),
        ("Engine TidesDB", Some("TidesDB")),
        ("CHARSET=utf8mb4", None),
    ] {
        let task = with(&format!(
            "writer_threads = 1\nmax_rows_total = 1\ncreate_table = true\ntable_options = \"{options}\""
        ));
        assert_eq!(task.unwrap().engine_name(), engine, "{options}");
    }
}
