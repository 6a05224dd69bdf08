//! One engine's round: the operations one after the other, each checked. After each writing one, the engine's
//! time and bytes until nothing is left to do are measured.
//!
//! Filling in order has a store of its own. All other operations use the one filled in random order, and
//! leave it idle for the next. Only a scan after overwrites begins with the work put off.

use std::fs::{self, File};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidelab::experiment::engine::{cell_id, Design};
use tidelab::run::Cell;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::telemetry::disk::{self, Space};

use crate::cost::Cost;
use crate::data::{Data, Shape};
use crate::operation::{self, Load, Operation};
use crate::record::{self, Observed, Quiet};
use crate::store::{engine_error, Engine, Scan, Store, Use};
use crate::stores;

/// An engine is quiet when it says so, and writes nothing, for so long; this time is not counted.
const STILL: Duration = Duration::from_millis(60);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// The results of a round so far.
#[derive(Debug, Default)]
pub struct Round {
    /// A cell for each measured operation, in their order, with its series by time.
    pub cells: Vec<(Cell, tidelab::run::Series)>,
    /// The engine's version.
    pub version: String,
    /// Its counters when the last store was closed.
    pub counters: Vec<(String, u64)>,
}

/// Runs a round of one engine in a directory, emptied before and afterwards. `watch` gets the results so far
/// after each operation. Errors end the round; wrong answers only fail their cell.
pub fn run(
    design: &Design,
    engine: Engine,
    round: u32,
    directory: &Path,
    watch: &mut dyn FnMut(&Round) -> Result<()>,
) -> Result<()> {
    let shape = Shape {
        rows: design.rows,
        key_bytes: design.key_bytes,
        value_bytes: design.value_bytes,
        compressible: design.compressible,
        seed: design.seed_of(round),
    };
    let mut so_far = Round::default();
    let asked = |operation: &Operation| design.operations.contains(operation);
    let fill = Some(Operation::FillSequential).filter(asked);
    let others: Vec<Operation> =
        Operation::ALL.into_iter().filter(asked).filter(|o| *o != Operation::FillSequential).collect();
    for (operations, fills) in [(fill.into_iter().collect(), true), (others, false)] {
        if !operations.is_empty() {
            empty(directory)?;
            let mut stage = Stage {
                design,
                engine,
                round,
                directory,
                data: Data::new(shape),
                store: None,
                purpose: Use::Plain,
                so_far: &mut so_far,
            };
            stage.run(&operations, fills, watch)?;
        }
    }
    empty(directory)
}

/// Removes the directory and makes it anew.
fn empty(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io_error("cannot remove", directory)(error))
        }
        _ => fs::create_dir_all(directory).map_err(io_error("cannot make", directory)),
    }
}

/// The operations on one store.
struct Stage<'a> {
    design: &'a Design,
    engine: Engine,
    round: u32,
    directory: &'a Path,
    data: Data,
    store: Option<Box<dyn Store>>,
    purpose: Use,
    so_far: &'a mut Round,
}

impl Stage<'_> {
    fn run(
        &mut self,
        operations: &[Operation],
        fills: bool,
        watch: &mut dyn FnMut(&Round) -> Result<()>,
    ) -> Result<()> {
        self.open(Use::Plain)?;
        if !fills && operations.first() != Some(&Operation::FillRandom) {
            self.prepare(Operation::FillRandom, &self.design.load)?;
            self.quiet()?;
        }
        for &operation in operations {
            let observed = self.observe(operation)?;
            let id = cell_id(self.engine, operation, self.round);
            let cell = record::cell(id, self.data.shape().seed, &observed);
            self.so_far.cells.push((cell, record::series(&observed.measured)));
            self.so_far.counters = self.store()?.counters()?;
            watch(self.so_far)?;
        }
        self.close()
    }

    fn store(&self) -> Result<&dyn Store> {
        self.store.as_deref().ok_or_else(|| engine_error(self.engine, "store", "is not open"))
    }

    fn open(&mut self, purpose: Use) -> Result<()> {
        let store = stores::open(self.engine, self.directory, &self.design.settings, purpose)?;
        self.so_far.version = store.version();
        self.store = Some(store);
        self.purpose = purpose;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.store.take().map_or(Ok(()), Store::close)
    }

    /// Runs an operation without measuring it; a wrong answer is an error.
    fn prepare(&self, operation: Operation, load: &Load) -> Result<()> {
        let done = operation::run(self.store()?, &self.data, operation, load, 1);
        match done.failures.first() {
            None => Ok(()),
            Some(failure) => Err(engine_error(self.engine, "preparation", failure)),
        }
    }

    fn observe(&mut self, operation: Operation) -> Result<Observed> {
        let purpose = if operation == Operation::Transactions { Use::Transactions } else { Use::Plain };
        let mut reopened_s = None;
        if purpose != self.purpose {
            let start = Instant::now();
            self.close()?;
            self.open(purpose)?;
            reopened_s = Some(start.elapsed().as_secs_f64());
        }
        if operation == Operation::ScanAfterOverwrite {
            let half = Load { calls: self.design.load.calls.div_ceil(2), seconds: None, ..self.design.load };
            self.prepare(Operation::Overwrite, &half)?;
        }
        let store = self.store()?;
        let before = Cost::now();
        let measured = operation::run(store, &self.data, operation, &self.design.load, 0);
        let cost = Cost::now().since(before);
        let debt = store.debt()?;
        let mut observed = Observed { measured, cost, debt, reopened_s, ..Observed::default() };
        if operation.writes() || operation == Operation::ScanAfterOverwrite {
            observed.quiet = Some(self.quiet()?);
            observed.space = self.space();
            observed.live_bytes = self.data.live_bytes();
        }
        if operation.writes() {
            observed.measured.failures.extend(self.verify()?);
        }
        Ok(observed)
    }

    /// Lets the engine finish its deferred work.
    fn quiet(&self) -> Result<Quiet> {
        let (start, before) = (Instant::now(), Cost::now());
        let store = self.store()?;
        store.flush()?;
        let limit = Duration::from_secs(self.design.quiet_limit_s.into());
        let (mut still, mut written) = (Instant::now(), Cost::now().written_bytes);
        while still.elapsed() < STILL {
            if start.elapsed() > limit {
                let late = format!("still at work after {} s", self.design.quiet_limit_s);
                return Err(engine_error(self.engine, "finishing what was put off", late));
            }
            sleep(LOOK);
            let now = Cost::now().written_bytes;
            if now != written || store.is_busy()? {
                (still, written) = (Instant::now(), now);
            }
        }
        let busy = still - start;
        let sync = Instant::now();
        sync_files(self.directory)?;
        Ok(Quiet { seconds: (busy + sync.elapsed()).as_secs_f64(), cost: Cost::now().since(before) })
    }

    fn space(&self) -> Space {
        let engine = self.engine;
        disk::of(self.directory, &|name| match engine {
            Engine::TidesDb => name.ends_with(".wal"),
            Engine::RocksDb => name.ends_with(".log"),
            Engine::Lmdb => false,
        })
    }

    /// Reads the whole store and compares it with the written rows. Returns the faults.
    fn verify(&self) -> Result<Vec<String>> {
        let data = &self.data;
        let (mut wrong, mut failures) = (0u64, Vec::new());
        let mut next = 0;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut session = self.store()?.session()?;
        let mut fail = |what: String| {
            wrong += 1;
            if wrong <= 3 {
                failures.push(format!("afterwards: {what}"));
            }
        };
        let all = Scan { from: None, forward: true, limit: u64::MAX };
        let count = session.scan(&all, &mut |found_key, found_value| {
            while next < data.shape().rows && data.version(next) == 0 {
                next += 1;
            }
            if next == data.shape().rows {
                fail(format!("a key more than there must be: {found_key:?}"));
                return;
            }
            data.key(next, &mut key);
            data.value(next, data.version(next), &mut value);
            if found_key != key || found_value != value {
                let found = (data.row_of(found_key), data.owner(found_value));
                fail(format!("row {next} version {} belongs where {found:?} is", data.version(next)));
            }
            next += 1;
        })?;
        if count != data.live() {
            fail(format!("{count} rows where {} belong", data.live()));
        }
        if wrong > 3 {
            failures.push(format!("afterwards: {} wrong rows more", wrong - 3));
        }
        Ok(failures)
    }
}

/// Waits until all files below a directory are on disk.
fn sync_files(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).map_err(io_error("cannot read", directory))? {
        let path = entry.map_err(io_error("cannot read", directory))?.path();
        if path.is_dir() {
            sync_files(&path)?;
            continue;
        }
        // The engine may remove an old file at any time.
        match File::open(&path).and_then(|file| file.sync_all()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::Io { what: "cannot sync", path, source: error });
            }
            _ => {}
        }
    }
    Ok(())
}
