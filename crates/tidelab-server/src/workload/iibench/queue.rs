//! The queue: a TOML file with `[defaults]` and one `[[task]]` for each load, run in its order.
//!
//! An unknown key is refused with the nearest known one, and so is a key without an effect in its task: a
//! mistyped queue must not be measured.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock;
use super::dsn::Dsn;
use super::schema::Shape;
use crate::error::{io_error, Error, Result};
use crate::server::engine::Engine;

/// The server takes so many placeholders in a statement.
const PLACEHOLDERS: u64 = 65_535;
/// More clients than this are a mistake.
const MOST_THREADS: u32 = 4096;

/// The keys of a table, as they stand in the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    name: Option<String>,
    table: Option<String>,
    log_file: Option<String>,
    driver: Option<String>,
    dialect: Option<String>,
    dsn: Option<String>,
    create_table: Option<bool>,
    table_options: Option<String>,
    num_secondary_indexes: Option<u32>,
    num_char_fields: Option<u32>,
    length_char_fields: Option<u32>,
    percent_compressible: Option<u32>,
    rows_per_insert: Option<u32>,
    writer_threads: Option<u32>,
    max_rows_total: Option<u64>,
    max_rows_per_second: Option<u64>,
    delete_per_insert: Option<bool>,
    query_threads: Option<u32>,
    queries_per_second: Option<f64>,
    query_start_at_rows: Option<u64>,
    query_limit: Option<u32>,
    duration: Option<String>,
    report_every: Option<String>,
    seed: Option<u64>,
}

/// All names of [`Keys`].
const KEYS: [&str; 24] = [
    "name",
    "table",
    "log_file",
    "driver",
    "dialect",
    "dsn",
    "create_table",
    "table_options",
    "num_secondary_indexes",
    "num_char_fields",
    "length_char_fields",
    "percent_compressible",
    "rows_per_insert",
    "writer_threads",
    "max_rows_total",
    "max_rows_per_second",
    "delete_per_insert",
    "query_threads",
    "queries_per_second",
    "query_start_at_rows",
    "query_limit",
    "duration",
    "report_every",
    "seed",
];

/// Keys of one task alone: they cannot be a default.
const OF_ONE_TASK: [&str; 2] = ["name", "log_file"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    defaults: Keys,
    #[serde(default)]
    task: Vec<Keys>,
}

/// The server's family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// MariaDB's.
    MariaDb,
    /// MySQL's.
    MySql,
}

/// The rate and duration of the writers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Writers {
    /// Clients.
    pub threads: u32,
    /// Rows of one statement.
    pub rows_per_insert: u32,
    /// The most inserted rows; none: as long as the task lasts.
    pub max_rows: Option<u64>,
    /// Rows a second of all clients together; none: as fast as they can.
    pub rows_per_second: Option<u64>,
    /// One more client deletes as many rows at the low end of the key.
    pub delete: bool,
}

/// The rate of the queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Queries {
    /// Clients; none for no queries.
    pub threads: u32,
    /// Of all clients together; none: as fast as they can.
    pub per_second: Option<f64>,
    /// They begin when the table has so many rows.
    pub start_at_rows: u64,
    /// The most rows returned by one.
    pub limit: u32,
}

/// One load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Task {
    /// Its name; no two are alike.
    pub name: String,
    /// The data source.
    #[serde(serialize_with = "as_text")]
    pub dsn: Dsn,
    /// The server's family; none for any.
    pub dialect: Option<Dialect>,
    /// The table.
    pub table: String,
    /// The table is dropped where there is one, and made anew with these options; none: it is there.
    pub create: Option<String>,
    /// The columns and indexes of the table.
    pub shape: Shape,
    /// The writers.
    pub writers: Writers,
    /// The readers.
    pub queries: Queries,
    /// The longest time; none: until all rows are in.
    pub duration: Option<Duration>,
    /// The interval of lines, in whole seconds.
    pub report_every: Duration,
    /// The file of the lines, in the folder of the run.
    pub log_file: String,
    /// The seed of the rows.
    pub seed: u64,
}

fn as_text<S: serde::Serializer>(dsn: &Dsn, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(dsn)
}

impl Task {
    /// The engine in its table's options; none if they name none.
    pub fn engine_name(&self) -> Option<&str> {
        let options = self.create.as_deref()?;
        let at = options.to_ascii_lowercase().find("engine")?;
        let rest = options[at + "engine".len()..].trim_start();
        let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
        let end = rest.find(|c: char| c.is_whitespace() || c == ',').unwrap_or(rest.len());
        Some(rest[..end].trim_matches(['\'', '"', '`'])).filter(|name| !name.is_empty())
    }
}

/// The changes of the command line.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Another server for all tasks.
    pub dsn: Option<Dsn>,
    /// Numbers of rows and durations are divided by it; rates stay.
    pub scale: Option<f64>,
    /// These tasks alone, in the queue's order; empty for all.
    pub only: Vec<String>,
}

/// Reads a queue. The error names the file, the task and the key.
pub fn read(path: &Path, changes: &Changes) -> Result<Vec<Task>> {
    let text = fs::read_to_string(path).map_err(io_error("cannot read", path))?;
    parse(&text, changes).map_err(|what| Error::Usage(format!("{}: {what}", path.display())))
}

/// Reads the text of a queue.
pub fn parse(text: &str, changes: &Changes) -> std::result::Result<Vec<Task>, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    known_keys(&table)?;
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    if file.task.is_empty() {
        return Err("there is no [[task]]".to_string());
    }
    let scale = changes.scale.unwrap_or(1.0);
    if !(scale.is_finite() && scale > 0.0) {
        return Err(format!("it cannot be scaled by {scale}"));
    }
    let mut tasks: Vec<Task> = Vec::new();
    for (n, keys) in file.task.iter().enumerate() {
        let name = keys.name.clone().ok_or_else(|| format!("task {} has no name", n + 1))?;
        let task = task(name.clone(), keys, &file.defaults, changes)
            .map_err(|what| format!("task {name}: {what}"))?;
        if tasks.iter().any(|other| other.name == task.name) {
            return Err(format!("two tasks are called {name}"));
        }
        if let Some(other) = tasks.iter().find(|other| other.log_file == task.log_file) {
            return Err(format!("{} and {name} both write {}", other.name, task.log_file));
        }
        tasks.push(scaled(task, scale));
    }
    for only in &changes.only {
        if !tasks.iter().any(|task| task.name == *only) {
            let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
            return Err(format!("there is no task {only}: {}", names.join(", ")));
        }
    }
    if !changes.only.is_empty() {
        tasks.retain(|task| changes.only.contains(&task.name));
    }
    Ok(tasks)
}

/// Refuses keys unknown to the file's tables.
fn known_keys(file: &toml::Table) -> std::result::Result<(), String> {
    for (key, value) in file {
        let wrong = || format!("[{key}] is not written as a queue has it: [defaults], [[task]]");
        match (key.as_str(), value) {
            ("defaults", toml::Value::Table(table)) => {
                known_of("[defaults]", table)?;
                if let Some(key) = OF_ONE_TASK.into_iter().find(|key| table.contains_key(*key)) {
                    return Err(format!("[defaults]: {key} belongs to one task"));
                }
            }
            ("task", toml::Value::Array(tasks)) => {
                for (n, task) in tasks.iter().enumerate() {
                    let toml::Value::Table(table) = task else { return Err(wrong()) };
                    let name = table.get("name").and_then(toml::Value::as_str);
                    let place = name.map_or(format!("task {}", n + 1), |name| format!("task {name}"));
                    known_of(&place, table)?;
                }
            }
            ("defaults" | "task", _) => return Err(wrong()),
            _ => {
                return Err(format!("there is no key {key} outside of [defaults] and [[task]]{}", near(key)))
            }
        }
    }
    Ok(())
}

fn known_of(place: &str, table: &toml::Table) -> std::result::Result<(), String> {
    match table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        Some(key) => Err(format!("{place}: there is no key {key}{}", near(key))),
        None => Ok(()),
    }
}

/// The known key nearest to an unknown one.
fn near(key: &str) -> String {
    let best = KEYS.into_iter().map(|known| (strsim::normalized_damerau_levenshtein(key, known), known));
    match best.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((likeness, known)) if likeness >= 0.5 => format!("; is {known} meant?"),
        _ => format!("; known are {}", KEYS.join(", ")),
    }
}

/// A task of these keys, for callers with queues of their own. Each key of `own` must do something in the
/// task; `defaults` are its fallback.
pub fn task(
    name: String,
    own: &Keys,
    defaults: &Keys,
    changes: &Changes,
) -> std::result::Result<Task, String> {
    /// A key's own value, or the default's.
    macro_rules! key {
        ($key:ident) => {
            own.$key.clone().or_else(|| defaults.$key.clone())
        };
    }
    let threads = |name: &str, value: Option<u32>| match value.unwrap_or(0) {
        n if n <= MOST_THREADS => Ok(n),
        n => Err(format!("{name} = {n} are too many: at most {MOST_THREADS}")),
    };
    let writer_threads = threads("writer_threads", key!(writer_threads))?;
    let query_threads = threads("query_threads", key!(query_threads))?;
    if writer_threads == 0 && query_threads == 0 {
        return Err("it has neither writer_threads nor query_threads".to_string());
    }
    nothing_idle(own, writer_threads, query_threads, key!(create_table) == Some(true))?;

    let dialect = dialect(key!(driver), key!(dialect).as_deref())?;
    let dsn = match (&changes.dsn, key!(dsn)) {
        (Some(dsn), _) => dsn.clone(),
        (None, Some(text)) => Dsn::parse(&text).map_err(|why| format!("dsn: {why}"))?,
        (None, None) => return Err("it has no dsn".to_string()),
    };
    let table = key!(table).unwrap_or_else(|| "purchases_index".to_string());
    check_table_name(&table)?;
    let shape = Shape {
        secondary_indexes: key!(num_secondary_indexes).unwrap_or(3),
        char_fields: key!(num_char_fields).unwrap_or(0),
        char_length: key!(length_char_fields).unwrap_or(100),
        percent_compressible: key!(percent_compressible).unwrap_or(0),
    };
    shape.check()?;
    let keys = Keys {
        rows_per_insert: key!(rows_per_insert),
        max_rows_total: key!(max_rows_total),
        max_rows_per_second: key!(max_rows_per_second),
        delete_per_insert: key!(delete_per_insert),
        queries_per_second: key!(queries_per_second),
        query_start_at_rows: key!(query_start_at_rows),
        query_limit: key!(query_limit),
        ..Keys::default()
    };
    let writers = writers(writer_threads, &keys, &shape)?;
    let queries = queries(query_threads, &keys)?;
    let time = |name: &str, value: Option<String>| {
        value.map(|text| clock::duration(&text).map_err(|why| format!("{name}: {why}"))).transpose()
    };
    let duration = time("duration", key!(duration))?;
    if duration.is_none() && (writers.max_rows.is_none() || writer_threads == 0) {
        return Err("it has no end: neither duration nor max_rows_total".to_string());
    }
    if duration == Some(Duration::ZERO) {
        return Err("its duration is 0".to_string());
    }
    let report_every = time("report_every", key!(report_every))?.unwrap_or(Duration::from_secs(10));
    if report_every.subsec_nanos() != 0 || report_every.is_zero() {
        return Err("report_every is a number of whole seconds".to_string());
    }
    let log_file = own.log_file.clone().unwrap_or_else(|| format!("{name}.tsv"));
    if log_file.contains('/') || log_file.starts_with('.') || !log_file.ends_with(".tsv") {
        return Err(format!("log_file = '{log_file}' is no file name that ends with .tsv"));
    }
    let create = key!(create_table).unwrap_or(false).then(|| key!(table_options).unwrap_or_default());
    let seed = key!(seed).unwrap_or(1);
    Ok(Task {
        name,
        dsn,
        dialect,
        table,
        create,
        shape,
        writers,
        queries,
        duration,
        report_every,
        log_file,
        seed,
    })
}

fn dialect(driver: Option<String>, dialect: Option<&str>) -> std::result::Result<Option<Dialect>, String> {
    if let Some(driver) = driver.filter(|d| d != "mariadb" && d != "mysql") {
        return Err(format!("there is no driver '{driver}': mariadb and mysql, which speak alike"));
    }
    match dialect {
        None => Ok(None),
        Some("mariadb") => Ok(Some(Dialect::MariaDb)),
        Some("mysql") => Ok(Some(Dialect::MySql)),
        Some(other) => Err(format!("there is no dialect '{other}': mariadb and mysql")),
    }
}

fn check_table_name(table: &str) -> std::result::Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    if table.is_empty() || table.len() > 64 || !table.chars().all(plain) {
        return Err(format!("table = '{table}' is no name of a table"));
    }
    Ok(())
}

/// The writers of a task. Errors name a key whose value makes no sense.
fn writers(threads: u32, keys: &Keys, shape: &Shape) -> std::result::Result<Writers, String> {
    let writers = Writers {
        threads,
        rows_per_insert: keys.rows_per_insert.unwrap_or(1000),
        max_rows: keys.max_rows_total,
        rows_per_second: keys.max_rows_per_second,
        delete: keys.delete_per_insert.unwrap_or(false),
    };
    if writers.rows_per_insert == 0 {
        return Err("rows_per_insert = 0 inserts nothing".to_string());
    }
    let placeholders = u64::from(writers.rows_per_insert) * shape.columns() as u64;
    if placeholders > PLACEHOLDERS {
        return Err(format!(
            "rows_per_insert = {} with {} columns needs {placeholders} placeholders; a statement has at most {PLACEHOLDERS}",
            writers.rows_per_insert,
            shape.columns()
        ));
    }
    if writers.max_rows == Some(0) || writers.rows_per_second == Some(0) {
        return Err("max_rows_total and max_rows_per_second are above 0, or left out".to_string());
    }
    Ok(writers)
}

/// The queries of a task. Errors name a key whose value makes no sense.
fn queries(threads: u32, keys: &Keys) -> std::result::Result<Queries, String> {
    let queries = Queries {
        threads,
        per_second: keys.queries_per_second,
        start_at_rows: keys.query_start_at_rows.unwrap_or(0),
        limit: keys.query_limit.unwrap_or(10),
    };
    if queries.limit == 0 || queries.per_second.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
        return Err("queries_per_second and query_limit are above 0".to_string());
    }
    Ok(queries)
}

/// The keys of an experiment's phase with each engine's table. Refuses keys set by the experiment itself.
pub fn phase(keys: &Keys, table_options: Option<String>) -> std::result::Result<Keys, String> {
    let set_by_itself = [
        (keys.name.is_some(), "name"),
        (keys.log_file.is_some(), "log_file"),
        (keys.table.is_some(), "table"),
        (keys.driver.is_some(), "driver"),
        (keys.dialect.is_some(), "dialect"),
        (keys.dsn.is_some(), "dsn"),
        (keys.create_table.is_some(), "create_table"),
        (keys.table_options.is_some(), "table_options"),
        (keys.seed.is_some(), "seed"),
    ];
    if let Some((_, key)) = set_by_itself.iter().find(|(is_set, _)| *is_set) {
        return Err(format!("{key} is set by the experiment"));
    }
    Ok(Keys { create_table: Some(table_options.is_some()), table_options, ..keys.clone() })
}

/// Refuses keys without an effect in their task.
fn nothing_idle(own: &Keys, writers: u32, queries: u32, creates: bool) -> std::result::Result<(), String> {
    let idle = |named: bool, key: &str, without: &str| match named {
        true => Err(format!("{key} does nothing without {without}")),
        false => Ok(()),
    };
    if queries == 0 {
        idle(own.queries_per_second.is_some(), "queries_per_second", "query_threads")?;
        idle(own.query_start_at_rows.is_some(), "query_start_at_rows", "query_threads")?;
        idle(own.query_limit.is_some(), "query_limit", "query_threads")?;
    }
    if writers == 0 {
        idle(own.max_rows_total.is_some(), "max_rows_total", "writer_threads")?;
        idle(own.max_rows_per_second.is_some(), "max_rows_per_second", "writer_threads")?;
        idle(own.rows_per_insert.is_some(), "rows_per_insert", "writer_threads")?;
        idle(own.delete_per_insert == Some(true), "delete_per_insert", "writer_threads")?;
    }
    idle(own.table_options.is_some() && !creates, "table_options", "create_table = true")
}

fn scaled(mut task: Task, scale: f64) -> Task {
    if scale == 1.0 {
        return task;
    }
    let rows = |n: u64| ((n as f64 / scale).ceil() as u64).max(1);
    task.writers.max_rows = task.writers.max_rows.map(rows);
    if task.queries.start_at_rows > 0 {
        task.queries.start_at_rows = rows(task.queries.start_at_rows);
    }
    let least = Duration::from_secs(1);
    task.duration = task.duration.map(|d| d.div_f64(scale).max(least));
    let every = task.report_every.div_f64(scale).as_secs_f64().ceil();
    task.report_every = Duration::from_secs_f64(every).max(least);
    task
}

/// The laboratory's engines of the queue's tables, each once.
pub fn engines(tasks: &[Task]) -> std::result::Result<Vec<Engine>, Error> {
    let mut engines = Vec::new();
    for name in tasks.iter().filter_map(Task::engine_name) {
        let engine: Engine = name.parse()?;
        if !engines.contains(&engine) {
            engines.push(engine);
        }
    }
    Ok(engines)
}

#[cfg(test)]
#[path = "queue_test.rs"]
mod tests;
