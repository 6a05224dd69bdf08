//! Random programs over several families and several concurrent transactions, interleaved by one thread,
//! alongside a model of snapshots, own writes, locks, conflicts and duplicates. Every answer of the
//! store is compared with the model's, with normal constants and with tiny ones.
//!
//! `MODEL_SEED` repeats one program, `MODEL_SEEDS` runs more of them.

mod sim;

#[path = "model/lives.rs"]
mod lives;
#[path = "model/reads.rs"]
mod reads;
#[path = "model/reference.rs"]
mod reference;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reference::{refusal, Key, Model, ModelTxn, Refusal};
use sim::{begin_as, env, open, seeds, Asked, Rng, Row};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::io::FaultyDisk;
use tidesdb::internal::store::family::Family;
use tidesdb::internal::txn::cursor::Cursor;
use tidesdb::internal::txn::transaction::{ReadMode, Transaction};
use tidesdb::{Compression, FamilyOptions, FormatVersion, Isolation, Options, SyncMode, TransactionOptions};

struct Open {
    txn: Transaction,
    model: ModelTxn,
    /// A cursor with its scan and its current key.
    cursor: Option<OpenCursor>,
}

struct OpenCursor {
    cursor: Cursor,
    family: u64,
    asked: Asked,
    /// Place in the cursor's batch, and the transaction's change counter when the batch was read.
    place: usize,
    changes: u64,
}

struct World {
    seed: u64,
    rng: Rng,
    options: Options,
    family_options: Vec<FamilyOptions>,
    disk: FaultyDisk,
    db: Option<Db>,
    handles: BTreeMap<u64, Arc<Family>>,
    model: Model,
    open: Vec<Open>,
    crash_ok: Vec<Crash>,
    counts: BTreeMap<&'static str, u64>,
    keys: u64,
    value: usize,
}

const WAIT: Duration = Duration::from_secs(20);

impl World {
    fn new(seed: u64, tiny: bool) -> World {
        let mut rng = Rng(seed);
        let sync = *rng.pick(&[SyncMode::None, SyncMode::Interval, SyncMode::Full]);
        let mut options = if tiny { sim::tiny(sync) } else { sim::normal(sync) };
        // Both versions of the formats, without another number of the generator.
        options.least_format = [FormatVersion::One, FormatVersion::Two][(seed % 2) as usize];
        if tiny {
            options.write_buffer_size = (4 << 10) << rng.below(3);
            options.block_cache_size = *rng.pick(&[0, 1 << 10, 8 << 10]);
            options.target_file_size = *rng.pick(&[1 << 10, 4 << 10]);
            options.base_level_size = *rng.pick(&[4 << 10, 16 << 10]);
        }
        let mut crash_ok = vec![Crash::Kill];
        if sync == SyncMode::Full {
            crash_ok.extend(Crash::ALL);
        }
        let normal = FamilyOptions::default();
        let family_options = if tiny {
            vec![
                FamilyOptions { block_size: 128, ..sim::tiny_family() },
                FamilyOptions { block_size: 256, prefix_len: 2, use_btree: true, ..sim::tiny_family() },
                FamilyOptions { compression: Compression::Lz4, bloom_filter: false, ..sim::tiny_family() },
                FamilyOptions {
                    tombstone_density_trigger: 2500,
                    tombstone_density_min_entries: 8,
                    min_levels: 3,
                    ..sim::tiny_family()
                },
            ]
        } else {
            vec![
                normal.clone(),
                FamilyOptions { prefix_len: 3, ..normal.clone() },
                FamilyOptions { use_btree: true, compression: Compression::None, ..normal },
            ]
        };
        let disk = FaultyDisk::new(seed);
        let db = open(&disk, &options).expect("opens");
        let (keys, value) = (*rng.pick(&[6, 40, 300]), *rng.pick(&[4, 40, 200]));
        World {
            seed,
            rng,
            options,
            family_options,
            disk,
            db: Some(db),
            handles: BTreeMap::new(),
            model: Model::default(),
            open: Vec::new(),
            crash_ok,
            counts: BTreeMap::new(),
            keys,
            value,
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open")
    }

    fn trace(&self, what: impl FnOnce() -> String) {
        if std::env::var("MODEL_TRACE").is_ok() {
            println!("{}", what());
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn key(&mut self) -> Key {
        let n = self.rng.below(self.keys);
        match n % 4 {
            // Keys of one to a few bytes with shared prefixes, so that prefixes and bounds meet keys.
            0 => format!("{:02}", n % 100).into_bytes(),
            1 => format!("{:02}/{:03}", n % 10, n).into_bytes(),
            2 => vec![0xff, (n % 7) as u8, (n / 7) as u8],
            _ => format!("{n:05}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let len = self.rng.below(self.value as u64 + 1) as usize;
        let mut value = self.rng.next().to_le_bytes().to_vec();
        value.resize(len, (self.rng.next() % 251) as u8);
        value
    }

    /// A live family, sometimes a dropped one.
    fn family(&mut self) -> Option<(u64, Arc<Family>)> {
        let live: Vec<u64> = self.model.names.values().copied().collect();
        let id = if !live.is_empty() && !self.rng.one_in(40) {
            *self.rng.pick(&live)
        } else {
            let all: Vec<u64> = self.handles.keys().copied().collect();
            if all.is_empty() {
                return None;
            }
            *self.rng.pick(&all)
        };
        Some((id, self.handles[&id].clone()))
    }

    fn live(&self, family: u64) -> bool {
        self.model.names.values().any(|id| *id == family)
    }

    fn name(&mut self) -> Vec<u8> {
        format!("t{}", self.rng.below(5)).into_bytes()
    }

    /// The sequence number for a plain read of a transaction; takes the snapshot as the store does.
    fn read_seq(&mut self, at: usize, mode: ReadMode) -> u64 {
        let now = self.model.seq;
        let txn = &mut self.open[at].model;
        if mode != ReadMode::Snapshot {
            return u64::MAX;
        }
        match txn.isolation {
            Isolation::ReadUncommitted => u64::MAX,
            Isolation::ReadCommitted => *txn.statement.get_or_insert(now),
            _ => *txn.snapshot.get_or_insert(now),
        }
    }

    /// True if changing a key conflicts, by its newest version. `None`: either is right, because the deciding
    /// versions may be gone.
    fn conflicts(&self, at: usize, family: u64, key: &[u8]) -> Option<bool> {
        let txn = &self.open[at].model;
        let Some(snapshot) = txn.snapshot.filter(|_| txn.isolation >= Isolation::RepeatableRead) else {
            return Some(false);
        };
        let Some(known) = self.model.families.get(&family) else { return Some(false) };
        let Some((seq, change)) = known.at(key, u64::MAX) else { return Some(false) };
        if *seq <= snapshot {
            return Some(false);
        }
        let absent_then = known.at(key, snapshot).is_none_or(|(_, change)| change.is_none());
        if change.is_none() && absent_then {
            return None;
        }
        Some(true)
    }

    fn begin(&mut self) {
        let isolation = *self.rng.pick(&[
            Isolation::RepeatableRead,
            Isolation::RepeatableRead,
            Isolation::Snapshot,
            Isolation::ReadCommitted,
            Isolation::ReadUncommitted,
        ]);
        let options = TransactionOptions { isolation, ..TransactionOptions::default() };
        let mut txn = begin_as(self.db(), options);
        txn.set_lock_timeout(Some(Duration::ZERO));
        self.model.next_owner += 1;
        let model = ModelTxn {
            owner: self.model.next_owner,
            isolation,
            snapshot: None,
            statement: None,
            own: BTreeMap::new(),
            mark: BTreeMap::new(),
            bytes: 0,
            prepared: None,
            ordered: false,
        };
        self.open.push(Open { txn, model, cursor: None });
        let at = self.open.len() - 1;
        self.statement(at);
    }

    fn statement(&mut self, at: usize) {
        let now = self.model.seq;
        let open = &mut self.open[at];
        open.cursor = None;
        open.txn.statement_begin(true, WAIT).expect("statement");
        open.model.statement = None;
        open.model.mark = open.model.own.clone();
        if open.model.isolation == Isolation::Snapshot {
            open.model.snapshot.get_or_insert(now);
        }
    }

    fn write(&mut self, at: usize) {
        let Some((family, handle)) = self.family() else { return };
        let (key, value) = (self.key(), self.value());
        // Transactions that spill lock whole tables: they have a model of their own, in spill.rs.
        let bound = self.options.spill_bound();
        if self.open[at].model.bytes + key.len() + value.len() + 64 > bound {
            self.count("large enough");
            return;
        }
        if self.perhaps_kept_out(at, family, &key) {
            return;
        }
        let kind = self.rng.below(3);
        // What must come, in the order in which the store looks.
        let mut expected: Vec<Result<(), Refusal>> = vec![Ok(())];
        let owner = self.open[at].model.owner;
        if !self.live(family) {
            expected = vec![Err(Refusal::Dropped)];
        } else {
            let own = self.open[at].model.own.get(&(family, key.clone())).cloned();
            match self.model.lock_or_gap(owner, family, &key, true) {
                Err(refusal) => expected = vec![Err(refusal)],
                Ok(_) => {
                    let newest = self.model.families[&family].at(&key, u64::MAX);
                    let live = newest.is_some_and(|(_, change)| change.is_some());
                    match (own, kind) {
                        (Some(Some(_)), 1) => expected = vec![Err(Refusal::Duplicate)],
                        (Some(_), _) => {}
                        (None, 1) if live => expected = vec![Err(Refusal::Duplicate)],
                        (None, _) => match self.conflicts(at, family, &key) {
                            Some(true) => expected = vec![Err(Refusal::Conflict)],
                            Some(false) => {}
                            None => expected.push(Err(Refusal::Conflict)),
                        },
                    }
                }
            }
        }
        let txn = &mut self.open[at].txn;
        let done = match kind {
            0 => txn.put(&handle, &key, &value),
            1 => txn.insert(&handle, &key, &value),
            _ => txn.single_delete(&handle, &key),
        };
        let bytes = key.len() + if kind == 2 { 0 } else { value.len() };
        let open = &mut self.open[at];
        match done {
            Ok(()) => {
                assert!(expected.contains(&Ok(())), "expected {expected:?}, the write was accepted");
                open.model.bytes += bytes + 32;
                assert!(open.model.own.len() < bound, "far more than the bound was accepted");
                let change = (kind != 2).then_some(value);
                open.model.own.insert((family, key), change);
                self.count("writes");
            }
            Err(error) => {
                let got = refusal(&error).unwrap_or_else(|| panic!("write: {error}"));
                assert!(expected.contains(&Err(got)), "expected {expected:?}, got {got:?}");
                self.count(match got {
                    Refusal::Conflict => "conflicts",
                    Refusal::Duplicate => "duplicates",
                    Refusal::Locked => "lock timeouts",
                    Refusal::Dropped => "dropped",
                    Refusal::TooOld => unreachable!("no write asks for the family's created_seq"),
                });
                // A transaction that met a conflict must be rolled back; some go on all the same, and
                // must then meet it again.
                if got == Refusal::Conflict && !self.rng.one_in(3) {
                    self.end(at, false);
                }
            }
        }
    }

    fn end(&mut self, at: usize, commit: bool) {
        let mut open = self.open.swap_remove(at);
        open.cursor = None;
        if commit {
            open.txn.commit().expect("commits");
            self.model.commit(&open.model.own);
            self.count("commits");
        } else {
            open.txn.rollback().expect("rolls back");
            self.count("rollbacks");
        }
        self.model.unlock_all(open.model.owner);
    }

    /// The whole committed content.
    fn compare(&mut self) {
        for (name, id) in self.model.names.clone() {
            let family = self.db().family(&name).expect("there");
            let known = &self.model.families[&id];
            let expected: Vec<Row> = known
                .keys
                .keys()
                .filter_map(|key| Some((key.clone(), known.at(key, u64::MAX)?.1.clone()?)))
                .collect();
            assert_eq!(sim::rows(self.db(), &family).expect("reads"), expected, "family {name:?}");
            for (counter, highest) in &known.counters {
                let next = self.db().counter_peek(&family, *counter).expect("peeks");
                assert!(next > *highest, "counter {counter} would hand out {next}, and {highest} was");
            }
        }
    }

    fn run(&mut self, steps: u64) {
        for step in 0..steps {
            let choice = self.rng.below(100);
            self.trace(|| format!("step {step}: {choice}, {} open, seq {}", self.open.len(), self.model.seq));
            if self.open.len() < 4 && (self.open.is_empty() || choice < 8) {
                self.begin();
            }
            let at = self.rng.below(self.open.len() as u64) as usize;
            if self.open[at].model.prepared.is_some() {
                if self.rng.one_in(3) || self.open[at].model.ordered {
                    self.decide(at);
                }
                continue;
            }
            match choice {
                0..=44 => self.write(at),
                45..=54 => self.get(at),
                55..=60 => self.scan(at),
                61..=70 => self.step(at),
                71..=73 => self.statement(at),
                74..=75 => {
                    let open = &mut self.open[at];
                    open.cursor = None;
                    open.txn.statement_rollback();
                    open.model.own = open.model.mark.clone();
                    open.model.statement = None;
                }
                76..=84 => self.end(at, true),
                85..=86 => self.end(at, false),
                87..=88 => self.prepare(at),
                89..=91 => self.ddl(),
                92..=93 => self.counter(),
                94 => self.db().flush().expect("flushes"),
                95 => {
                    if let Some((family, handle)) = self.family() {
                        if self.live(family) {
                            self.db().compact(&handle).expect("compacts");
                            self.db().verify(&handle).expect("verifies");
                        }
                    }
                }
                96 => self.decide_recovered(),
                97..=98 if !self.model.undecided.is_empty() && self.rng.one_in(2) => self.decide_recovered(),
                97 if !self.open.iter().any(|open| open.model.ordered) => {
                    if self.rng.one_in(2) {
                        self.restart();
                    }
                }
                _ => self.compare(),
            }
        }
        while !self.open.is_empty() {
            if self.open[0].model.prepared.is_some() {
                self.decide(0);
            } else {
                self.end(0, true);
            }
        }
        while !self.model.undecided.is_empty() {
            self.decide_recovered();
        }
        self.compare();
    }
}

fn programs(tiny: bool, count: u64, steps: u64) {
    let seeds = seeds("MODEL", count);
    let mut totals: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in &seeds {
        let mut world = World::new(*seed * 2 + u64::from(tiny), tiny);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run(steps)));
        if let Err(panic) = result {
            println!("MODEL_SEED={seed} (tiny: {tiny}) reproduces it");
            std::mem::forget(world);
            std::panic::resume_unwind(panic);
        }
        for (what, n) in &world.counts {
            *totals.entry(what).or_default() += n;
        }
    }
    println!("{} programs: {totals:?}", seeds.len());
    if seeds.len() >= 20 {
        for what in [
            "writes",
            "conflicts",
            "duplicates",
            "lock timeouts",
            "dropped",
            "gets",
            "scans",
            "counts of rows",
            "cursor steps",
            "commits",
            "prepares",
            "creates",
            "drops",
            "renames",
            "truncates",
            "exchanges",
            "counters",
            "crashes",
            "clean restarts",
            "decided after a restart",
        ] {
            assert!(totals.contains_key(what), "{what} never happened: {totals:?}");
        }
    }
}

#[test]
fn random_programs_agree_with_the_model_with_tiny_constants() {
    programs(true, 40, env("MODEL_STEPS", 800));
}

#[test]
fn random_programs_agree_with_the_model_with_normal_constants() {
    programs(false, 30, env("MODEL_STEPS", 800));
}
