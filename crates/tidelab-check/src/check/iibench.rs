//! The insert benchmark, short: a load, writes and queries at a rate, deletes at the low end of the key.
//!
//! Every acknowledged row is there, every query returns rows after its place, every index agrees with its
//! table. At the end one row is taken away without the benchmark's knowledge, and the benchmark must say
//! so.

use std::time::Duration;

use tidelab_server::error::{Error, Result};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings;
use tidelab_server::workload::iibench::contents;
use tidelab_server::workload::iibench::counts::Group;
use tidelab_server::workload::iibench::dsn::Dsn;
use tidelab_server::workload::iibench::queue::{parse, Changes};
use tidelab_server::workload::iibench::runner::{is_last_on_its_table, Runner};

use super::{connect, must, progress, set_up, Check, Lab, Verdict};

const QUEUE: &str = r#"
[defaults]
num_secondary_indexes = 3
num_char_fields = 2
length_char_fields = 40
percent_compressible = 30
report_every = "1s"
table = "purchases"

[[task]]
name = "load"
create_table = true
table_options = "ENGINE=TidesDB"
writer_threads = 6
rows_per_insert = 400
max_rows_total = 40100

[[task]]
name = "mixed"
writer_threads = 3
rows_per_insert = 100
max_rows_per_second = 3000
query_threads = 3
queries_per_second = 200
query_start_at_rows = 40000
duration = "3s"

[[task]]
name = "delete"
writer_threads = 1
rows_per_insert = 50
delete_per_insert = true
duration = "3s"
"#;

/// Runs it.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let server = lab.start(&settings::checks(false))?;
    let mut session = connect(&server)?;
    let database = Engine::TidesDb.database();
    set_up(&mut session, &[&format!("CREATE DATABASE {database}"), &format!("USE {database}")])?;
    let dsn = format!("root@unix({})/{database}", server.socket().display());
    let changes = Changes { dsn: Some(Dsn::parse(&dsn).map_err(Error::Usage)?), ..Changes::default() };
    let mut tasks = parse(QUEUE, &changes).map_err(Error::Usage)?;
    let mut runner = Runner::new(lab.interrupt, Some(server.pid()), Duration::ZERO);
    let (mut complaints, mut done) = (Vec::new(), Vec::new());
    for index in 0..tasks.len() {
        tasks[index].seed = lab.seed;
        let task = &tasks[index];
        let examine = is_last_on_its_table(&tasks, index);
        let log = lab.directory.join(&task.log_file);
        let measured = runner.run(task, &log, examine, &mut |text| progress(Check::Iibench, text))?;
        complaints.extend(measured.failures.iter().map(|failure| format!("{}: {failure}", task.name)));
        let of = |group| measured.outcome.total.group(group);
        let (inserts, queries, deletes) = (of(Group::Insert), of(Group::Query), of(Group::Delete));
        let expected = match task.name.as_str() {
            "load" => inserts.rows == 40_100,
            "mixed" => inserts.done > 0 && queries.done > 0,
            _ => deletes.rows > 0 && deletes.rows <= inserts.rows,
        };
        if !expected {
            complaints.push(format!(
                "{}: {} rows inserted, {} queries, {} rows deleted",
                task.name, inserts.rows, queries.done, deletes.rows
            ));
        }
        done.push(format!("{} {}+{}-{}", task.name, inserts.rows, queries.done, deletes.rows));
        if examine {
            let wanted = &measured.outcome.contents;
            must(
                "taking a row away",
                session.run("DELETE FROM purchases ORDER BY transactionid DESC LIMIT 1"),
            )?;
            let found = must("looking", contents::examine(&mut session, "purchases", &task.shape, wanted))?;
            if !found.iter().any(|complaint| complaint.contains("the number of rows")) {
                complaints.push(format!("one row was taken away, and all that is said is {found:?}"));
            }
        }
    }
    drop(session);
    super::conclude(server, done.join(", "), complaints)
}
