//! The content of a store at a place of the order of commits: the versions of each key, and the families' names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidesdb_simulated::internal::format::ClusterPosition;

/// A family by its number, never given again: a truncated family is another one.
pub type Life = u32;
/// A key of a family.
pub type Place = (Life, Vec<u8>);
/// A row, or none.
pub type Value = Option<Row>;
/// Rows in the order of their keys.
pub type Rows = Vec<(Vec<u8>, Vec<u8>)>;
/// The families by their names.
pub type Names = BTreeMap<Vec<u8>, Life>;
/// The newest rows of each family.
pub type Lives<'a> = BTreeMap<Life, BTreeMap<&'a [u8], &'a Row>>;

/// A row as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its value.
    pub value: Arc<[u8]>,
    /// The second of its expiry; 0: none.
    pub expiry: u64,
}

impl Row {
    /// Whether a view of this second shows it.
    pub fn lives(&self, second: u64) -> bool {
        self.expiry == 0 || self.expiry > second
    }
}

/// The answer of a read, in a view of some second.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The row's value.
    pub value: Option<Arc<[u8]>>,
    /// The second of the view.
    pub second: u64,
}

impl Seen {
    /// Whether the newest version gives this answer.
    pub fn is(&self, newest: Option<&Row>) -> bool {
        let row = newest.filter(|row| row.lives(self.second));
        row.map(|row| &*row.value) == self.value.as_deref()
    }
}

/// Rows of a family, in a view of some second.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The rows.
    pub rows: Rows,
    /// The second of the view.
    pub second: u64,
}

/// What a store has.
#[derive(Clone, Debug)]
pub struct Content {
    /// All families with their numbers and rows, by name.
    pub families: BTreeMap<Vec<u8>, (Life, Found)>,
    /// The cluster's position.
    pub position: Option<ClusterPosition>,
}

/// Rows from one key on, up to another, at one moment.
#[derive(Clone, Debug)]
pub struct Range {
    /// Of this family.
    pub life: Life,
    /// First key.
    pub from: Vec<u8>,
    /// First key after it; `None`: to the end.
    pub to: Option<Vec<u8>>,
    /// Its rows.
    pub found: Found,
    /// Keys changed by the transaction before: nothing is known of their earlier rows.
    pub unknown: BTreeSet<Vec<u8>>,
}

impl Range {
    /// Whether the key is in it.
    pub fn has(&self, (life, key): &Place) -> bool {
        *life == self.life && *key >= self.from && self.to.as_ref().is_none_or(|to| key < to)
    }
}

/// A commit with a place in the order.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Its place.
    pub seq: u64,
    /// Its changes.
    pub writes: BTreeMap<Place, Value>,
    /// Its position in a cluster's order.
    pub position: Option<ClusterPosition>,
    /// The earlier rows of changed keys, by a locking read or an insertion.
    pub replaced: BTreeMap<Place, Seen>,
    /// Ranges kept free of others' changes until its end.
    pub kept: Vec<Range>,
    /// Its snapshot, for the check of conflicts.
    pub snapshot: Option<u64>,
    /// The transaction's kind, for messages.
    pub kind: String,
}

/// The versions of all keys, oldest first.
pub struct Versions<'a>(BTreeMap<&'a Place, Vec<(u64, &'a Value)>>);

impl<'a> Versions<'a> {
    /// Those of commits in their order.
    pub fn of(commits: &'a [Commit]) -> Result<Versions<'a>, String> {
        if let Some(pair) = commits.windows(2).find(|pair| pair[0].seq == pair[1].seq) {
            let (a, b) = (&pair[0], &pair[1]);
            return Err(format!("two commits have the place {}: {} and {}", a.seq, a.kind, b.kind));
        }
        let mut versions: BTreeMap<&Place, Vec<(u64, &Value)>> = BTreeMap::new();
        for commit in commits {
            for (place, value) in &commit.writes {
                versions.entry(place).or_default().push((commit.seq, value));
            }
        }
        Ok(Versions(versions))
    }

    /// The row of a key after the commits up to `seq`.
    pub fn newest(&self, place: &Place, seq: u64) -> Option<&'a Row> {
        self.0.get(place)?.iter().rev().find(|(at, _)| *at <= seq)?.1.as_ref()
    }

    /// The first commit with a change of a key after one place and before another.
    pub fn between(&self, place: &Place, after: u64, before: u64) -> Option<u64> {
        let of_key = self.0.get(place)?;
        of_key.iter().map(|(seq, _)| *seq).find(|seq| *seq > after && *seq < before)
    }

    /// Whether a range stood as it was found after the commits up to `seq`; the first difference.
    pub fn check_kept(&self, range: &Range, seq: u64) -> Result<(), String> {
        let without = |rows: &Rows| -> Rows {
            rows.iter().filter(|(key, _)| !range.unknown.contains(key)).cloned().collect()
        };
        let (found, before) =
            (without(&range.found.rows), without(&self.range(range, seq, &BTreeMap::new())));
        match found == before {
            true => Ok(()),
            false => Err(first_difference(&found, &before)),
        }
    }

    /// The rows of a range after the commits up to `seq`, with `own` changes above them.
    pub fn range(&self, range: &Range, seq: u64, own: &BTreeMap<Place, Value>) -> Rows {
        let from = (range.life, range.from.clone());
        let mut rows = BTreeMap::new();
        let mut take =
            |place: &Place, row: Option<&Row>| match row.filter(|row| row.lives(range.found.second)) {
                Some(row) => drop(rows.insert(place.1.clone(), row.value.to_vec())),
                None => drop(rows.remove(&place.1)),
            };
        for place in
            self.0.range::<Place, _>(&from..).map(|(place, _)| *place).take_while(|place| range.has(place))
        {
            take(place, self.newest(place, seq));
        }
        for (place, value) in own.range(from.clone()..).take_while(|(place, _)| range.has(place)) {
            take(place, value.as_ref());
        }
        rows.into_iter().collect()
    }
}

/// Puts changes above the rows of families.
pub fn apply<'a>(lives: &mut Lives<'a>, writes: &'a BTreeMap<Place, Value>) {
    for ((life, key), value) in writes {
        let rows = lives.entry(*life).or_default();
        match value {
            Some(row) => drop(rows.insert(key, row)),
            None => drop(rows.remove(&key[..])),
        }
    }
}

/// The names after the changes of the dictionary up to `seq`.
pub fn names_at(changes: &BTreeMap<u64, Names>, seq: u64) -> Option<&Names> {
    changes.range(..=seq).next_back().map(|(_, names)| names)
}

/// Whether a store has exactly these families and rows.
pub fn is_content(lives: &Lives<'_>, names: &Names, content: &Content) -> bool {
    names.len() == content.families.len()
        && names.iter().zip(&content.families).all(|((name, life), (found_name, (found_life, found)))| {
            let rows = lives.get(life).into_iter().flatten().filter(|(_, row)| row.lives(found.second));
            let mut rows = rows.map(|(key, row)| (*key, &*row.value));
            let same = |(key, value): &(Vec<u8>, Vec<u8>)| rows.next() == Some((&key[..], &value[..]));
            (name, life) == (found_name, found_life) && found.rows.iter().all(same) && rows.next().is_none()
        })
}

/// The first difference between a store's content and the required one.
pub fn difference(lives: &Lives<'_>, names: &Names, content: &Content) -> String {
    let families = &content.families;
    for name in names.keys().chain(families.keys()) {
        let (life, found) = match (names.get(name), families.get(name)) {
            (Some(life), Some((number, _))) if life != number => {
                return format!("family {} has the number {number}, must be {life}", shown(name));
            }
            (Some(life), Some((_, found))) => (life, found),
            (None, _) => return format!("there is a family {}, and none must be", shown(name)),
            (_, None) => return format!("there is no family {}", shown(name)),
        };
        let rows = lives.get(life).into_iter().flatten().filter(|(_, row)| row.lives(found.second));
        let rows: Rows = rows.map(|(key, row)| (key.to_vec(), row.value.to_vec())).collect();
        if rows != found.rows {
            return format!(
                "family {} (number {life}): {}",
                shown(name),
                first_difference(&rows, &found.rows)
            );
        }
    }
    "nothing differs".into()
}

/// The first differing row.
pub fn first_difference(expected: &Rows, found: &Rows) -> String {
    let (by_key, found_by_key): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (expected.iter().cloned().collect(), found.iter().cloned().collect());
    for key in by_key.keys().chain(found_by_key.keys()) {
        let (must, is) = (by_key.get(key), found_by_key.get(key));
        if must != is {
            let (must, is) = (value(must.map(Vec::as_slice)), value(is.map(Vec::as_slice)));
            return format!("key {}: {is}, must be {must}", shown(key));
        }
    }
    "the same rows in another order".into()
}

/// A key, for messages.
pub fn shown(key: &[u8]) -> String {
    format!("'{}'", key[..key.len().min(24)].escape_ascii())
}

/// A value, for messages.
pub fn value(value: Option<&[u8]>) -> String {
    match value {
        None => "nothing".into(),
        Some(value) => format!("{} ({} bytes)", shown(value), value.len()),
    }
}
