//! One thread's share of an operation: its calls, their times, and whether their answers are right.

use std::time::Instant;

use rand::rngs::StdRng;
use rand::RngExt;
use tidelab::experiment::engine::{Load, Operation};
use tidelab_server::error::Result;

use crate::data::Data;
use crate::measured::{Measured, SCAN_SAMPLE, STEP};
use crate::store::{Scan, Session, Store};

/// Failures of a thread told in full; more are counted.
const TOLD: u64 = 3;

/// See the module.
pub(crate) struct Worker<'a> {
    data: &'a Data,
    load: &'a Load,
    operation: Operation,
    thread: u64,
    threads: u64,
    random: StdRng,
    clock: Clock,
    failures: Failures,
    user_bytes: u64,
    key: Vec<u8>,
}

/// Times of calls.
struct Clock {
    start: Instant,
    last: Instant,
    measured: Measured,
}

impl Clock {
    /// Notes the end of a call with `count` units of the operation.
    fn ended(&mut self, count: u64) {
        let now = Instant::now();
        self.measured.latency.record(now - self.last);
        self.last = now;
        self.measured.count += count;
        let step = ((now - self.start).as_nanos() / STEP.as_nanos()) as usize;
        if self.measured.steps.len() <= step {
            self.measured.steps.resize(step + 1, 0);
        }
        self.measured.steps[step] += count;
    }
}

/// Wrong answers, the first ones in words.
struct Failures {
    operation: Operation,
    count: u64,
    told: Vec<String>,
}

impl Failures {
    fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.count <= TOLD {
            self.told.push(format!("{}: {}", self.operation, what()));
        }
    }

    fn check(&mut self, right: bool, what: impl FnOnce() -> String) {
        if !right {
            self.add(what);
        }
    }
}

/// Rows of one commit.
#[derive(Default)]
struct Batch {
    rows: Vec<(u64, u32)>,
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Batch {
    fn clear(&mut self) {
        self.rows.clear();
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the next version of a row.
    fn add(&mut self, data: &Data, row: u64) {
        let version = data.next_version(row);
        data.key(row, &mut self.key);
        data.value(row, version, &mut self.value);
        self.rows.push((row, version));
        self.bytes.extend_from_slice(&self.key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(&self.value);
        self.ends.push((middle, self.bytes.len()));
    }

    /// Writes them in one commit, and notes them as written.
    fn commit(&self, session: &mut dyn Session, data: &Data) -> Result<()> {
        let row = |from: usize, (middle, end): (usize, usize)| {
            (&self.bytes[from..middle], &self.bytes[middle..end])
        };
        match self.ends.as_slice() {
            [one] => session.put(&[row(0, *one)])?,
            ends => {
                let starts = std::iter::once(0).chain(ends.iter().map(|(_, end)| *end));
                session.put(&starts.zip(ends).map(|(from, end)| row(from, *end)).collect::<Vec<_>>())?;
            }
        }
        for &(row, version) in &self.rows {
            data.written(row, version);
        }
        Ok(())
    }
}

/// Rows of one read: their numbers, their versions before it, and their keys, one after the other.
#[derive(Default)]
struct ReadBatch {
    rows: Vec<(u64, u32)>,
    keys: Vec<u8>,
}

impl<'a> Worker<'a> {
    /// The share of a thread.
    pub(crate) fn new(
        data: &'a Data,
        load: &'a Load,
        operation: Operation,
        thread: u32,
        turn: u64,
        start: Instant,
    ) -> Worker<'a> {
        Worker {
            data,
            load,
            operation,
            thread: thread.into(),
            threads: load.threads.into(),
            random: data.random(turn << 16 | u64::from(thread) << 8 | operation as u64),
            clock: Clock { start, last: start, measured: Measured::default() },
            failures: Failures { operation, count: 0, told: Vec::new() },
            user_bytes: 0,
            key: Vec::new(),
        }
    }

    /// Does it. Fills by a random order and deletions take this thread's rows of `order`.
    pub(crate) fn work(mut self, store: &dyn Store, order: &[u64]) -> Measured {
        if let Err(error) = self.calls(store, order) {
            self.failures.add(|| error.to_string());
        }
        let Failures { count, mut told, .. } = self.failures;
        if count > TOLD {
            told.push(format!("{}: {} more of thread {}", self.operation, count - TOLD, self.thread));
        }
        Measured { user_bytes: self.user_bytes, failures: told, ..self.clock.measured }
    }

    fn calls(&mut self, store: &dyn Store, order: &[u64]) -> Result<()> {
        let mut session = store.session()?;
        let session = session.as_mut();
        self.clock.last = Instant::now();
        match self.operation {
            Operation::FillSequential => {
                let part = |thread: u64| self.data.shape().rows * thread / self.threads;
                self.write_rows(session, part(self.thread)..part(self.thread + 1))
            }
            Operation::FillRandom => self.write_rows(session, self.mine(order)),
            Operation::Delete => self.delete_rows(session, self.mine(order)),
            Operation::ReadRandom => self.repeat(|worker| worker.read(session)),
            Operation::ReadMissing => self.repeat(|worker| worker.read_missing(session)),
            Operation::ReadBatch => {
                let mut batch = ReadBatch::default();
                self.repeat(|worker| worker.read_batch(session, &mut batch))
            }
            Operation::Range => self.repeat(|worker| worker.range(session)),
            Operation::Overwrite => {
                let (mut batch, size) = (Batch::default(), self.load.batch);
                self.repeat(|worker| worker.overwrite(session, &mut batch, size))
            }
            Operation::Mixed => {
                let mut batch = Batch::default();
                self.repeat(|worker| match worker.random.random::<f64>() < worker.load.read_share {
                    true => worker.read(session),
                    false => worker.overwrite(session, &mut batch, 1),
                })
            }
            Operation::Transactions => {
                let mut rows = Vec::new();
                self.repeat(|worker| worker.transaction(session, &mut rows))
            }
            Operation::ScanForward | Operation::ScanAfterOverwrite => self.scans(session, true),
            Operation::ScanBack => self.scans(session, false),
        }
    }

    /// Calls it until as much is done, or as long, as the load says. A call gives how many it did.
    fn repeat(&mut self, mut call: impl FnMut(&mut Self) -> Result<u64>) -> Result<()> {
        // As many rows in transactions as in overwrites.
        let each =
            if self.operation == Operation::Transactions { self.load.transaction_rows.into() } else { 1 };
        let part = |thread: u64| self.load.calls.div_ceil(each) * thread / self.threads;
        let wanted = part(self.thread + 1) - part(self.thread);
        while match self.load.seconds {
            None => self.clock.measured.count < wanted,
            Some(seconds) => (self.clock.last - self.clock.start).as_secs_f64() < seconds,
        } {
            let count = call(self)?;
            if count == 0 {
                // More threads than rows: there is nothing for this one.
                break;
            }
            self.clock.ended(count);
        }
        Ok(())
    }

    /// This thread's share of the rows, for writing.
    fn mine<'o>(&self, order: &'o [u64]) -> impl Iterator<Item = u64> + use<'o> {
        let (thread, threads) = (self.thread, self.threads);
        order.iter().copied().filter(move |row| row % threads == thread)
    }

    fn any_row(&mut self) -> u64 {
        self.random.random_range(0..self.data.shape().rows)
    }

    /// A row of this thread's, for writing; none when there are more threads than rows.
    fn own_row(&mut self) -> Option<u64> {
        let own = (self.data.shape().rows + self.threads - 1 - self.thread) / self.threads;
        (own > 0).then(|| self.random.random_range(0..own) * self.threads + self.thread)
    }

    fn row_bytes(&self) -> u64 {
        (self.data.shape().key_bytes + self.data.shape().value_bytes) as u64
    }

    /// Writes rows, a batch in each commit.
    fn write_rows(&mut self, session: &mut dyn Session, rows: impl Iterator<Item = u64>) -> Result<()> {
        let mut rows = rows.peekable();
        let mut batch = Batch::default();
        while rows.peek().is_some() {
            batch.clear();
            rows.by_ref().take(self.load.batch as usize).for_each(|row| batch.add(self.data, row));
            batch.commit(session, self.data)?;
            self.user_bytes += self.row_bytes() * batch.rows.len() as u64;
            self.clock.ended(batch.rows.len() as u64);
        }
        Ok(())
    }

    /// Deletes rows, a batch in each commit.
    fn delete_rows(&mut self, session: &mut dyn Session, rows: impl Iterator<Item = u64>) -> Result<()> {
        let mut rows = rows.peekable();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        while rows.peek().is_some() {
            let batch: Vec<u64> = rows.by_ref().take(self.load.batch as usize).collect();
            keys.resize(batch.len(), Vec::new());
            for (row, key) in batch.iter().zip(&mut keys) {
                self.data.key(*row, key);
                self.user_bytes += key.len() as u64;
            }
            session.delete(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
            batch.iter().for_each(|row| self.data.deleted(*row));
            self.clock.ended(batch.len() as u64);
        }
        Ok(())
    }

    fn overwrite(&mut self, session: &mut dyn Session, batch: &mut Batch, size: u32) -> Result<u64> {
        batch.clear();
        for _ in 0..size {
            let Some(row) = self.own_row() else { return Ok(0) };
            batch.add(self.data, row);
        }
        batch.commit(session, self.data)?;
        self.user_bytes += self.row_bytes() * u64::from(size);
        Ok(size.into())
    }

    fn read(&mut self, session: &mut dyn Session) -> Result<u64> {
        let row = self.any_row();
        let committed = self.data.version(row);
        self.data.key(row, &mut self.key);
        let mut owner = None;
        let found = session.get(&self.key, &mut |value| owner = Some(self.data.owner(value)))?;
        self.failures.check(found == (committed > 0), || {
            format!(
                "row {row} was {}, version {committed} is committed",
                if found { "found" } else { "missed" }
            )
        });
        if let Some(owner) = owner {
            let right = owner.is_some_and(|(of, version)| of == row && version >= committed);
            self.failures.check(right, || format!("row {row} version {committed} was read as {owner:?}"));
        }
        Ok(1)
    }

    fn read_batch(&mut self, session: &mut dyn Session, batch: &mut ReadBatch) -> Result<u64> {
        batch.rows.clear();
        batch.keys.clear();
        for _ in 0..self.load.read_batch {
            let row = self.any_row();
            batch.rows.push((row, self.data.version(row)));
            self.data.key(row, &mut self.key);
            batch.keys.extend_from_slice(&self.key);
        }
        let keys: Vec<&[u8]> = batch.keys.chunks(self.key.len()).collect();
        let (data, failures, mut answered) = (self.data, &mut self.failures, 0);
        session.get_many(&keys, &mut |place, value| {
            let (row, committed) = batch.rows[place];
            answered += 1;
            let owner = value.map(|value| data.owner(value));
            let right = match owner {
                None => committed == 0,
                Some(owner) => owner.is_some_and(|(of, version)| of == row && version >= committed.max(1)),
            };
            failures.check(right, || format!("row {row} version {committed} was read as {owner:?}"));
        })?;
        failures.check(answered == keys.len(), || format!("{answered} answers for {} keys", keys.len()));
        Ok(self.load.read_batch.into())
    }

    fn read_missing(&mut self, session: &mut dyn Session) -> Result<u64> {
        let row = self.any_row();
        self.data.missing_key(row, &mut self.key);
        let found = session.get(&self.key, &mut |_| ())?;
        self.failures.check(!found, || format!("a key after row {row} was found that no thread wrote"));
        Ok(1)
    }

    fn range(&mut self, session: &mut dyn Session) -> Result<u64> {
        let first = self.any_row();
        self.data.key(first, &mut self.key);
        let wanted = self.load.range_rows.min(self.data.shape().rows - first);
        let scan = Scan { from: Some(&self.key), forward: true, limit: self.load.range_rows };
        let (data, failures) = (self.data, &mut self.failures);
        let mut next = first;
        let seen = session.scan(&scan, &mut |key, value| {
            check_row(data, failures, key, value, next);
            next += 1;
        })?;
        failures.check(seen == wanted, || format!("{seen} rows from row {first} on where {wanted} are"));
        Ok(1)
    }

    fn transaction(&mut self, session: &mut dyn Session, rows: &mut Vec<u64>) -> Result<u64> {
        rows.clear();
        for _ in 0..self.load.transaction_rows {
            let Some(row) = self.own_row() else { return Ok(0) };
            rows.push(row);
        }
        rows.sort_unstable();
        rows.dedup();
        let keys: Vec<Vec<u8>> = rows
            .iter()
            .map(|row| {
                self.data.key(*row, &mut self.key);
                self.key.clone()
            })
            .collect();
        let versions: Vec<u32> = rows.iter().map(|row| self.data.next_version(*row)).collect();
        let (data, failures) = (self.data, &mut self.failures);
        session.transact(
            &keys.iter().map(Vec::as_slice).collect::<Vec<_>>(),
            &mut |place, old: Option<&[u8]>, new: &mut Vec<u8>| {
                let (row, version) = (rows[place], data.version(rows[place]));
                let owner = old.map(|value| data.owner(value));
                let right = match owner {
                    None => version == 0,
                    Some(owner) => owner == Some((row, version)),
                };
                failures.check(right, || format!("row {row} version {version} was read as {owner:?}"));
                data.value(row, versions[place], new);
            },
        )?;
        for (row, version) in rows.iter().zip(&versions) {
            self.data.written(*row, *version);
        }
        self.user_bytes += self.row_bytes() * rows.len() as u64;
        Ok(1)
    }

    /// Whole passes; every row must be there once, in order, as it was written last.
    fn scans(&mut self, session: &mut dyn Session, forward: bool) -> Result<()> {
        let (data, rows) = (self.data, self.data.shape().rows);
        let wanted = data.live();
        for _ in 0..self.load.passes {
            let (clock, failures) = (&mut self.clock, &mut self.failures);
            let (mut seen, mut last) = (0, None);
            let scan = Scan { from: None, forward, limit: u64::MAX };
            let count = session.scan(&scan, &mut |key, value| {
                let row = match key.get(..8).map(<[u8; 8]>::try_from) {
                    Some(Ok(number)) => u64::from_be_bytes(number) / 2,
                    _ => rows,
                };
                let ordered = last.is_none_or(|last| if forward { last < row } else { last > row });
                failures.check(ordered, || format!("row {row} came after row {last:?}"));
                last = Some(row);
                check_row(data, failures, key, value, row);
                seen += 1;
                if seen % SCAN_SAMPLE == 0 {
                    clock.ended(SCAN_SAMPLE);
                }
            })?;
            // The seek belongs to the first rows, the end to the last ones.
            if count % SCAN_SAMPLE > 0 {
                self.clock.ended(count % SCAN_SAMPLE);
            }
            self.failures.check(count == wanted, || format!("{count} rows where {wanted} are"));
        }
        Ok(())
    }
}

/// Compares key and value with the row as written last.
fn check_row(data: &Data, failures: &mut Failures, key: &[u8], value: &[u8], row: u64) {
    let number = key.get(..8).and_then(|number| number.try_into().ok()).map(u64::from_be_bytes);
    if number != Some(row * 2) || row >= data.shape().rows {
        failures.add(|| format!("a key {number:?} where row {row} belongs"));
        return;
    }
    let version = data.version(row);
    let owner = data.owner(value);
    failures.check(version > 0 && owner == Some((row, version)), || {
        format!("row {row} version {version} was read as {owner:?}")
    });
}
