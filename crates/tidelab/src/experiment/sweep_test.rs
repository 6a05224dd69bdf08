use std::collections::HashSet;
use std::path::Path;

use tidelab_server::interrupt::Interrupt;

use super::*;
use crate::run::Conductor as _;

fn options(text: &str) -> std::result::Result<Options, toml::de::Error> {
    toml::from_str(&format!("engines = ['TidesDB', 'InnoDB']\nrounds = 2\nrows = 100\ncache_mb = 64\n{text}"))
}

/// The groups and the run, or the error.
fn opened<T>(options: Options, look: impl FnOnce(&Conductor<'_>, &Run) -> T) -> Result<T> {
    let interrupt = Interrupt::default();
    let nowhere = Path::new("/nowhere");
    let paths = Paths {
        prefix: nowhere,
        plugin: nowhere,
        data: nowhere,
        file_folder: nowhere,
        interrupt: &interrupt,
    };
    let mut run = Run::new("t", "T", "sweep");
    let conductor = Conductor::open(options, paths, &mut run)?;
    Ok(look(&conductor, &run))
}

fn refused(text: &str) -> String {
    match options(text) {
        Ok(options) => opened(options, |_, _| ()).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn one_sweep_or_several() {
    let one = options("[sweep]\nvariable = 'threads'\nvalues = [1, 8]\nworkload = 'read_write'\n").unwrap();
    opened(one, |conductor, run| {
        let groups = conductor.groups();
        assert_eq!(groups.len(), 2 * 2 * 2);
        let order: Vec<String> = groups.iter().map(|g| g.cells[0].folder()).collect();
        // By engine, value, workload: competitors take turns, and all rotates from round to round.
        assert_eq!(order[0], "TidesDB-1-read_write-by-threads-r1");
        assert_eq!(order[1], "InnoDB-1-read_write-by-threads-r1");
        assert_eq!(order[4], "InnoDB-8-read_write-by-threads-r2");
        assert_eq!((run.axes[2].title.as_str(), run.axes[2].role), ("threads", Role::Number));
        assert!(run.metrics.iter().any(|m| m.name == "transactions_per_s"));
        assert!(!run.metrics.iter().any(|m| m.name == "wall_s"));
    })
    .unwrap();

    let several = options(
        "[[sweep]]\nvariable = 'rows_per_transaction'\nvalues = [10, 100]\nworkload = 'insert_select'\n\
         [[sweep]]\nvariable = 'tidesdb_unified_memtable_write_buffer_size'\nvalues = ['8M', '64M']\nworkload = 'add_index'\n",
    );
    opened(several.unwrap(), |conductor, run| {
        let groups = conductor.groups();
        // The variable of one engine is swept on that one alone.
        assert_eq!(groups.len(), 2 * (2 * 2 + 2));
        let ids: HashSet<String> = groups.iter().flat_map(|g| &g.cells).map(CellId::folder).collect();
        assert_eq!(ids.len(), groups.len());
        assert_eq!(run.axes[2].values, ["10", "100", "8388608", "67108864"]);
        assert!(groups.iter().flat_map(|g| &g.cells).all(|id| conductor.point(id).is_some()));
        assert!(run.metrics.iter().any(|m| m.name == "wall_s" && m.main));
    })
    .unwrap();
}

#[test]
fn a_value_reaches_the_server_or_the_client() {
    let options = options(
        "set = { innodb_log_file_size = '64M', tidesdb_flush_threads = '2' }\n\
         [[sweep]]\nvariable = 'rows_per_transaction'\nvalues = [10]\nworkload = 'insert_select'\n\
         [[sweep]]\nvariable = 'tidesdb_block_cache_size'\nvalues = ['8M']\nworkload = 'point_select'\n",
    );
    opened(options.unwrap(), |conductor, _| {
        let groups = conductor.groups();
        let of = |at: usize| conductor.point(&groups[at].cells[0]).unwrap();
        let value = |point: &Point<'_>, name: &str| {
            let settings = conductor.settings(point);
            settings.iter().find(|s| s.name == name).map(|s| s.value.clone())
        };
        let (client, innodb, server) = (of(0), of(1), of(2));
        assert_eq!(client.number("rows_per_transaction", 7), 10);
        assert_eq!(value(&client, "tidesdb_block_cache_size").as_deref(), Some("67108864"));
        assert_eq!(value(&client, "tidesdb_flush_threads").as_deref(), Some("2"));
        assert_eq!(innodb.engine, Engine::InnoDb);
        assert_eq!(value(&innodb, "tidesdb_flush_threads"), None, "it has no such variable");
        assert_eq!(value(&innodb, "innodb_log_file_size").as_deref(), Some("64M"));
        assert_eq!(server.number("rows_per_transaction", 7), 7);
        assert_eq!(value(&server, "tidesdb_block_cache_size").as_deref(), Some("8M"));
        assert_eq!(value(&server, "tidesdb_max_memory_usage"), None);
    })
    .unwrap();
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let sweep = |text: &str| format!("[sweep]\n{text}");
    for (text, said) in [
        (sweep("variable = 'x'\nvalues = [1]\nworkload = 'tpch'"), "tpch"),
        (sweep("variable = 'rows_per_transaction'\nvalues = [1]\nworkload = 'add_index'"), "says nothing of"),
        (sweep("variable = 'threads'\nvalues = [1]\nworkload = 'insert_select'"), "says nothing of"),
        (sweep("variable = 'threads'\nvalues = []\nworkload = 'insert'"), "has no values"),
        (sweep("variable = 'threads'\nvalues = [0]\nworkload = 'insert'"), "above 0"),
        (sweep("variable = 'threads'\nvalues = ['many']\nworkload = 'insert'"), "above 0"),
        (sweep("variable = 'x'\nvalues = [[1]]\nworkload = 'insert'"), "number or a word"),
        (sweep("variable = 'x'\nvalues = ['1M', 1048576]\nworkload = 'insert'"), "twice"),
        (sweep("variable = 'rocksdb_x'\nvalues = [1]\nworkload = 'insert'"), "no engine has"),
        ("sweep = []".to_string(), "nothing is swept"),
        (format!("thread = 1\n{}", sweep("variable = 'x'\nvalues = [1]\nworkload = 'insert'")), "thread"),
    ] {
        let error = refused(&text);
        assert!(error.contains(said), "{said} is not in: {error}");
    }
}
