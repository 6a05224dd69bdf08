//! The lock table as data, and as a text for tests and reports.

#[cfg(test)]
use std::fmt::Write;

use super::gap_set::Span;
use super::owner::LockOwner;
use super::shard::Entry;
use crate::types::FamilyId;

/// One owner's grant or wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockInfo {
    /// The family.
    pub family: FamilyId,
    /// The key, for a gap lock its first one; `None` for the table lock.
    pub key: Option<Vec<u8>>,
    /// For a gap lock: the first key after it, or `None` for an open end.
    pub range_to: Option<Option<Vec<u8>>>,
    /// Id of the owner.
    pub owner: u64,
    /// Cookie of the owner.
    pub cookie: u64,
    /// "IS", "IX", "S", "SIX", "X", or "GAP" for a gap lock; for a wait, the wanted mode.
    pub mode: &'static str,
    /// True for an optimistic transaction's intent.
    pub intent: bool,
    /// True if the owner waits for the lock.
    pub waiting: bool,
}

/// Appends grants, then waits, of one entry.
pub(super) fn describe(family: FamilyId, key: Option<Vec<u8>>, entry: &Entry, out: &mut Vec<LockInfo>) {
    for hold in entry.queue.granted() {
        out.push(LockInfo {
            family,
            key: key.clone(),
            range_to: None,
            owner: hold.owner.id(),
            cookie: hold.owner.cookie(),
            mode: hold.mask.name(),
            intent: hold.intent,
            waiting: false,
        });
    }
    for request in entry.queue.waiting() {
        out.push(LockInfo {
            family,
            key: key.clone(),
            range_to: None,
            owner: request.owner.id(),
            cookie: request.owner.cookie(),
            mode: request.want.name(),
            intent: request.intent,
            waiting: true,
        });
    }
}

/// One owner's gap lock.
pub(super) fn describe_range(family: FamilyId, owner: &LockOwner, span: &Span) -> LockInfo {
    LockInfo {
        family,
        key: Some(span.from.clone()),
        range_to: Some(span.to.clone()),
        owner: owner.id(),
        cookie: owner.cookie(),
        mode: "GAP",
        intent: false,
        waiting: false,
    }
}

/// Formats the result of [`super::LockManager::list`], one lock a line: `owner:mode` of the grants and, after
/// a bar, of the waits in their order. `*` marks intents. A gap lock has its own line.
#[cfg(test)]
pub fn listing(locks: &[LockInfo]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < locks.len() {
        let first = &locks[at];
        if let (Some(from), Some(to)) = (&first.key, &first.range_to) {
            let to = to.as_ref().map_or("..".to_owned(), |to| to.escape_ascii().to_string());
            let from = from.escape_ascii();
            let _ = writeln!(out, "{}/[{from},{to}) t{}", first.family, first.owner);
            at += 1;
            continue;
        }
        let same = locks[at..]
            .iter()
            .take_while(|l| (l.family, &l.key, &l.range_to) == (first.family, &first.key, &first.range_to));
        let end = at + same.count();
        let what = match &first.key {
            None => "table".to_owned(),
            Some(key) => key.escape_ascii().to_string(),
        };
        let _ = write!(out, "{}/{what:<6}", first.family);
        let mut bar = false;
        for lock in &locks[at..end] {
            if lock.waiting && !bar {
                out.push_str(" |");
                bar = true;
            }
            let _ = write!(out, " t{}:{}{}", lock.owner, lock.mode, if lock.intent { "*" } else { "" });
        }
        out.push('\n');
        at = end;
    }
    out
}
