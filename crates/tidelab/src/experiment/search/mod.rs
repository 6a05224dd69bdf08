//! The kind `search`: FULLTEXT indexes of engines, over generated documents (`docs/experiments/search.md`).
//!
//! Each group has a server of its own, with one engine: it loads the documents, builds the index, searches it, and
//! inserts more documents.

mod design;
mod documents;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tidelab_server::error::{Error, Result};
use tidelab_server::latency::Latencies;
use tidelab_server::server::engine::Engine;
use tidelab_server::server::session::{Failure, Session};
use tidelab_server::server::{analyze, settings, Server};
use tidelab_server::telemetry::idle;
use tidelab_server::telemetry::process::process_use;

pub use self::design::Options;
use self::design::{Task, CACHE, ENGINE, TASK};
use self::documents::Documents;
use crate::measure::reference;
use crate::run::{self, Axis, Better, Cell, CellId, Folder, Group, Metric, Paths, Role, Run};

/// Connections of a server: the client's own, and some for people who look at it.
const CONNECTIONS: u32 = 20;
/// Documents of one INSERT while the table is filled.
const BATCH: u64 = 1000;

/// Answers of a task's queries.
type Answers = Vec<Vec<Vec<String>>>;

/// Measures.
pub struct Conductor<'a> {
    options: Options,
    documents: Documents,
    paths: Paths<'a>,
    /// The first engine's answers, by task: others must give the same.
    answers: BTreeMap<&'static str, Answers>,
}

impl<'a> Conductor<'a> {
    /// For these options; the run gets its axes and metrics. Errors: the options make no sense.
    pub fn open(options: Options, paths: Paths<'a>, run: &mut Run) -> Result<Conductor<'a>> {
        use Better::{Higher, Lower};
        options.check(&run.name)?;
        let tasks: Vec<&str> = Task::ALL.into_iter().map(Task::name).collect();
        run.axes = vec![
            Axis::new(ENGINE, "Engine", Role::Competitor, &options.engines),
            Axis::new(TASK, "Task", Role::Category, &tasks),
            Axis::new(CACHE, "Cache, MB", Role::Number, &options.caches_mb),
        ];
        run.reference = reference(&options.engines);
        run.metrics = vec![
            Metric::main("rate_per_s", "Queries or documents", "1/s", Higher),
            Metric::main("p50_ms", "Median latency", "ms", Lower),
            Metric::main("p99_ms", "99th percentile", "ms", Lower),
            Metric::main("cpu_us", "CPU of the server for one", "us", Lower),
            Metric::main("index_bytes", "Index on disk", "B", Lower),
        ];
        let documents = Documents::new(options.seed, options.vocabulary, options.words);
        Ok(Conductor { options, documents, paths, answers: BTreeMap::new() })
    }

    /// Makes and fills the table, and one that is empty but for its index.
    fn fill(&self, engine: Engine, session: &mut Session) -> std::result::Result<(), Failure> {
        session.run("CREATE DATABASE lab CHARACTER SET utf8mb4")?;
        session.run("USE lab")?;
        session.run(&format!("CREATE TABLE doc (id INT PRIMARY KEY, body TEXT) ENGINE={engine}"))?;
        session.run(&format!(
            "CREATE TABLE more (id INT PRIMARY KEY, body TEXT, FULLTEXT KEY words (body)) ENGINE={engine}"
        ))?;
        for first in (0..self.options.documents).step_by(BATCH as usize) {
            let rows = (first..self.options.documents.min(first + BATCH)).map(|number| self.row(number));
            session.run(&format!("INSERT INTO doc VALUES {}", rows.collect::<Vec<_>>().join(", ")))?;
        }
        Ok(())
    }

    /// Document `number` as a row. Its words have letters alone.
    fn row(&self, number: u64) -> String {
        format!("({}, '{}')", number + 1, self.documents.text(number))
    }

    /// Does a task's statements, each with its time; the answers of the last time of each query.
    fn statements(&self, task: Task, session: &mut Session) -> std::result::Result<Done, Failure> {
        let mut done = Done::default();
        match task {
            Task::Build => {
                done.time(self.options.documents, || {
                    session.run("ALTER TABLE doc ADD FULLTEXT KEY words (body)")
                })?;
            }
            Task::InsertSelect => {
                let first = self.options.documents - self.options.bulk;
                let statement = format!("INSERT INTO more SELECT * FROM doc WHERE id > {first}");
                done.time(self.options.bulk, || session.run(&statement))?;
            }
            Task::Insert => {
                let from = self.options.documents;
                for number in from..from + self.options.inserts {
                    let statement = format!("INSERT INTO more VALUES {}", self.row(number));
                    done.time(1, || session.run(&statement))?;
                }
            }
            Task::OneWord | Task::And | Task::Phrase | Task::Top10 | Task::Count => {
                for query in task.queries() {
                    for _ in 0..self.options.repeats {
                        let answer = done.time(1, || session.rows(&query))?;
                        done.last = answer;
                    }
                    done.answers.push(std::mem::take(&mut done.last));
                }
            }
        }
        Ok(done)
    }

    /// Measures a cell.
    fn task(&mut self, id: &CellId, server: &Server, session: &mut Session) -> Result<Cell> {
        let (task, engine) = (Task::of(id)?, id.label(ENGINE).parse::<Engine>()?);
        let wait = Duration::from_secs(u64::from(self.options.settle_s));
        let failed = |failure: Failure| Error::Load {
            what: format!("{} on {engine}", task.name()),
            message: failure.to_string(),
        };
        for query in task.queries() {
            session.rows(&query).map_err(failed)?;
        }
        idle::wait(server.pid(), wait, self.paths.interrupt)?;
        let before = process_use(server.pid()).cpu_s;
        let done = self.statements(task, session).map_err(failed)?;
        let cpu_s = process_use(server.pid()).cpu_s - before;
        idle::wait(server.pid(), wait, self.paths.interrupt)?;
        let mut cell = Cell::new(id.clone(), self.options.seed);
        let latencies = done.latencies.figures();
        let operations = done.operations as f64;
        cell.add([
            ("rate_per_s", operations / done.seconds),
            ("p50_ms", latencies.p50_ms),
            ("p99_ms", latencies.p99_ms),
            ("cpu_us", cpu_s * 1e6 / operations),
        ]);
        if task == Task::Build {
            cell.figure("index_bytes", session.number(size_of_index(engine)).map_err(failed)? as f64);
        }
        cell.histograms.insert("statement_us".to_string(), done.latencies.kept());
        if task.is_defined() && !done.answers.is_empty() {
            let others = self.answers.entry(task.name()).or_insert_with(|| done.answers.clone());
            let pairs = task.queries().into_iter().zip(others.iter().zip(&done.answers));
            let differing = pairs.filter(|(_, (other, own))| other != own);
            cell.failures.extend(differing.map(|(query, (other, own))| {
                format!("{query} gives {own:?}, and gave {other:?} on the first engine or in the first round")
            }));
        }
        Ok(cell)
    }
}

/// The query for the bytes of the table's only secondary index.
fn size_of_index(engine: Engine) -> &'static str {
    match engine {
        // Tables of its own, which the table's sizes leave out.
        Engine::InnoDb => {
            "SELECT CAST(SUM(FILE_SIZE) AS INT) FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME LIKE 'lab/FTS\\_%INDEX%'"
        }
        _ => "SELECT INDEX_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'lab' AND TABLE_NAME = 'doc'",
    }
}

/// What a task did.
#[derive(Default)]
struct Done {
    operations: u64,
    seconds: f64,
    latencies: Latencies,
    answers: Answers,
    last: Vec<Vec<String>>,
}

impl Done {
    /// Does a statement for so many operations.
    fn time<T>(
        &mut self,
        operations: u64,
        statement: impl FnOnce() -> std::result::Result<T, Failure>,
    ) -> std::result::Result<T, Failure> {
        let begun = Instant::now();
        let answer = statement()?;
        let took = begun.elapsed();
        self.operations += operations;
        self.seconds += took.as_secs_f64();
        self.latencies.record(took);
        Ok(answer)
    }
}

impl run::Conductor for Conductor<'_> {
    fn groups(&self) -> Vec<Group> {
        self.options.groups()
    }

    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()> {
        let Some(first) = group.cells.first() else { return Ok(()) };
        let engine: Engine = first.label(ENGINE).parse()?;
        let cache = first.label(CACHE).parse().unwrap_or_default();
        let settings = settings::comparison(&[engine], cache, CONNECTIONS);
        let name = format!("{engine}-{cache}");
        let server = self.paths.start_noted(&name, &[engine], &settings, run, folder)?;
        let failed = |failure: Failure| Error::Load {
            what: format!("loading {} documents into {engine}", self.options.documents),
            message: failure.to_string(),
        };
        let mut session = Session::open(server.socket()).map_err(failed)?;
        self.fill(engine, &mut session).map_err(failed)?;
        analyze::through_session(&mut session, "lab")?;
        for id in &group.cells {
            self.paths.interrupt.check()?;
            folder.begin(id)?;
            let cell = self.task(id, &server, &mut session)?;
            say(&cell);
            folder.finish(cell)?;
        }
        drop(session);
        server.stop(false)
    }

    fn rules(&self) -> Vec<(String, String)> {
        vec![("comparison.toml".to_string(), settings::COMPARISON.to_string())]
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A line for the person at the terminal.
fn say(cell: &Cell) {
    let of = |name: &str| cell.figures.get(name).copied().unwrap_or(f64::NAN);
    let index =
        cell.figures.get("index_bytes").map_or(String::new(), |b| format!(", index {:.0} MB", b / 1e6));
    eprintln!(
        "  {:<13} {:<8} {:>9.1} /s  p50 {:>8.2} ms  p99 {:>8.2} ms  CPU {:>8.0} us{index}",
        cell.id.label(TASK),
        cell.id.label(ENGINE),
        of("rate_per_s"),
        of("p50_ms"),
        of("p99_ms"),
        of("cpu_us"),
    );
    cell.failures.iter().for_each(|failure| eprintln!("  WRONG: {failure}"));
}
