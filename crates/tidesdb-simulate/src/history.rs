//! The history of a run, and the model that it is compared with: commits in their order, and each answer with the
//! sequence at which it was read. All is checked at the end, when every commit has its place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// A key of a family, by the family's number in the program.
pub type Place = (usize, Vec<u8>);
/// A value; `None`: the key does not exist.
pub type Value = Option<Vec<u8>>;

/// A commit that has, or may have, a place in the order.
#[derive(Debug)]
struct Commit {
    seq: u64,
    writes: BTreeMap<Place, Value>,
    proofs: Proofs,
    /// The transaction's kind, for messages.
    kind: String,
}

/// What a transaction knows of the place before its own.
#[derive(Debug, Default)]
pub struct Proofs {
    /// Values that a locking read gave before they were changed.
    pub replaced: BTreeMap<Place, Value>,
    /// Ranges that it keeps as it has read them.
    pub ranges: Vec<Range>,
    /// The snapshot that its changes must not have passed.
    pub snapshot: Option<u64>,
}

/// A range that a locking scan has read.
#[derive(Debug)]
pub struct Range {
    /// The family's number.
    pub family: usize,
    /// Its first key.
    pub from: Vec<u8>,
    /// The key that ends it.
    pub to: Vec<u8>,
    /// Its rows.
    pub rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Keys of the family that the transaction had changed before: nothing is known of them.
    pub own: BTreeSet<Vec<u8>>,
}

/// A read at a snapshot.
#[derive(Debug)]
struct Read {
    seq: u64,
    place: Place,
    got: Value,
    client: usize,
}

/// A scan at a snapshot, of all keys between two.
#[derive(Debug)]
struct Scanned {
    seq: u64,
    family: usize,
    from: Vec<u8>,
    got: Vec<(Vec<u8>, Vec<u8>)>,
    /// Own changes of the transaction.
    own: BTreeMap<Place, Value>,
    client: usize,
}

#[derive(Debug, Default)]
struct State {
    commits: Vec<Commit>,
    reads: Vec<Read>,
    scans: Vec<Scanned>,
    /// Commits that were acknowledged as durable.
    durable: BTreeSet<u64>,
    /// The newest commit that was answered, durable or not.
    answered: u64,
    /// Highest sequence of a commit that has begun to be ordered, acknowledged or not.
    highest: u64,
    /// Changes of commits under way whose place is not known, by their client.
    pending: BTreeMap<usize, BTreeMap<Place, Value>>,
}

/// See the module's comment. Shared by the clients of a run.
#[derive(Debug, Default)]
pub struct History(Mutex<State>);

/// What a crash at some moment must and may leave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owed {
    /// All commits up to this one were acknowledged as durable.
    pub durable: u64,
}

impl History {
    fn with<T>(&self, use_it: impl FnOnce(&mut State) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// A commit is about to be ordered.
    pub fn begin_commit(&self, client: usize, writes: &BTreeMap<Place, Value>) {
        self.with(|state| state.pending.insert(client, writes.clone()));
    }

    /// It has its place.
    pub fn ordered(&self, client: usize, seq: u64, proofs: Proofs, kind: String) {
        self.with(|state| {
            let writes = state.pending.remove(&client).unwrap_or_default();
            state.highest = state.highest.max(seq);
            state.commits.push(Commit { seq, writes, proofs, kind });
        });
    }

    /// It was refused before it had one.
    pub fn refused(&self, client: usize) {
        self.with(|state| state.pending.remove(&client));
    }

    /// It was answered: from now on snapshots show it, and the death of the process does not take it back.
    pub fn answer(&self, seq: u64) {
        self.with(|state| state.answered = state.answered.max(seq));
    }

    /// The newest commit that was answered.
    pub fn answered(&self) -> u64 {
        self.with(|state| state.answered)
    }

    /// It was acknowledged as durable.
    pub fn acknowledged(&self, seq: u64) {
        self.with(|state| state.durable.insert(seq));
    }

    /// A value that was read at a snapshot.
    pub fn read(&self, client: usize, seq: u64, place: Place, got: Value) {
        self.with(|state| state.reads.push(Read { seq, place, got, client }));
    }

    /// Rows that were read at a snapshot, from a key on to the end.
    pub fn scanned(
        &self,
        client: usize,
        seq: u64,
        (family, from): (usize, Vec<u8>),
        got: Vec<(Vec<u8>, Vec<u8>)>,
        own: BTreeMap<Place, Value>,
    ) {
        self.with(|state| state.scans.push(Scanned { seq, family, from, got, own, client }));
    }

    /// What a crash now must and may leave: after the death of the process alone all that was answered.
    pub fn owed(&self, is_kill: bool) -> Owed {
        self.with(|state| {
            let durable = state.durable.last().copied().unwrap_or(0);
            Owed { durable: if is_kill { state.answered } else { durable } }
        })
    }

    /// Checks all that was recorded; what is wrong.
    pub fn check(&self) -> Result<(), String> {
        self.with(|state| {
            state.commits.sort_by_key(|commit| commit.seq);
            let versions = versions(&state.commits)?;
            let at = |place: &Place, seq: u64| newest(&versions, place, seq);
            for read in &state.reads {
                let expected = at(&read.place, read.seq);
                if expected != read.got.as_ref() {
                    return Err(format!(
                        "client {} read {} at {} and got {}, must be {}",
                        read.client,
                        shown(&read.place.1),
                        read.seq,
                        value(read.got.as_ref()),
                        value(expected)
                    ));
                }
            }
            for scan in &state.scans {
                check_scan(&versions, scan)?;
            }
            for commit in &state.commits {
                check_commit(&versions, commit)?;
            }
            Ok(())
        })
    }

    /// The rows of a family after the commits up to `seq`.
    fn rows_at(commits: &[Commit], family: usize, seq: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows: BTreeMap<&[u8], &Value> = BTreeMap::new();
        for commit in commits.iter().filter(|commit| commit.seq <= seq) {
            for ((of, key), value) in commit.writes.iter().filter(|((of, _), _)| *of == family) {
                debug_assert_eq!(*of, family);
                rows.insert(key, value);
            }
        }
        rows.into_iter().filter_map(|(key, value)| Some((key.to_vec(), value.clone()?))).collect()
    }

    /// Whether `rows`, of all families, are what commits up to some place left; the place. Nothing that was acknowledged
    /// as durable may be missing.
    pub fn place_of(&self, rows: &[Vec<(Vec<u8>, Vec<u8>)>], owed: &Owed) -> Result<u64, String> {
        self.with(|state| {
            state.commits.sort_by_key(|commit| commit.seq);
            let mut places: Vec<u64> = vec![0];
            places.extend(state.commits.iter().map(|commit| commit.seq));
            places.retain(|&seq| seq >= owed.durable);
            if places.is_empty() {
                places.push(owed.durable);
            }
            for &seq in &places {
                if (0..rows.len()).all(|family| Self::rows_at(&state.commits, family, seq) == rows[family]) {
                    return Ok(seq);
                }
            }
            let expected: Vec<_> =
                (0..rows.len()).map(|family| Self::rows_at(&state.commits, family, owed.durable)).collect();
            Err(format!(
                "the rows after a crash are those of no place from {} on; {}",
                owed.durable,
                difference(&expected, rows)
            ))
        })
    }

    /// Forgets what a crash has lost, all after a place, and all reads: the next life goes on from there.
    pub fn cut(&self, place: u64) {
        self.with(|state| {
            state.commits.retain(|commit| commit.seq <= place);
            state.durable.retain(|&seq| seq <= place);
            state.reads.clear();
            state.scans.clear();
            state.pending.clear();
        });
    }

    /// The rows of all families now.
    pub fn rows(&self, families: usize) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
        self.with(|state| {
            state.commits.sort_by_key(|commit| commit.seq);
            (0..families).map(|family| Self::rows_at(&state.commits, family, u64::MAX)).collect()
        })
    }
}

type Versions<'a> = BTreeMap<&'a Place, Vec<(u64, &'a Value)>>;

fn versions(commits: &[Commit]) -> Result<Versions<'_>, String> {
    let mut versions: Versions<'_> = BTreeMap::new();
    for pair in commits.windows(2) {
        if pair[0].seq == pair[1].seq {
            return Err(format!("two commits have the place {}", pair[0].seq));
        }
    }
    for commit in commits {
        for (place, value) in &commit.writes {
            versions.entry(place).or_default().push((commit.seq, value));
        }
    }
    Ok(versions)
}

fn newest<'a>(versions: &Versions<'a>, place: &Place, seq: u64) -> Option<&'a Vec<u8>> {
    versions.get(place)?.iter().rev().find(|(at, _)| *at <= seq)?.1.as_ref()
}

fn check_scan(versions: &Versions<'_>, scan: &Scanned) -> Result<(), String> {
    let mut expected: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let here = |(family, key): &Place| *family == scan.family && *key >= scan.from;
    for place in versions.keys().filter(|place| here(place)) {
        if let Some(value) = newest(versions, place, scan.seq) {
            expected.insert(place.1.clone(), value.clone());
        }
    }
    for (place, value) in scan.own.iter().filter(|(place, _)| here(place)) {
        match value {
            Some(value) => expected.insert(place.1.clone(), value.clone()),
            None => expected.remove(&place.1),
        };
    }
    let expected: Vec<_> = expected.into_iter().collect();
    match expected == scan.got {
        true => Ok(()),
        false => Err(format!(
            "client {} scanned from {} at {}: {}",
            scan.client,
            shown(&scan.from),
            scan.seq,
            difference(&[expected], std::slice::from_ref(&scan.got))
        )),
    }
}

fn check_commit(versions: &Versions<'_>, commit: &Commit) -> Result<(), String> {
    for (place, replaced) in &commit.proofs.replaced {
        let before = newest(versions, place, commit.seq - 1);
        if before != replaced.as_ref() {
            return Err(format!(
                "commit {} ({}) replaced {} of {}, and {} stood there: an update is lost",
                commit.seq,
                commit.kind,
                value(replaced.as_ref()),
                shown(&place.1),
                value(before)
            ));
        }
    }
    commit.proofs.ranges.iter().try_for_each(|range| check_range(versions, commit, range))?;
    let Some(snapshot) = commit.proofs.snapshot else { return Ok(()) };
    for place in commit.writes.keys() {
        let between = versions[place].iter().find(|(seq, _)| *seq > snapshot && *seq < commit.seq);
        if let Some((seq, _)) = between {
            return Err(format!(
                "commit {} ({}) with a snapshot at {snapshot} wrote over {seq}, of {}",
                commit.seq,
                commit.kind,
                shown(&place.1)
            ));
        }
    }
    Ok(())
}

/// Nobody's row came into a kept range, or went from it.
fn check_range(versions: &Versions<'_>, commit: &Commit, range: &Range) -> Result<(), String> {
    let inside = |(family, key): &Place| {
        *family == range.family && (&range.from..&range.to).contains(&key) && !range.own.contains(key)
    };
    for place in versions.keys().filter(|place| inside(place)) {
        let (before, read) = (newest(versions, place, commit.seq - 1), range.rows.get(&place.1));
        if before != read {
            return Err(format!(
                "commit {} ({}) kept a range with {} at {}, and {} stood there",
                commit.seq,
                commit.kind,
                value(read),
                shown(&place.1),
                value(before)
            ));
        }
    }
    Ok(())
}

fn shown(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

fn value(value: Option<&Vec<u8>>) -> String {
    match value {
        None => "nothing".into(),
        Some(value) => format!("'{}' ({} bytes)", value[..value.len().min(24)].escape_ascii(), value.len()),
    }
}

/// The first row that differs.
fn difference(expected: &[Vec<(Vec<u8>, Vec<u8>)>], found: &[Vec<(Vec<u8>, Vec<u8>)>]) -> String {
    for (family, (expected, found)) in expected.iter().zip(found).enumerate() {
        let (expected, found): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (expected.iter().cloned().collect(), found.iter().cloned().collect());
        for key in expected.keys().chain(found.keys()) {
            if expected.get(key) != found.get(key) {
                return format!(
                    "family {family}, key {}: {}, must be {}",
                    shown(key),
                    value(found.get(key)),
                    value(expected.get(key))
                );
            }
        }
    }
    "the same rows in another order".into()
}
