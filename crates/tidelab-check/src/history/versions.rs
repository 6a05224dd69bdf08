//! The order of each key's versions, inferred from the reads, and the anomalies visible without a cycle:
//! values without a writer, lost writes, reads of aborted or intermediate values.

use std::collections::{HashMap, HashSet};

use super::anomaly::{Anomaly, Class, Rung};
use super::record::{shortened, Access, Element, History, Key, Kind, Outcome, Statement};

/// The writer of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The transaction's place in the history.
    pub by: usize,
    /// The key.
    pub key: Key,
    /// Its writer wrote nothing to the key after it.
    pub last: bool,
}

/// One key as read by one statement, without the reader's own writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The reader's place in the history.
    pub by: usize,
    /// The statement's place in the reader.
    pub statement: usize,
    /// The key.
    pub key: Key,
    /// The way of reading.
    pub access: Access,
    /// One key of a range.
    pub range: bool,
    /// The newest element of others; none: the key was not there.
    pub version: Option<Element>,
    /// The reader had written the key before.
    pub own: bool,
}

/// A version of a key; none: before anything was written to it.
type Version = (Key, Option<Element>);

/// An element and the place of its writer in the history.
pub type By = (usize, Element);

/// Everything about versions in a history.
#[derive(Debug)]
pub struct Versions<'h> {
    /// The history.
    pub history: &'h History,
    /// True for transactions counted as committed, also for those of unknown outcome if others saw a write.
    pub committed: Vec<bool>,
    /// All reads, in the order of the history.
    pub reads: Vec<Read>,
    /// The anomalies visible without a cycle.
    pub anomalies: Vec<Anomaly>,
    written: HashMap<Element, Written>,
    /// The longest read of each list, and where each element stands in it.
    lists: HashMap<Key, Vec<Element>>,
    places: HashMap<Element, usize>,
    /// Registers: elements known to come after a version, with their writers.
    followers: HashMap<Version, Vec<By>>,
}

impl<'h> Versions<'h> {
    /// Infers the versions from a history.
    pub fn infer(history: &'h History) -> Versions<'h> {
        let mut versions = Versions {
            history,
            committed: history.transactions.iter().map(|t| t.outcome == Outcome::Committed).collect(),
            reads: Vec::new(),
            anomalies: Vec::new(),
            written: HashMap::new(),
            lists: HashMap::new(),
            places: HashMap::new(),
            followers: HashMap::new(),
        };
        versions.note_writes();
        versions.note_reads();
        versions.order_lists();
        versions.look_at_reads();
        versions.look_for_lost_writes();
        versions.order_registers();
        versions
    }

    /// The writers of each element of a key.
    pub fn writer(&self, key: Key, element: Element) -> Option<Written> {
        self.written.get(&element).copied().filter(|written| written.key == key)
    }

    /// Elements known to come right after a version (`None`: the first), with their writers. A list has at
    /// most one, a register all known later ones.
    pub fn next(&self, key: Key, version: Option<Element>) -> Vec<By> {
        match key.kind {
            Kind::List => {
                let Some(list) = self.lists.get(&key) else { return Vec::new() };
                let place = match version {
                    None => 0,
                    // An element that is not in the longest list was complained about.
                    Some(element) => match self.places.get(&element) {
                        Some(place) => place + 1,
                        None => return Vec::new(),
                    },
                };
                let next = list.get(place).and_then(|next| Some((self.writer(key, *next)?.by, *next)));
                next.into_iter().collect()
            }
            Kind::Register => self.followers.get(&(key, version)).cloned().unwrap_or_default(),
        }
    }

    /// All pairs of a version and one known to come after it, with their writers.
    pub fn successions(&self) -> Vec<(Key, By, By)> {
        let mut all = Vec::new();
        for (key, list) in &self.lists {
            for two in list.windows(2) {
                if let (Some(a), Some(b)) = (self.writer(*key, two[0]), self.writer(*key, two[1])) {
                    all.push((*key, (a.by, two[0]), (b.by, two[1])));
                }
            }
        }
        for ((key, version), followers) in &self.followers {
            let Some(version) = *version else { continue };
            let Some(writer) = self.writer(*key, version) else { continue };
            all.extend(followers.iter().map(|follower| (*key, (writer.by, version), *follower)));
        }
        // Maps have no order, and the output should not depend on one.
        all.sort_unstable();
        all
    }

    fn complain(&mut self, class: Class, rung: Rung, text: String) {
        self.anomalies.push(Anomaly { class, rung, by_time: false, text });
    }

    fn note_writes(&mut self) {
        for (by, transaction) in self.history.transactions.iter().enumerate() {
            let mut last: HashMap<Key, Element> = HashMap::new();
            for (key, element) in transaction.writes() {
                self.written.insert(element, Written { by, key, last: true });
                if let Some(earlier) = last.insert(key, element) {
                    if let Some(written) = self.written.get_mut(&earlier) {
                        written.last = false;
                    }
                }
            }
        }
    }

    /// Takes the readers' own writes off their reads.
    fn note_reads(&mut self) {
        for (by, transaction) in self.history.transactions.iter().enumerate() {
            let mut own: HashMap<Key, Vec<Element>> = HashMap::new();
            for (number, statement) in transaction.statements.iter().enumerate() {
                match statement {
                    Statement::Write { key, element } => own.entry(*key).or_default().push(*element),
                    Statement::Read { access, range, seen } => {
                        for (key, elements) in seen {
                            let mine = own.get(key).map_or(&[][..], Vec::as_slice);
                            let (others, agrees) = without_own(*key, elements, mine);
                            if !agrees {
                                self.anomalies.push(Anomaly {
                                    class: Class::Internal,
                                    rung: Rung::Writes,
                                    by_time: false,
                                    text: format!(
                                        "wrote {} to {key}, then read {}: {transaction}",
                                        shortened(mine),
                                        shortened(elements)
                                    ),
                                });
                            }
                            let own = !mine.is_empty();
                            // Its own value hides what a register had before.
                            if own && key.kind == Kind::Register {
                                continue;
                            }
                            let version = others.last().copied();
                            let read = Read {
                                by,
                                statement: number,
                                key: *key,
                                access: *access,
                                range: *range,
                                version,
                                own,
                            };
                            self.reads.push(read);
                        }
                    }
                }
            }
        }
    }

    /// The longest read of each list is its order; every other read must be the beginning of it. Reads of
    /// rolled-back values say nothing about it and are reported elsewhere.
    fn order_lists(&mut self) {
        let mut seen: Vec<(Key, &'h [Element])> = Vec::new();
        for transaction in &self.history.transactions {
            // An element that the reader itself appended is in no other list when the reader did not
            // commit.
            let own: HashSet<Element> = match transaction.outcome {
                Outcome::Committed => HashSet::new(),
                _ => transaction.writes().map(|(_, element)| element).collect(),
            };
            for statement in &transaction.statements {
                let Statement::Read { seen: values, .. } = statement else { continue };
                for (key, elements) in values.iter().filter(|(key, _)| key.kind == Kind::List) {
                    let end = elements.iter().rposition(|e| !own.contains(e)).map_or(0, |place| place + 1);
                    let aborted = |element: &Element| {
                        let writer = self.writer(*key, *element).map(|written| written.by);
                        writer.is_some_and(|by| self.history.transactions[by].outcome == Outcome::Aborted)
                    };
                    if !elements[..end].iter().any(aborted) {
                        seen.push((*key, &elements[..end]));
                    }
                }
            }
        }
        for (key, elements) in &seen {
            let longest = self.lists.entry(*key).or_default();
            if elements.len() > longest.len() {
                *longest = elements.to_vec();
            }
        }
        let mut told: HashSet<Key> = HashSet::new();
        for (key, elements) in seen {
            let longest = &self.lists[&key];
            if !longest.starts_with(elements) && told.insert(key) {
                let at = longest.iter().zip(elements).take_while(|(a, b)| a == b).count();
                let text = format!(
                    "{key} was read as {} and as {}, which part at place {at}",
                    shortened(longest),
                    shortened(elements)
                );
                self.complain(Class::Orders, Rung::Writes, text);
            }
        }
        let keys: Vec<Key> = self.lists.keys().copied().collect();
        for key in keys {
            for (place, element) in self.lists[&key].clone().into_iter().enumerate() {
                if self.places.insert(element, place).is_some() {
                    self.complain(Class::Duplicate, Rung::Writes, format!("{element} stands twice in {key}"));
                }
            }
        }
    }

    /// Checks every element read: it was written to this key, its writer did not roll back, and it is its
    /// writer's last one there. A seen element's writer has committed.
    fn look_at_reads(&mut self) {
        let history = self.history;
        let mut told: HashSet<Element> = HashSet::new();
        for (by, transaction) in history.transactions.iter().enumerate() {
            for statement in &transaction.statements {
                let Statement::Read { seen, .. } = statement else { continue };
                for (key, element) in seen.iter().flat_map(|(key, all)| all.iter().map(|e| (*key, *e))) {
                    let Some(written) = self.writer(key, element) else {
                        if told.insert(element) {
                            let text = format!("{element} in {key}: {transaction}");
                            self.complain(Class::Garbage, Rung::Writes, text);
                        }
                        continue;
                    };
                    if written.by == by {
                        continue;
                    }
                    let writer = &history.transactions[written.by];
                    match writer.outcome {
                        Outcome::Committed => {}
                        Outcome::Unknown => self.committed[written.by] = true,
                        Outcome::Aborted if told.insert(element) => {
                            let text = format!(
                                "{element} in {key} was read\n    by {transaction}\n    and written by {writer}"
                            );
                            self.complain(Class::G1a, Rung::Reads, text);
                        }
                        Outcome::Aborted => {}
                    }
                }
            }
        }
        for read in self.reads.clone() {
            let Some(written) = read.version.and_then(|version| self.writer(read.key, version)) else {
                continue;
            };
            if !written.last && written.by != read.by {
                let text = format!(
                    "{} of {} was not the last\n    that was written by {}\n    and was read by {}",
                    read.version.unwrap_or(0),
                    read.key,
                    history.transactions[written.by],
                    history.transactions[read.by]
                );
                self.complain(Class::G1b, Rung::Reads, text);
            }
        }
    }

    /// A committed append is in the list, if a later transaction read the list.
    fn look_for_lost_writes(&mut self) {
        let history = self.history;
        let mut last_read: HashMap<Key, u64> = HashMap::new();
        for read in &self.reads {
            let began = history.transactions[read.by].began;
            let last = last_read.entry(read.key).or_default();
            *last = began.max(*last);
        }
        for transaction in &history.transactions {
            if transaction.outcome != Outcome::Committed {
                continue;
            }
            for (key, element) in transaction.writes().filter(|(key, _)| key.kind == Kind::List) {
                let read_later = last_read.get(&key).is_some_and(|began| *began > transaction.ended);
                if read_later && !self.places.contains_key(&element) {
                    let text = format!(
                        "{element} is not in {key}, last read as {}: {transaction}",
                        shortened(self.lists.get(&key).map_or(&[][..], Vec::as_slice))
                    );
                    self.complain(Class::LostWrite, Rung::Writes, text);
                }
            }
        }
    }

    /// A register's versions: nothing comes first. A transaction's write comes after the value read there
    /// before. A write comes after those of writers ended at its writer's beginning. Two transactions with a
    /// read of one version and then a write have lost an update.
    fn order_registers(&mut self) {
        let history = self.history;
        let mut writers: HashMap<Key, Vec<By>> = HashMap::new();
        let mut read_before: HashMap<Version, Vec<(usize, Access)>> = HashMap::new();
        let mut last: HashMap<(usize, Key), Read> = HashMap::new();
        for read in self.reads.iter().filter(|read| read.key.kind == Kind::Register) {
            last.insert((read.by, read.key), *read);
        }
        for (by, transaction) in history.transactions.iter().enumerate().filter(|(by, _)| self.committed[*by])
        {
            let mut seen: HashSet<Key> = HashSet::new();
            for (key, element) in transaction.writes().filter(|(key, _)| key.kind == Kind::Register) {
                if self.writer(key, element).is_some_and(|written| written.last) {
                    writers.entry(key).or_default().push((by, element));
                }
                // Reads of it after the first write are of its own value.
                if let Some(read) = last.get(&(by, key)).filter(|_| seen.insert(key)) {
                    read_before.entry((key, read.version)).or_default().push((by, read.access));
                }
            }
        }
        for (key, all) in writers {
            self.followers.entry((key, None)).or_default().extend(&all);
            for (by, element) in &all {
                let before = &history.transactions[*by];
                if before.outcome != Outcome::Committed {
                    continue;
                }
                let next = all
                    .iter()
                    .filter(|(other, _)| history.transactions[*other].began > before.ended)
                    .min_by_key(|(other, _)| history.transactions[*other].ended);
                self.followers.entry((key, Some(*element))).or_default().extend(next);
            }
            for (version, readers) in read_before.iter().filter(|((of, _), _)| *of == key) {
                let after = all.iter().filter(|(by, _)| readers.iter().any(|(reader, _)| reader == by));
                let followers = self.followers.entry(*version).or_default();
                followers.extend(after);
                followers.sort_unstable();
                followers.dedup();
            }
        }
        let mut lost: Vec<_> = read_before.into_iter().filter(|(_, readers)| readers.len() > 1).collect();
        lost.sort_unstable();
        for ((key, version), readers) in lost {
            let locked = readers.iter().filter(|(_, access)| access.locks()).count();
            let rung = if locked >= 2 { Rung::Locks } else { Rung::Snapshot };
            // Whether a lock on a missing key keeps others out is for the level to say.
            if version.is_none() && locked > 0 {
                continue;
            }
            let mut text = format!("{key} was read as {} and then written", shortened(version.as_slice()));
            for (by, _) in &readers {
                text.push_str(&format!("\n    by {}", history.transactions[*by]));
            }
            self.complain(Class::LostUpdate, rung, text);
        }
    }
}

/// The elements of other writers, and whether the reader's own writes are in their places.
fn without_own<'a>(key: Key, elements: &'a [Element], own: &[Element]) -> (&'a [Element], bool) {
    let own_place = elements.iter().position(|element| own.contains(element)).unwrap_or(elements.len());
    let agrees = match (key.kind, own.last()) {
        (_, None) => true,
        (Kind::List, _) => elements[own_place..] == *own,
        (Kind::Register, Some(last)) => elements == [*last],
    };
    (&elements[..own_place], agrees)
}
