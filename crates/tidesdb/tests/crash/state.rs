//! The steps of a program, the state of the store after each, and the states allowed after a crash.

use std::collections::{BTreeMap, BTreeSet};

use tidesdb::internal::format::{ClusterPosition, Gtid};
use tidesdb::internal::io::faulty::Crash;
use tidesdb::internal::types::FamilyId;
use tidesdb::SyncMode;

use super::sim::Rng;

/// A family in the life of the store, under any name.
pub(super) type Incarnation = u64;

/// The engine's identities of incarnations certain to exist.
pub(super) type Ids = BTreeMap<Incarnation, FamilyId>;

/// Length and hash of a value.
pub(super) type Value = (usize, u64);

/// A transaction's writes: name of a family, key, length and seed of the value or a deletion.
pub(super) type Write = (&'static str, u32, Option<(usize, u64)>);

#[derive(Clone, Debug)]
pub(super) enum Step {
    Commit(Option<SyncMode>, Vec<Write>),
    /// Into empty families.
    Load(Vec<Write>),
    Prepare(&'static str, Vec<Write>),
    Decide(&'static str, bool),
    Create(&'static str),
    Drop(&'static str),
    Rename(&'static str, &'static str),
    Truncate(&'static str),
    Exchange(&'static str, &'static str),
    Record(&'static str, u64),
    Take(&'static str, u64),
    Raise(&'static str, u64),
    Flush,
    Compact(&'static str),
    SyncLog,
    /// Of no commit, with this number.
    Position(i64),
    Reopen,
}

pub(super) fn value(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

pub(super) fn hash(bytes: &[u8]) -> Value {
    let hash =
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    (bytes.len(), hash)
}

/// A position in the cluster's order.
pub(super) fn position(number: i64) -> ClusterPosition {
    let gtid = (number % 2 == 0).then_some(Gtid { domain: 1, server: 2, number: 3 });
    ClusterPosition { uuid: *b"a cluster's uuid", number, gtid }
}

/// The position of a program's event number `n`: up and down, so that neither the highest nor the lowest is the newest.
/// One event of four has none.
pub(super) fn position_of(n: usize) -> Option<ClusterPosition> {
    (n % 4 != 3).then(|| position((n as i64 * 7) % 10 - 1))
}

pub(super) fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// The committed content of a store, and its undecided prepared transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Name to family and its opaque record.
    pub(super) names: BTreeMap<String, (Incarnation, Vec<u8>)>,
    pub(super) rows: BTreeMap<Incarnation, BTreeMap<Vec<u8>, Value>>,
    pub(super) undecided: BTreeSet<String>,
    /// The cluster's.
    pub(super) position: Option<ClusterPosition>,
}

pub(super) type Changes = Vec<(Incarnation, Vec<u8>, Option<Value>)>;

impl State {
    pub(super) fn apply(&mut self, changes: &Changes) {
        for (family, key, value) in changes {
            let Some(rows) = self.rows.get_mut(family) else { continue };
            match value {
                Some(value) => rows.insert(key.clone(), *value),
                None => rows.remove(key),
            };
        }
    }

    pub(super) fn changes(&self, writes: &[Write]) -> Changes {
        writes
            .iter()
            .map(|(name, n, change)| {
                (self.names[*name].0, key(*n), change.map(|(len, seed)| hash(&value(len, seed))))
            })
            .collect()
    }

    /// A short text, for messages.
    pub(super) fn printed(&self) -> String {
        let families: Vec<String> = self
            .names
            .iter()
            .map(|(name, (id, record))| {
                let keys: Vec<String> = self.rows[id]
                    .iter()
                    .map(|(k, v)| format!("{}={:x}", String::from_utf8_lossy(&k[3..]), v.1 & 0xffff))
                    .collect();
                format!("{name}#{id} {record:?} {{{}}}", keys.join(" "))
            })
            .collect();
        let position = self.position.map(|position| position.to_string());
        format!("{} undecided {:?} position {position:?}", families.join(", "), self.undecided)
    }
}

/// The states allowed after a crash.
#[derive(Clone, Debug, Default)]
pub(super) struct Expect {
    /// The state after each logged event, in the order of the log; the first is the state of the last
    /// opening.
    pub(super) history: Vec<State>,
    /// Number of answered events, in any mode.
    pub(super) written: usize,
    /// Number of answered events promised to survive a power cut.
    pub(super) durable: usize,
    pub(super) prepared: BTreeMap<String, Changes>,
    /// Highest value handed out by a family's counter, or to which it was raised.
    pub(super) handed: BTreeMap<Incarnation, u64>,
    pub(super) next_incarnation: Incarnation,
    pub(super) ids: Ids,
}

impl Expect {
    pub(super) fn now(&self) -> &State {
        &self.history[self.history.len() - 1]
    }

    /// The states allowed after a crash.
    pub(super) fn right(&self, crash: Crash) -> &[State] {
        &self.history[if crash == Crash::Kill { self.written } else { self.durable }..]
    }
}
