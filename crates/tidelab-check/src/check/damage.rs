//! `damage`: a file of the store, or of the data directory, is damaged under a running server or a stopped one, and then
//! these hold:
//!
//! - No wrong row is answered: a row's key and version determine its contents.
//! - Tables without a part in the hit file are read, written, flushed and found after a restart. The others
//!   answer right, or with an error, and the error log names the file.
//! - The store opens, unless manifest, log or owner were hit: then the error log names file and remedy, and of a log
//!   `verify` lists the damage and `repair` makes a store with all commits before it.
//! - With the file put back everything is as it was.
//!
//! The rounds' seeds are the check's and the numbers after it: `--seed` with a later one goes on from there.

mod content;
mod hit;
mod places;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::settings::{self, Setting};
use tidelab_server::server::Server;
use tidesdb::internal::backup::{repair, verify_store, Watch};
use tidesdb::internal::io::RealDisk;

use self::content::{look, Answer, Content, DATABASE, TABLES};
use self::hit::{Hit, Place, Way};
use self::plan::{Kind, Plan, State, SHORT};
use super::rounds::{self, Rounds};
use super::session::{Failure, Session};
use super::{conclude, connect, must, progress, set_up, Check, Lab, Verdict};

/// Longest wait for a flush, and for merges to end.
const QUIET_WITHIN: Duration = Duration::from_secs(30);

/// Said where the server ends rather than start without the engine.
const ENDS_ON_PURPOSE: &str = "TidesDB: the server ends here, because a crash left the binary log";

/// The server, its settings, and its expected contents.
struct Bench<'a> {
    lab: &'a Lab<'a>,
    settings: Vec<Setting>,
    server: Server,
    content: Content,
    /// The start of the error log's new lines.
    mark: u64,
}

/// Effects of the damage.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    refused_start: bool,
    sick_tables: bool,
}

/// The outcome of a start.
enum Start {
    Open,
    /// Without the engine, or not at all.
    Refused,
}

/// Counts of a run.
#[derive(Default)]
struct DamageCounts {
    hits: BTreeMap<Kind, u32>,
    refused_starts: u32,
    refused_tables: u32,
    repaired: u32,
    lost_at_the_end: i64,
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let rounds = lab.rounds.unwrap_or(if lab.short { SHORT.len() as u32 } else { 100 });
    let mut bench = Bench::start(lab)?;
    let mut tally = DamageCounts::default();
    let Rounds { done, mut complaints } = rounds::run(lab, rounds, |number, seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let plan = match SHORT.get(number as usize).filter(|_| lab.short) {
            Some(plan) => *plan,
            None => Plan::draw(&mut random),
        };
        let before = Instant::now();
        let round = bench.round(plan, &mut tally, &mut random);
        lab.interrupt.check()?;
        let (what, wrong) = round.unwrap_or_else(|error| (format!("{plan:?}"), vec![error.to_string()]));
        let took = before.elapsed().as_secs_f64();
        progress(
            Check::Damage,
            &format!("seed {seed}: {what}, {:?}, {took:.1} s: {} wrong", plan.state, wrong.len()),
        );
        Ok(wrong.into_iter().map(|complaint| format!("{what}: {complaint}")).collect())
    })?;
    if complaints.is_empty()
        && !lab.short
        && rounds >= 50
        && (tally.refused_tables == 0 || tally.refused_starts == 0)
    {
        complaints.push("no damage was met".to_string());
    }
    let hits: Vec<String> = tally.hits.iter().map(|(kind, count)| format!("{count} {kind:?}")).collect();
    let summary = format!(
        "{done} rounds from seed {}: {}; {} answers of tables refused, {} starts refused, {} stores repaired, \
         {} commits at the log's end taken for a torn tail",
        lab.first_seed(),
        hits.join(", "),
        tally.refused_tables,
        tally.refused_starts,
        tally.repaired,
        tally.lost_at_the_end
    );
    conclude(bench.server, summary, complaints)
}

impl<'a> Bench<'a> {
    fn start(lab: &'a Lab<'a>) -> Result<Bench<'a>> {
        let settings = settings::checks(true);
        let server = lab.start(&settings)?;
        let content = must("make tables", Content::make(&mut connect(&server)?))?;
        Ok(Bench { lab, settings, server, content, mark: 0 })
    }

    fn store(&self) -> PathBuf {
        self.server.directory().join("tidesdb_data")
    }

    /// A description of the hit, and the faults found.
    fn round(
        &mut self,
        plan: Plan,
        tally: &mut DamageCounts,
        random: &mut StdRng,
    ) -> Result<(String, Vec<String>)> {
        let mut wrong = Vec::new();
        let mut session = connect(&self.server)?;
        must("fill", self.content.fill(&mut session, random))?;
        let before = places::table_files(&self.store())?;
        if plan.kind == Kind::Run || random.random_range(0..4) == 0 {
            must("prepare", self.content.prepare(&mut session))?;
        }
        let runs: Vec<PathBuf> = places::table_files(&self.store())?.difference(&before).cloned().collect();
        let mut listed = places::listed(&mut session, &self.store())?;
        drop(session);
        self.mark = self.log_length()?;
        match plan.state {
            State::Running => {}
            State::Killed => self.server.crash()?,
            State::Stopped => {
                self.server.shut_down()?;
                listed = places::found(&self.store())?;
            }
        }
        let candidates = places::places(self.server.directory(), plan.kind, &listed, &runs)?;
        let Some(hit) = hit_one(plan.way, &candidates, self.server.directory(), random)? else {
            // A store without such a file has nothing to lose.
            self.heal(None, tally, random, &mut wrong)?;
            return Ok((format!("no {:?} to {:?}", plan.kind, plan.way), wrong));
        };
        *tally.hits.entry(plan.kind).or_default() += 1;
        // The dictionary has another copy.
        let touched = hit.tables.iter().filter(|table| !table.is_empty());
        let sick: BTreeSet<String> = match plan.kind {
            Kind::Run => BTreeSet::from(["large".to_string()]),
            _ => touched.cloned().collect(),
        };
        let found = self.under_damage(plan, &hit, &sick, tally, random, &mut wrong)?;
        if wrong.is_empty() && plan.kind == Kind::Manifest && found.sick_tables {
            // The store has gone on with what the manifest had before: nothing can be put back.
            self.begin_anew()?;
        } else if wrong.is_empty() {
            let keeps =
                found.refused_start || matches!(plan.kind, Kind::Tables | Kind::Dictionary | Kind::Run);
            self.heal(keeps.then_some(&hit), tally, random, &mut wrong)?;
        }
        Ok((hit.what, wrong))
    }

    /// Looks and writes while the damage is there.
    fn under_damage(
        &mut self,
        plan: Plan,
        hit: &Hit,
        sick: &BTreeSet<String>,
        tally: &mut DamageCounts,
        random: &mut StdRng,
        wrong: &mut Vec<String>,
    ) -> Result<Found> {
        let mut found = Found::default();
        if plan.state == State::Running {
            found.sick_tables |= self.look_at_damage(hit, sick, tally, random, wrong)?;
            self.end(random)?;
        }
        // A manifest without its last edits may name files that are gone.
        let all: BTreeSet<String> = TABLES.iter().map(|table| table.name.to_string()).collect();
        let sick = if plan.kind == Kind::Manifest { &all } else { sick };
        for life in 0..if self.lab.short { 1 } else { 2 } {
            if let Start::Refused = self.try_start()? {
                tally.refused_starts += 1;
                self.server.shut_down()?;
                wrong.extend(self.refusal(plan, hit)?);
                if matches!(plan.kind, Kind::Log | Kind::Current) && wrong.is_empty() {
                    self.repaired(hit, tally, random, wrong)?;
                }
                found.refused_start = true;
                return Ok(found);
            }
            if life == 0 && plan.kind == Kind::Log {
                self.lost_at_the_end(tally, wrong)?;
            }
            if life == 0 && plan.kind == Kind::Run {
                let commits = random.random();
                must("decide", self.content.decide(&mut connect(&self.server)?, commits))?;
            }
            found.sick_tables |= self.look_at_damage(hit, sick, tally, random, wrong)?;
            self.end(random)?;
            if !wrong.is_empty() {
                return Ok(found);
            }
        }
        if plan.kind == Kind::Tables && random.random_range(0..3) == 0 {
            self.repaired(hit, tally, random, wrong)?;
        }
        Ok(found)
    }

    /// [`Bench::look_and_write`], and the error log names the file if a table refused.
    fn look_at_damage(
        &mut self,
        hit: &Hit,
        sick: &BTreeSet<String>,
        tally: &mut DamageCounts,
        random: &mut StdRng,
        wrong: &mut Vec<String>,
    ) -> Result<bool> {
        let refused = self.look_and_write(sick, tally, random, wrong)?;
        if refused && hit.paths.iter().all(|path| path.extension().is_some_and(|end| end == "sst")) {
            wrong.extend(self.names_a_file(hit)?);
        }
        Ok(refused)
    }

    /// Drops the tables, damaged ones among them, and makes them again.
    fn begin_anew(&mut self) -> Result<()> {
        self.server.restart(&self.settings, self.lab.interrupt)?;
        let mut session = connect(&self.server)?;
        if self.content.is_prepared() {
            must("decide", self.content.decide(&mut session, false))?;
        }
        set_up(&mut session, &[&format!("DROP DATABASE {DATABASE}")])?;
        self.content = must("make tables", Content::make(&mut session))?;
        Ok(())
    }

    /// Puts the file back, starts the server and finds everything.
    fn heal(
        &mut self,
        hit: Option<&Hit>,
        tally: &mut DamageCounts,
        random: &mut StdRng,
        wrong: &mut Vec<String>,
    ) -> Result<()> {
        if self.server.check_alive().is_ok() {
            self.end(random)?;
        }
        if let Some(hit) = hit {
            hit.undo()?;
        }
        self.server.restart(&self.settings, self.lab.interrupt)?;
        let mut session = connect(&self.server)?;
        if self.content.is_prepared() {
            let commits = random.random();
            must("decide", self.content.decide(&mut session, commits))?;
        }
        self.look_and_write(&BTreeSet::new(), tally, random, wrong)?;
        let check = format!("CHECK TABLE {}", names_of_tables().join(", "));
        let said = must(&check, session.rows(&check))?;
        wrong.extend(
            said.iter()
                .filter(|row| row.last().is_none_or(|text| text != "OK"))
                .map(|row| format!("with the file put back, CHECK TABLE: {}", row.join(" "))),
        );
        self.content.settle(self.content.last);
        Ok(())
    }

    /// Ends the server in order, or kills it.
    fn end(&mut self, random: &mut StdRng) -> Result<()> {
        match random.random() {
            true => self.server.crash(),
            false => self.server.shut_down(),
        }
    }

    fn try_start(&mut self) -> Result<Start> {
        match self.server.restart(&self.settings, self.lab.interrupt) {
            Ok(_) => Ok(Start::Open),
            Err(Error::Server { what, .. }) if what.contains("came up without") => Ok(Start::Refused),
            // On purpose: the binary log of a killed server knows which prepared transactions commit.
            Err(Error::Server { tail, .. }) if tail.contains(ENDS_ON_PURPOSE) => Ok(Start::Refused),
            Err(error) => Err(error),
        }
    }

    /// Reads all tables, writes to all, flushes; the tables of `sick` may refuse. True: one did.
    fn look_and_write(
        &mut self,
        sick: &BTreeSet<String>,
        tally: &mut DamageCounts,
        random: &mut StdRng,
        wrong: &mut Vec<String>,
    ) -> Result<bool> {
        let mut session = connect(&self.server)?;
        let mut refusals = Vec::new();
        for pass in 0..2 {
            let state = self.content.at(self.content.last);
            for (table, made) in TABLES.iter().enumerate() {
                for answer in must(made.name, look(&mut session, table, &state[table], random))? {
                    match answer {
                        Answer::Right => {}
                        Answer::Wrong(what) => wrong.push(what),
                        Answer::Refused { code, message, statement } => {
                            refusals.push((
                                made.name,
                                format!("{statement}: error {code} ({message})"),
                                code,
                            ));
                        }
                    }
                }
            }
            if pass == 0 {
                let is_sick = |name: &str| sick.contains(name);
                let refused = self.content.write_to_each(&mut session, is_sick);
                for (name, failure) in must("write", refused)? {
                    let code = if let Failure::Sql { code, .. } = failure { code } else { 0 };
                    refusals.push((name, failure.to_string(), code));
                }
                wrong.extend(flushes(&mut session)?);
            }
        }
        let is_explained = |name: &str, code: u16| sick.contains(name) && code == 1034;
        for (name, refusal, code) in &refusals {
            if !is_explained(name, *code) {
                wrong.push(format!("table {name}: {refusal}"));
            }
        }
        tally.refused_tables += refusals.len() as u32;
        Ok(!refusals.is_empty())
    }

    /// After damage like a torn tail: at most the last commit is gone, and nothing else.
    fn lost_at_the_end(&mut self, tally: &mut DamageCounts, wrong: &mut Vec<String>) -> Result<()> {
        let newest = must("newest", Content::newest_there(&mut connect(&self.server)?))?;
        let lost = self.content.last - newest;
        if !(0..=1).contains(&lost) {
            wrong.push(format!("the store opened, and {lost} commits are gone"));
        }
        tally.lost_at_the_end += lost;
        self.content.settle(newest);
        Ok(())
    }

    /// A refused start names the file and a remedy.
    fn refusal(&self, plan: Plan, hit: &Hit) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        if !matches!(plan.kind, Kind::Log | Kind::Manifest | Kind::Current | Kind::Owner | Kind::Identity) {
            wrong.push(format!("the store does not open: {}", self.new_lines()?.join(" | ")));
        }
        let text = self.new_lines()?.join("\n");
        let is_named = match plan.kind {
            // Which of the two is wrong nobody knows.
            Kind::Owner | Kind::Identity => text.contains("OWNER") || text.contains("tidesdb_identity"),
            _ => hit.paths.iter().any(|path| names(path, &text)),
        };
        let remedy = match plan.kind {
            Kind::Manifest => "restore a backup",
            Kind::Log | Kind::Current => "tidesdb-admin",
            _ => "remove ",
        };
        if !is_named || !text.contains(remedy) {
            wrong.push(format!("the error log names no file, or no remedy ('{remedy}'): {text}"));
        }
        if matches!(plan.kind, Kind::Log | Kind::Manifest | Kind::Current) {
            let found = match verify_store(&RealDisk::shared(), &self.store(), Watch::NONE) {
                Ok(check) => check.damage.join("\n"),
                Err(error) => error.to_string(),
            };
            if !hit.paths.iter().any(|path| names(path, &found)) {
                wrong.push(format!("verify does not name the file: '{found}'"));
            }
        }
        Ok(wrong)
    }

    fn names_a_file(&self, hit: &Hit) -> Result<Option<String>> {
        let lines = self.new_lines()?.join("\n");
        let is_named = hit.paths.iter().any(|path| names(path, &lines));
        Ok((!is_named).then(|| format!("the error log does not name the file: {lines}")))
    }

    /// The engine's lines in the error log since the mark.
    fn new_lines(&self) -> Result<Vec<String>> {
        let log = self.server.directory().join("error.log");
        let bytes = fs::read(&log).map_err(io_error("cannot read", &log))?;
        let text = String::from_utf8_lossy(&bytes[(self.mark as usize).min(bytes.len())..]).into_owned();
        Ok(text.lines().filter(|line| line.contains("TidesDB")).map(str::to_string).collect())
    }

    fn log_length(&self) -> Result<u64> {
        let log = self.server.directory().join("error.log");
        Ok(fs::metadata(&log).map_err(io_error("cannot size", &log))?.len())
    }

    /// Repairs the store of a stopped server into another directory, and starts the server on that for a look: tables
    /// without damage have their rows, up to a commit.
    fn repaired(
        &mut self,
        hit: &Hit,
        tally: &mut DamageCounts,
        random: &mut StdRng,
        wrong: &mut Vec<String>,
    ) -> Result<()> {
        let (store, aside) = (self.store(), self.server.directory().join("aside"));
        let copy = self.server.directory().join("copy");
        let disk = RealDisk::shared();
        let failed =
            |error: tidesdb::Error| Error::Load { what: "repair".to_string(), message: error.to_string() };
        let verified = verify_store(&disk, &store, Watch::NONE).map_err(failed)?.damage;
        let left_out = repair(&disk, &store, &copy, Watch::NONE).map_err(failed)?.damage;
        let lost_name = hit.paths.iter().any(|path| path.ends_with("CURRENT"));
        if verified.is_empty() != left_out.is_empty() && !lost_name {
            wrong.push(format!("verify lists {verified:?}, repair leaves out {left_out:?}"));
        }
        tally.repaired += 1;
        let rename = |from: &Path, to: &Path| fs::rename(from, to).map_err(io_error("cannot rename", from));
        // What the data directory remembers of its store goes with that: it refuses one that is older than the copy.
        let record = self.server.directory().join("data/tidesdb_store");
        let remembered = fs::read(&record).map_err(io_error("cannot read", &record))?;
        rename(&store, &aside)?;
        rename(&copy, &store)?;
        self.server.restart(&self.settings, self.lab.interrupt)?;
        let listed = left_out.join("\n");
        let mut session = connect(&self.server)?;
        let newest = match listed.contains(&format!("'{DATABASE}/journal")) {
            true => self.content.last,
            false => must("newest", Content::newest_there(&mut session))?,
        };
        let state = self.content.at(newest);
        for (table, made) in TABLES.iter().enumerate() {
            if listed.contains(&format!("'{DATABASE}/{}\0", made.name)) {
                continue;
            }
            for answer in must(made.name, look(&mut session, table, &state[table], random))? {
                if !matches!(answer, Answer::Right) {
                    wrong.push(format!("repaired, {} left out: {}: {answer:?}", hit.what, made.name));
                }
            }
        }
        drop(session);
        self.server.crash()?;
        fs::remove_dir_all(&store).map_err(io_error("cannot remove", &store))?;
        fs::write(&record, remembered).map_err(io_error("cannot write", &record))?;
        rename(&aside, &store)
    }
}

/// Hits one of the files, if one can be hit in this way.
fn hit_one(way: Way, places: &[Place], directory: &Path, random: &mut StdRng) -> Result<Option<Hit>> {
    let keep = directory.join("kept");
    fs::create_dir_all(&keep).map_err(io_error("cannot make", &keep))?;
    for _ in 0..20 {
        let Some(place) = places.get(random.random_range(0..places.len().max(1))) else { return Ok(None) };
        let others: Vec<Place> = places.iter().filter(|other| *other != place).cloned().collect();
        if let Some(hit) = hit::make(way, place, &others, &keep, random)? {
            return Ok(Some(hit));
        }
    }
    Ok(None)
}

/// True if the text names the file.
fn names(path: &Path, text: &str) -> bool {
    path.file_name().is_some_and(|name| text.contains(&*name.to_string_lossy()))
}

fn names_of_tables() -> Vec<String> {
    TABLES.iter().map(|table| format!("{DATABASE}.{}", table.name)).collect()
}

/// Makes a table, fills it until the memtable is flushed, and drops it. Longer rows would go to value files.
fn flushes(session: &mut Session) -> Result<Option<String>> {
    let count = "tidesdb_flush_count";
    let before = must(count, session.status(count))?;
    let table = format!("{DATABASE}.filler");
    set_up(
        session,
        &[
            &format!("CREATE TABLE {table} (a INT PRIMARY KEY, pad VARBINARY(4000)) ENGINE=TidesDB MIN_DISK_SPACE=0"),
            &format!("INSERT INTO {table} SELECT seq, REPEAT('f', 4000) FROM {DATABASE}.seq_1_to_400"),
        ],
    )?;
    let start = Instant::now();
    let mut flushed = false;
    while !flushed && start.elapsed() < QUIET_WITHIN {
        flushed = must(count, session.status(count))? > before;
        if !flushed {
            thread::sleep(Duration::from_millis(20));
        }
    }
    set_up(session, &[&format!("DROP TABLE {table}")])?;
    Ok((!flushed).then(|| "nothing is flushed any more".to_string()))
}
