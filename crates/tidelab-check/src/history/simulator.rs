//! A store of versions in memory, correct or with a planted bug, and clients on it whose
//! statements interleave as a seed says.

use std::collections::{BTreeMap, HashMap};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::generate::{Generator, Plan, Step};
use super::record::{Access, Element, History, Key, Kind, Outcome, Seen, Statement, Transaction};

/// The isolation of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Isolation {
    /// A snapshot for each statement.
    ReadCommitted,
    /// One snapshot; a write to a row changed since is refused.
    Snapshot,
    /// The same; a transaction with a read of a row changed since is refused too.
    Serializable,
}

/// The fault of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Nothing.
    None,
    /// Reads see uncommitted values of others.
    DirtyReads,
    /// Rolled back writes stay.
    KeepsAborted,
    /// Now and then a commit is answered and nothing is there.
    ForgetsCommits,
    /// A commit's keys become visible one after the other, with time between.
    CommitsInPieces,
    /// Two writers of a key are not kept apart, and their commits come in pieces.
    MixesWrites,
    /// Now and then a snapshot is older than acknowledged commits.
    OldSnapshots,
    /// A new snapshot for each statement where one was promised.
    MovingSnapshots,
    /// Overwrites values changed since the snapshot.
    MissesConflicts,
    /// FOR UPDATE and LOCK IN SHARE MODE lock nothing.
    ReadsWithoutLocks,
    /// Reads are not compared at the end.
    MissesReads,
    /// Reads of missing keys are not compared at the end.
    MissesGaps,
    /// Does not see its own writes.
    HidesOwnWrites,
}

type Value = Vec<Element>;

struct Running {
    plan: Plan,
    next: usize,
    began: u64,
    snapshot: usize,
    read: Vec<Key>,
    own: BTreeMap<Key, Value>,
    statements: Vec<Statement>,
    /// Writes still to be made visible: the transaction is committing.
    pieces: Option<Vec<(Key, Value)>>,
    /// The number of the commit.
    sequence: usize,
}

/// The store.
pub struct Simulator {
    isolation: Isolation,
    bug: Bug,
    random: StdRng,
    /// Versions of each key with their commit's number.
    versions: HashMap<Key, Vec<(usize, Value)>>,
    locks: HashMap<Key, usize>,
    /// Uncommitted writes, for the bug of dirty reads.
    dirty: HashMap<Key, (usize, Value)>,
    commits: usize,
    clock: u64,
    history: History,
}

impl Simulator {
    /// Runs `transactions` of eight clients, then one over all keys.
    pub fn history(isolation: Isolation, bug: Bug, seed: u64, transactions: usize) -> History {
        let random = StdRng::seed_from_u64(seed);
        let mut simulator = Simulator {
            isolation,
            bug,
            random,
            versions: HashMap::new(),
            locks: HashMap::new(),
            dirty: HashMap::new(),
            commits: 0,
            clock: 0,
            history: History::default(),
        };
        let generator = Generator::default();
        let mut clients: Vec<Option<Running>> = (0..8).map(|_| None).collect();
        while simulator.history.transactions.len() < transactions {
            let client = simulator.random.random_range(0..clients.len());
            clients[client] = simulator.turn(client, clients[client].take(), &generator);
        }
        // Those that run still are let go: as if their connections had broken.
        for (client, running) in clients.into_iter().enumerate() {
            if let Some(running) = running {
                let outcome = if running.pieces.is_some() { Outcome::Unknown } else { Outcome::Aborted };
                simulator.end(client, running, outcome);
            }
        }
        simulator.read_all(&generator);
        simulator.history
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn turn(&mut self, client: usize, running: Option<Running>, generator: &Generator) -> Option<Running> {
        let Some(mut running) = running else {
            let plan = generator.plan(&mut self.random);
            let began = self.tick();
            return Some(Running {
                plan,
                next: 0,
                began,
                snapshot: self.snapshot(),
                read: Vec::new(),
                own: BTreeMap::new(),
                statements: Vec::new(),
                pieces: None,
                sequence: 0,
            });
        };
        if let Some(pieces) = running.pieces.as_mut() {
            match pieces.pop() {
                Some((key, value)) => {
                    let sequence = running.sequence;
                    self.install(key, sequence, value);
                    return Some(running);
                }
                None => {
                    self.end(client, running, Outcome::Committed);
                    return None;
                }
            }
        }
        let Some(step) = running.plan.steps.get(running.next).copied() else {
            return self.commit(client, running);
        };
        running.next += 1;
        if self.step(client, &mut running, step) {
            return Some(running);
        }
        self.end(client, running, Outcome::Aborted);
        None
    }

    fn snapshot(&mut self) -> usize {
        match self.bug {
            Bug::OldSnapshots if self.random.random_bool(0.05) => self.commits.saturating_sub(20),
            _ => self.commits,
        }
    }

    /// False: refused.
    fn step(&mut self, client: usize, running: &mut Running, step: Step) -> bool {
        if self.isolation == Isolation::ReadCommitted || self.bug == Bug::MovingSnapshots {
            running.snapshot = self.snapshot();
        }
        match step {
            Step::Read { key, access } => self.read(client, running, &[key], access, false),
            Step::Range { first, count, access } => {
                let keys: Vec<Key> = (0..count).map(|i| Key { id: first.id + i, ..first }).collect();
                self.read(client, running, &keys, access, true)
            }
            Step::Write { key, element } => {
                if !self.lock(client, running, key, self.bug != Bug::MixesWrites) {
                    return false;
                }
                let newest = self.newest(key, usize::MAX);
                let value = running.own.entry(key).or_insert(newest);
                match key.kind {
                    Kind::List => value.push(element),
                    Kind::Register => *value = vec![element],
                }
                if self.bug == Bug::DirtyReads {
                    self.dirty.insert(key, (client, value.clone()));
                }
                running.statements.push(Statement::Write { key, element });
                true
            }
        }
    }

    fn read(
        &mut self,
        client: usize,
        running: &mut Running,
        keys: &[Key],
        access: Access,
        range: bool,
    ) -> bool {
        let mut seen: Seen = Vec::new();
        for key in keys {
            if access.locks() && !self.lock(client, running, *key, self.bug != Bug::ReadsWithoutLocks) {
                return false;
            }
            let own = running.own.get(key).filter(|_| self.bug != Bug::HidesOwnWrites).cloned();
            let at = if access.locks() { usize::MAX } else { running.snapshot };
            let dirty = self.dirty.get(key).map(|(_, value)| value.clone());
            let value = own.or(dirty).unwrap_or_else(|| self.newest(*key, at));
            let missed = match self.bug {
                Bug::MissesReads => true,
                Bug::MissesGaps => value.is_empty(),
                _ => false,
            };
            if !missed {
                running.read.push(*key);
            }
            seen.push((*key, value));
        }
        running.statements.push(Statement::Read { access, range, seen });
        true
    }

    /// Without waiting: a transaction is refused at another's lock, and with an older snapshot.
    fn lock(&mut self, client: usize, running: &Running, key: Key, really: bool) -> bool {
        if !really {
            return true;
        }
        let conflict = self.isolation >= Isolation::Snapshot
            && self.bug != Bug::MissesConflicts
            && self.changed_since(key, running.snapshot);
        !conflict && *self.locks.entry(key).or_insert(client) == client
    }

    fn changed_since(&self, key: Key, snapshot: usize) -> bool {
        self.versions.get(&key).and_then(|all| all.last()).is_some_and(|(sequence, _)| *sequence > snapshot)
    }

    fn newest(&self, key: Key, at: usize) -> Value {
        let all = self.versions.get(&key).map_or(&[][..], Vec::as_slice);
        all.iter()
            .rev()
            .find(|(sequence, _)| *sequence <= at)
            .map(|(_, value)| value.clone())
            .unwrap_or_default()
    }

    fn install(&mut self, key: Key, sequence: usize, value: Value) {
        self.versions.entry(key).or_default().push((sequence, value));
    }

    fn commit(&mut self, client: usize, mut running: Running) -> Option<Running> {
        let read_something_old = running.read.iter().any(|key| self.changed_since(*key, running.snapshot));
        if running.plan.gives_up || self.isolation == Isolation::Serializable && read_something_old {
            if self.bug == Bug::KeepsAborted {
                self.commits += 1;
                for (key, value) in running.own.clone() {
                    self.install(key, self.commits, value);
                }
            }
            self.end(client, running, Outcome::Aborted);
            return None;
        }
        if self.bug == Bug::ForgetsCommits && self.random.random_bool(0.01) {
            running.own.clear();
        }
        self.commits += 1;
        running.sequence = self.commits;
        let pieces: Vec<(Key, Value)> = running.own.clone().into_iter().collect();
        if matches!(self.bug, Bug::CommitsInPieces | Bug::MixesWrites) {
            running.pieces = Some(pieces);
            return Some(running);
        }
        for (key, value) in pieces {
            self.install(key, running.sequence, value);
        }
        self.end(client, running, Outcome::Committed);
        None
    }

    fn end(&mut self, client: usize, running: Running, outcome: Outcome) {
        self.locks.retain(|_, holder| *holder != client);
        self.dirty.retain(|_, (writer, _)| *writer != client);
        let ended = self.tick();
        let Running { began, statements, .. } = running;
        let client = u32::try_from(client).expect("there are eight");
        self.history.transactions.push(Transaction { client, began, ended, outcome, statements });
    }

    fn read_all(&mut self, generator: &Generator) {
        let began = self.tick();
        let seen: Seen = generator.keys().map(|key| (key, self.newest(key, usize::MAX))).collect();
        let statements = vec![Statement::Read { access: Access::Plain, range: true, seen }];
        let ended = self.tick();
        let outcome = Outcome::Committed;
        self.history.transactions.push(Transaction { client: 8, began, ended, outcome, statements });
    }
}
