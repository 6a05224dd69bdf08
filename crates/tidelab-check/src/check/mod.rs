//! Checks of a real server from outside: acknowledged transactions are there after a kill, no update is
//! lost, no index read errs, a replica equals its primary, memory stays within its bounds.
//!
//! Each check starts a server of its own in a directory of its own, puts clients on it, and compares their
//! results with the expected ones. It returns a [`Verdict`]: one closing line, and one complaint for each
//! fault. A failed check leaves its files in place.

mod accounts;
pub mod backup;
mod binary_log;
pub mod cluster;
pub mod commits;
pub mod counters;
pub mod crash;
pub mod damage;
pub mod definitions;
mod entries;
pub mod faults;
pub mod foreign;
pub mod formats;
pub mod history;
pub mod iibench;
pub mod indexreads;
pub mod jobs;
pub mod kill;
pub mod killed;
mod killing;
pub mod large;
pub mod literal;
pub mod memory;
pub mod newest;
pub mod planted;
pub mod powercut;
mod preloaded;
pub mod replay;
pub mod replica;
mod rounds;
pub mod search;
pub mod sensitivity;
pub mod sql;
pub mod virtuals;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use tidesdb::internal::db::Db;
use tidesdb::Options;

use session::{Failure, Session};
use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;
use tidelab_server::server::engine::Engine;
pub use tidelab_server::server::session;
use tidelab_server::server::settings::Setting;
use tidelab_server::server::{Data, Server, Wanted};

/// A check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Writers in FULL, `kill -9`, restart: every acknowledged transaction is there, whole.
    Kill,
    /// TPC-C under `kill -9` with the binary log: tokens, conditions, indexes, replay.
    Crash,
    /// Clients read, then write the literal: no update is lost.
    Literal,
    /// Autocommit `c = c + 1` on one row by many clients: no error, the right sum.
    Counters,
    /// Workers on a queue of jobs: each job is handed out once.
    Jobs,
    /// Reads through indexes alongside writers: complete, and every row matches.
    IndexReads,
    /// REPEATABLE READ with `tidesdb_snapshot_conflicts=OFF`: as InnoDB, no update lost, indexes right.
    Newest,
    /// Random transactions at every level: the level's promise judges the clients' reads.
    History,
    /// Read, write the literal, commit, very often, on few rows: no commit is lost.
    Commits,
    /// A dump under load makes a replica. Stopped again and again, it ends up equal.
    Replica,
    /// Statements over all rows of a large table: all or nothing, within memory, alongside others.
    Large,
    /// Definitions under `kill -9`: the tables are the acknowledged ones, the store has theirs alone.
    Definitions,
    /// Backups under load, restored into another server and continued from the binary log.
    Backup,
    /// Random writers on tables with foreign keys, definitions, KILL and restarts: no child without its parent.
    Foreign,
    /// KILL QUERY ends every kind of statement within 100 ms.
    Killed,
    /// Files are flipped, cut, removed and exchanged: each costs only the touched tables, and says so.
    Damage,
    /// Calls on the files of store, binary log and InnoDB fail, and the store's file system is full, then fails: nothing
    /// acknowledged is lost, and the rest goes on.
    Faults,
    /// Unsynced changes are taken back after a kill: every acknowledged transaction is there.
    PowerCut,
    /// Three nodes of a Galera cluster with writers on each, killed, stopped and cut off: equal, and nothing is lost.
    Cluster,
    /// Data of a later version of the plugin are refused by name.
    Formats,
    /// CHECK TABLE finds an index out of step with its table.
    Entries,
    /// The insert benchmark, short: every acknowledged row is there.
    Iibench,
    /// Random tables and statements on InnoDB and TidesDB, every answer compared.
    Sql,
    /// Tables with indexes over virtual columns, under changing settings, against copies without an index.
    Virtuals,
    /// Random texts and queries in full text indexes, against a model that reads all rows.
    Search,
    /// Servers alone in memory cgroups, large values, clients in want of more than the bound, many tables.
    Memory,
    /// A delay planted in one of two equal tables is found and sized.
    Sensitivity,
}

impl Check {
    /// All, in running order.
    pub const ALL: [Check; 27] = [
        Check::Kill,
        Check::Crash,
        Check::Literal,
        Check::Counters,
        Check::Jobs,
        Check::IndexReads,
        Check::Newest,
        Check::Replica,
        Check::History,
        Check::Commits,
        Check::Large,
        Check::Definitions,
        Check::Backup,
        Check::Foreign,
        Check::Killed,
        Check::Damage,
        Check::Faults,
        Check::PowerCut,
        Check::Cluster,
        Check::Formats,
        Check::Entries,
        Check::Iibench,
        Check::Sql,
        Check::Virtuals,
        Check::Search,
        Check::Memory,
        Check::Sensitivity,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Check::Kill => "kill",
            Check::Crash => "crash",
            Check::Literal => "literal",
            Check::Counters => "counters",
            Check::Jobs => "jobs",
            Check::IndexReads => "indexreads",
            Check::Newest => "newest",
            Check::History => "history",
            Check::Commits => "commits",
            Check::Replica => "replica",
            Check::Large => "large",
            Check::Definitions => "definitions",
            Check::Backup => "backup",
            Check::Foreign => "foreign",
            Check::Killed => "killed",
            Check::Damage => "damage",
            Check::Faults => "faults",
            Check::PowerCut => "powercut",
            Check::Cluster => "cluster",
            Check::Formats => "formats",
            Check::Entries => "entries",
            Check::Iibench => "iibench",
            Check::Sql => "sql",
            Check::Virtuals => "virtuals",
            Check::Search => "search",
            Check::Memory => "memory",
            Check::Sensitivity => "sensitivity",
        }
    }

    fn run(self, lab: &Lab<'_>) -> Result<Verdict> {
        match self {
            Check::Kill => kill::run(lab),
            Check::Crash => crash::run(lab),
            Check::Literal => literal::run(lab),
            Check::Counters => counters::run(lab),
            Check::Jobs => jobs::run(lab),
            Check::IndexReads => indexreads::run(lab),
            Check::Newest => newest::run(lab),
            Check::History => history::run(lab),
            Check::Commits => commits::run(lab),
            Check::Replica => replica::run(lab),
            Check::Large => large::run(lab),
            Check::Definitions => definitions::run(lab),
            Check::Backup => backup::run(lab),
            Check::Foreign => foreign::run(lab),
            Check::Killed => killed::run(lab),
            Check::Damage => damage::run(lab),
            Check::Faults => faults::run(lab),
            Check::PowerCut => powercut::run(lab),
            Check::Cluster => cluster::run(lab),
            Check::Formats => formats::run(lab),
            Check::Entries => entries::run(lab),
            Check::Iibench => iibench::run(lab),
            Check::Sql => sql::run(lab),
            Check::Virtuals => virtuals::run(lab),
            Check::Search => search::run(lab),
            Check::Memory => memory::run(lab),
            Check::Sensitivity => sensitivity::run(lab),
        }
    }
}

impl FromStr for Check {
    type Err = Error;

    fn from_str(name: &str) -> Result<Check> {
        Check::ALL.into_iter().find(|c| c.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Check::ALL.iter().map(|c| c.name()).collect();
            Error::Usage(format!("there is no check '{name}': {}", known.join(", ")))
        })
    }
}

/// The parameters of the checks.
#[derive(Debug)]
pub struct Lab<'a> {
    /// The installed MariaDB.
    pub prefix: &'a Path,
    /// The TidesDB plugin.
    pub plugin: &'a Path,
    /// The directory of the check's server.
    pub directory: PathBuf,
    /// Asks to end.
    pub interrupt: &'a Interrupt,
    /// The short form, to run between two commits.
    pub short: bool,
    /// Kills of `kill`, `crash` and `replica`, of each kind in `killed`, rounds of `damage`, `faults`,
    /// `powercut`, `cluster` and `search`; none: the form's own.
    pub rounds: Option<u32>,
    /// Seconds of load in each part of the others; none: the form's own.
    pub seconds: Option<u64>,
    /// Clients of `history`, `commits` and `jobs`; none: their own.
    pub clients: Option<u32>,
    /// Commits of `commits`; none: the form's own.
    pub commits: Option<u64>,
    /// Rows of `large` and `killed`; none: the form's own.
    pub rows: Option<u64>,
    /// Statements of `sql` and `virtuals`; none: the form's own.
    pub statements: Option<u64>,
    /// Engines of `history`, `commits`, `large` and `memory`; empty: the form's own.
    pub engines: &'a [Engine],
    /// Engines of `replica`; none: the form's own.
    pub pair: Option<replica::Pair>,
    /// Parts of `memory` with this in their name, or the one disturbance of `cluster`; none: all.
    pub part: Option<&'a str>,
    /// The seed of all random choices.
    pub seed: u64,
    /// True if it was named, and is not the clock's.
    pub seed_named: bool,
}

impl Lab<'_> {
    /// The seed of the first round in checks whose rounds have seeds of their own. The short form has the
    /// same rounds each time unless a seed is named: a failure then comes from the change under test.
    fn first_seed(&self) -> u64 {
        const SHORT: u64 = 6003;
        if self.short && !self.seed_named {
            SHORT
        } else {
            self.seed
        }
    }

    /// A server with TidesDB alone in addition to InnoDB, on an empty data directory.
    fn start(&self, settings: &[Setting]) -> Result<Server> {
        self.start_in(&self.directory, Engine::TidesDb, settings)
    }

    /// A server with one engine in addition to InnoDB, on an empty data directory in `directory`.
    fn start_in(&self, directory: &Path, engine: Engine, settings: &[Setting]) -> Result<Server> {
        Server::start(
            &Wanted {
                environment: &[],
                allocator: None,
                groups: &[],
                prefix: self.prefix,
                engines: &[engine],
                plugin: Some(self.plugin),
                directory,
                data: Data::Empty,
                settings,
            },
            self.interrupt,
        )
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The work done, in one line.
    pub summary: String,
    /// The faults, one line each.
    pub complaints: Vec<String>,
}

/// At most so many complaints of a check are printed; they are usually alike.
const COMPLAINTS_SHOWN: usize = 20;

/// Runs checks one after the other; true when all passed.
pub fn run(checks: &[Check], directory: &Path, mut lab: Lab<'_>) -> Result<bool> {
    eprintln!("check: seed {}", lab.seed);
    let (mut passed, mut failed) = (0, 0);
    for check in checks {
        lab.directory = directory.join(check.name());
        let start = Instant::now();
        let verdict = match check.run(&lab) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                Verdict { summary: "was cut short".to_string(), complaints: vec![error.to_string()] }
            }
            Ok(verdict) => verdict,
        };
        for complaint in verdict.complaints.iter().take(COMPLAINTS_SHOWN) {
            println!("check {}: WRONG: {complaint}", check.name());
        }
        if verdict.complaints.len() > COMPLAINTS_SHOWN {
            println!("check {}: and {} more", check.name(), verdict.complaints.len() - COMPLAINTS_SHOWN);
        }
        let took = start.elapsed().as_secs_f64();
        if verdict.complaints.is_empty() {
            passed += 1;
            println!("check {}: passed in {took:.0} s: {}", check.name(), verdict.summary);
        } else {
            failed += 1;
            println!(
                "check {}: FAILED after {took:.0} s: {} (seed {}, files in {})",
                check.name(),
                verdict.summary,
                lab.seed,
                lab.directory.display()
            );
        }
    }
    println!("check: {passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// Ends a check's server, and keeps its files when something is wrong.
fn conclude(server: Server, summary: String, complaints: Vec<String>) -> Result<Verdict> {
    server.stop(!complaints.is_empty())?;
    Ok(Verdict { summary, complaints })
}

/// Changes the store of a stopped server, by the engine itself, so the checksums are right.
fn change_store(store: &Path, change: impl FnOnce(&Db) -> tidesdb::Result<()>) -> Result<()> {
    let options = Options { create_if_missing: false, flush_on_close: true, ..Options::default() };
    Db::open(store, options).and_then(|db| change(&db).and_then(|()| db.close())).map_err(|error| {
        Error::Load { what: format!("the store in {}", store.display()), message: error.to_string() }
    })
}

/// Prints a progress line.
fn progress(check: Check, text: &str) {
    eprintln!("check {}: {text}", check.name());
}

/// Set-up and final looks may not fail; an error of the server ends the check.
fn must<T>(what: &str, result: std::result::Result<T, Failure>) -> Result<T> {
    result.map_err(|failure| Error::Statement { statement: what.to_string(), message: failure.to_string() })
}

/// A connection for set-up and final looks.
fn connect(server: &Server) -> Result<Session> {
    must("connect", Session::open(server.socket()))
}

/// Runs statements; a failure ends the check.
fn set_up(session: &mut Session, statements: &[&str]) -> Result<()> {
    for statement in statements {
        must(statement, session.run(statement))?;
    }
    Ok(())
}
