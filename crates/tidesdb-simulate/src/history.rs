//! The history of a run: commits in their order, and each answer with its sequence number. The check comes at the end,
//! when every commit has its place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use tidesdb_simulated::internal::format::ClusterPosition;

use crate::branches::Branches;
use crate::model::{
    apply, difference, first_difference, is_content, names_at, shown, value, Commit, Content, Life, Lives,
    Names, Place, Range, Seen, Value, Versions,
};

/// A read at a snapshot.
#[derive(Debug)]
struct Read {
    seq: u64,
    place: Place,
    got: Seen,
    by: String,
}

/// A scan at a snapshot.
#[derive(Debug)]
struct Scanned {
    seq: u64,
    range: Range,
    /// Own changes of the transaction.
    own: BTreeMap<Place, Value>,
    by: String,
}

/// A copy of the store, fixed after one commit.
#[derive(Debug)]
struct Frozen {
    seq: u64,
    content: Content,
    /// Prepared transactions committed in it since.
    committed: Vec<Vec<u8>>,
}

/// The prepared transactions listed by a copy, and all those just before and just after its moment.
#[derive(Debug)]
struct Listed {
    seq: u64,
    xids: Vec<Vec<u8>>,
    before: Branches,
    after: Branches,
}

#[derive(Debug, Default)]
struct State {
    commits: Vec<Commit>,
    /// The families' names after each change of the dictionary, by its place.
    names: BTreeMap<u64, Names>,
    /// Places of failed changes of the dictionary: the store shows them after an opening, not before.
    unshown: BTreeSet<u64>,
    /// Where families were kept from older snapshots: their rows from before conflict with none.
    bumps: BTreeSet<(Life, u64)>,
    reads: Vec<Read>,
    scans: Vec<Scanned>,
    frozen: Vec<Frozen>,
    listed: Vec<Listed>,
    /// Places acknowledged as durable, and all answered ones.
    durable: BTreeSet<u64>,
    answered: BTreeSet<u64>,
    branches: Branches,
}

/// See the module's comment. Shared by the clients of a run.
#[derive(Debug, Default)]
pub struct History(Mutex<State>);

/// The required and the allowed content after a crash at some moment.
#[derive(Clone, Debug, Default)]
pub struct Owed {
    /// All commits up to this one must be there.
    pub upto: u64,
    /// Prepared transactions, as they stood.
    pub branches: Branches,
}

impl State {
    fn sort(&mut self) {
        self.commits.sort_by_key(|commit| commit.seq);
    }

    fn lives_at(&self, seq: u64) -> Lives<'_> {
        let mut lives = Lives::new();
        self.commits.iter().filter(|c| c.seq <= seq).for_each(|c| apply(&mut lives, &c.writes));
        lives
    }

    /// The cluster's position after the commits up to a place.
    fn position_at(&self, seq: u64) -> Option<ClusterPosition> {
        self.commits.iter().rev().filter(|commit| commit.seq <= seq).find_map(|commit| commit.position)
    }

    /// The place at which a family was dropped.
    fn dropped_at(&self, life: Life) -> u64 {
        let gone = |names: &Names| !names.values().any(|known| *known == life);
        let mut later = self.names.iter().skip_while(|(_, names)| gone(names));
        later.find(|(_, names)| gone(names)).map_or(u64::MAX, |(seq, _)| *seq)
    }
}

impl History {
    fn with<T>(&self, use_it: impl FnOnce(&mut State) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// A commit has its place.
    pub fn ordered(&self, commit: Commit) {
        self.with(|state| state.commits.push(commit));
    }

    /// The families' names after a change of the dictionary; answered, it is durable.
    pub fn renamed(&self, seq: u64, names: Names, is_answered: bool) {
        self.with(|state| {
            state.names.insert(seq, names);
            if is_answered {
                state.durable.insert(seq);
            } else {
                state.unshown.insert(seq);
            }
        });
    }

    /// From this place on a family is kept from older snapshots.
    pub fn bumped(&self, life: Life, seq: u64) {
        self.with(|state| state.bumps.insert((life, seq)));
    }

    /// A commit was answered.
    pub fn answered(&self, seq: u64, durable: bool) {
        self.with(|state| {
            state.answered.insert(seq);
            if durable {
                state.durable.insert(seq);
            }
        });
    }

    /// The last answered commit: anything made durable from now on has it.
    pub fn last_answered(&self) -> u64 {
        self.with(|state| state.answered.last().copied().unwrap_or(0))
    }

    /// All commits up to this one are durable.
    pub fn durable_upto(&self, seq: u64) {
        self.with(|state| state.durable.insert(seq));
    }

    /// Uses the prepared transactions.
    pub fn branches<T>(&self, use_them: impl FnOnce(&mut Branches) -> T) -> T {
        self.with(|state| use_them(&mut state.branches))
    }

    /// A value read at a snapshot.
    pub fn read(&self, by: &str, seq: u64, place: Place, got: Seen) {
        self.with(|state| state.reads.push(Read { seq, place, got, by: by.into() }));
    }

    /// Rows read at a snapshot.
    pub fn scanned(&self, by: &str, seq: u64, range: Range, own: BTreeMap<Place, Value>) {
        self.with(|state| state.scans.push(Scanned { seq, range, own, by: by.into() }));
    }

    /// The content of a copy, and the prepared transactions committed there.
    pub fn copied(&self, seq: u64, content: Content, committed: Vec<Vec<u8>>) {
        self.with(|state| state.frozen.push(Frozen { seq, content, committed }));
    }

    /// The prepared transactions listed by a copy of a commit, fixed between two moments.
    pub fn listed_in_copy(&self, seq: u64, xids: Vec<Vec<u8>>, before: Branches, after: Branches) {
        self.with(|state| state.listed.push(Listed { seq, xids, before, after }));
    }

    /// The required and the allowed content after a crash now; `written`: everything written stays.
    pub fn owed(&self, written: bool) -> Owed {
        self.with(|state| {
            let durable = state.durable.last().copied().unwrap_or(0);
            let answered = state.answered.last().copied().filter(|_| written).unwrap_or(0);
            Owed { upto: durable.max(answered), branches: state.branches.clone() }
        })
    }

    /// Whether rows with an expiry were committed.
    pub fn has_expiring(&self) -> bool {
        let expires = |commit: &Commit| commit.writes.values().flatten().any(|row| row.expiry > 0);
        self.with(|state| state.commits.iter().any(expires))
    }

    /// Checks the whole record; returns the first error.
    pub fn check(&self) -> Result<(), String> {
        self.with(|state| {
            state.sort();
            let versions = Versions::of(&state.commits)?;
            state.reads.iter().try_for_each(|read| check_read(&versions, read))?;
            state.scans.iter().try_for_each(|scan| check_scan(&versions, scan))?;
            state.commits.iter().try_for_each(|commit| check_commit(&versions, commit, state))?;
            for Listed { seq, xids, before, after } in &state.listed {
                let checked = state.branches.check(xids, (*seq, *seq), before, after);
                checked.map_err(|what| format!("in a backup of commit {seq}, {what}"))?;
            }
            state.frozen.iter().try_for_each(|frozen| state.check_frozen(frozen))
        })
    }

    /// The first and the last place with `content` as the store's state. No required commit may be missing.
    pub fn place_of(&self, content: &Content, owed: &Owed) -> Result<(u64, u64), String> {
        self.with(|state| state.place_of(content, owed, true, |_| true))
    }

    /// The same of a store still open: it does not show failed changes of the dictionary.
    pub fn place_of_shown(&self, content: &Content, owed: &Owed) -> Result<(u64, u64), String> {
        self.with(|state| {
            let unshown = state.unshown.clone();
            // Its position is that of an ordered commit, shown or not.
            state.place_of(content, owed, false, |seq| !unshown.contains(&seq))
        })
    }

    /// Forgets all commits after a place, lost in a crash, and all reads: the next life goes on from there.
    pub fn cut(&self, place: u64) {
        self.with(|state| {
            state.commits.retain(|commit| commit.seq <= place);
            state.names.retain(|seq, _| *seq <= place);
            state.durable.retain(|seq| *seq <= place);
            state.answered.retain(|seq| *seq <= place);
            (state.reads, state.scans, state.frozen, state.listed) = Default::default();
        });
    }

    /// Whether the store is now as all commits left it.
    pub fn compare(&self, content: &Content) -> Result<(), String> {
        self.with(|state| {
            state.sort();
            let lives = state.lives_at(u64::MAX);
            let none = Names::new();
            let names = names_at(&state.names, u64::MAX).unwrap_or(&none);
            match is_content(&lives, names, content) {
                true => check_position(content, state.position_at(u64::MAX)),
                false => Err(difference(&lives, names, content)),
            }
        })
    }
}

impl State {
    fn place_of(
        &mut self,
        content: &Content,
        owed: &Owed,
        has_position: bool,
        is_shown: impl Fn(u64) -> bool,
    ) -> Result<(u64, u64), String> {
        self.sort();
        let mut names = self.names.clone();
        names.retain(|seq, _| is_shown(*seq));
        let mut places: BTreeSet<u64> = self.commits.iter().map(|commit| commit.seq).collect();
        places.extend(names.keys());
        places.insert(0);
        let (mut lives, mut commits) = (Lives::new(), self.commits.iter().peekable());
        let mut found: Option<(u64, u64)> = None;
        let (mut least, none) = (String::new(), Names::new());
        let mut position = None;
        for seq in places {
            while let Some(commit) = commits.next_if(|commit| commit.seq <= seq) {
                apply(&mut lives, &commit.writes);
                position = commit.position.or(position);
            }
            if seq < owed.upto {
                continue;
            }
            let names = names_at(&names, seq).unwrap_or(&none);
            if !is_content(&lives, names, content) {
                if least.is_empty() {
                    least = difference(&lives, names, content);
                }
            } else if let Some(what) = check_position(content, position).err().filter(|_| has_position) {
                least = what;
            } else {
                found = Some((found.map_or(seq, |(first, _)| first), seq));
            }
        }
        let why = format!("the rows after a crash are those of no place from {} on; {least}", owed.upto);
        found.ok_or(why)
    }

    fn check_frozen(&self, frozen: &Frozen) -> Result<(), String> {
        let mut lives = self.lives_at(frozen.seq);
        for xid in &frozen.committed {
            let writes =
                self.branches.writes(xid).ok_or_else(|| format!("nobody prepared {}", shown(xid)))?;
            apply(&mut lives, writes);
        }
        let none = Names::new();
        let names = names_at(&self.names, frozen.seq).unwrap_or(&none);
        let position = check_position(&frozen.content, self.position_at(frozen.seq));
        position.map_err(|what| format!("a backup of commit {}: {what}", frozen.seq))?;
        match is_content(&lives, names, &frozen.content) {
            true => Ok(()),
            false => {
                let what = difference(&lives, names, &frozen.content);
                Err(format!("a backup of commit {} differs: {what}", frozen.seq))
            }
        }
    }
}

/// Whether a store has the cluster's position of its commits.
fn check_position(content: &Content, must: Option<ClusterPosition>) -> Result<(), String> {
    let shown =
        |position: Option<ClusterPosition>| position.map_or("none".into(), |position| position.to_string());
    match content.position == must {
        true => Ok(()),
        false => Err(format!("the position is {}, must be {}", shown(content.position), shown(must))),
    }
}

fn check_read(versions: &Versions<'_>, read: &Read) -> Result<(), String> {
    let newest = versions.newest(&read.place, read.seq);
    match read.got.is(newest) {
        true => Ok(()),
        false => Err(format!(
            "{} read {} of family {} at {} (second {}) and got {}, must be {} (expires {})",
            read.by,
            shown(&read.place.1),
            read.place.0,
            read.seq,
            read.got.second,
            value(read.got.value.as_deref()),
            value(newest.map(|row| &*row.value)),
            newest.map_or(0, |row| row.expiry)
        )),
    }
}

fn check_scan(versions: &Versions<'_>, scan: &Scanned) -> Result<(), String> {
    let expected = versions.range(&scan.range, scan.seq, &scan.own);
    match expected == scan.range.found.rows {
        true => Ok(()),
        false => Err(format!(
            "{} scanned family {} from {} at {} (second {}): {}",
            scan.by,
            scan.range.life,
            shown(&scan.range.from),
            scan.seq,
            scan.range.found.second,
            first_difference(&expected, &scan.range.found.rows)
        )),
    }
}

/// Locks end with their family: nobody owns a commit into a dropped one.
fn check_commit(versions: &Versions<'_>, commit: &Commit, state: &State) -> Result<(), String> {
    let is_there = |life: Life| state.dropped_at(life) >= commit.seq;
    let who = || format!("commit {} ({})", commit.seq, commit.kind);
    for (place, replaced) in commit.replaced.iter().filter(|(place, _)| is_there(place.0)) {
        let before = versions.newest(place, commit.seq - 1);
        if !replaced.is(before) {
            return Err(format!(
                "{} replaced {} of {} in family {}, and {} stood there: an update is lost",
                who(),
                value(replaced.value.as_deref()),
                shown(&place.1),
                place.0,
                value(before.map(|row| &*row.value))
            ));
        }
    }
    for range in commit.kept.iter().filter(|range| is_there(range.life)) {
        if let Err(what) = versions.check_kept(range, commit.seq - 1) {
            let (who, life, from) = (who(), range.life, shown(&range.from));
            return Err(format!(
                "{who} kept a range of family {life} from {from} on, and it changed: {what}"
            ));
        }
    }
    let Some(snapshot) = commit.snapshot else { return Ok(()) };
    for place in commit.writes.keys().filter(|place| is_there(place.0)) {
        let bumps = state.bumps.range((place.0, 0)..(place.0, commit.seq));
        let compared_from = bumps.map(|(_, seq)| *seq).max().unwrap_or(0).max(snapshot);
        if let Some(seq) = versions.between(place, compared_from, commit.seq) {
            let who = who();
            return Err(format!(
                "{who} with a snapshot at {snapshot} wrote over {seq}, of {}",
                shown(&place.1)
            ));
        }
    }
    Ok(())
}
