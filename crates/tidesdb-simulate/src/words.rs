//! Documents and words: a row with dozens of entries in one transaction, and searches for all entries of a word.
//!
//! An entry's key is a word and the document's number, as in a full text index. A document is written anew with other
//! words: entries come and go at once, all or none of them. A search is a scan of a prefix, at the snapshot with own
//! changes, or of the newest entries with the prefix's range kept.

use std::collections::BTreeSet;

use tidesdb_simulated::internal::txn::cursor::Scan;
use tidesdb_simulated::internal::txn::transaction::{ReadMode, Transaction};

use crate::client::{Client, Failed, Kind};
use crate::events::hit;
use crate::model::{Found, Place, Range};
use crate::world::{read_rows, scan_from};

/// Words of all documents; few, so that searches find something.
const WORDS: u64 = 40;
/// Documents.
const DOCUMENTS: u64 = 30;
/// Most words of a document.
const MOST_WORDS: u64 = 30;

/// The first bytes of a word's entries: no word is the first part of another.
fn prefix_of(word: u64) -> Vec<u8> {
    format!("w{word:02}.").into_bytes()
}

/// The first key after them.
fn end_of(word: u64) -> Vec<u8> {
    format!("w{word:02}/").into_bytes()
}

impl Client<'_> {
    /// A document gets other words.
    pub(crate) fn document(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        hit("document with its words");
        let (family, document) = (self.family()?, self.random.below(DOCUMENTS));
        let words: BTreeSet<u64> =
            (0..self.random.below(MOST_WORDS)).map(|_| self.random.below(WORDS)).collect();
        for word in words {
            let key = [prefix_of(word), format!("{document:04}").into_bytes()].concat();
            let place: Place = (family.id(), key);
            let goes = self.random.one_in(3);
            let exists = (goes || self.world.program.counted) && self.locking_get_of(txn, &family, &place)?;
            match (goes, exists) {
                (true, false) => {}
                (true, true) => self.change(txn, &family, place, None, Kind::Delete, false)?,
                (false, exists) => {
                    let row = self.row();
                    let insert = self.world.program.counted && !exists;
                    let kind = if insert { Kind::Insert } else { Kind::Put };
                    self.change(txn, &family, place, Some(row), kind, exists)?;
                }
            }
        }
        Ok(())
    }

    /// All entries of a word.
    pub(crate) fn search(&mut self, txn: &mut Transaction) -> Result<(), Failed> {
        hit("search for a word");
        let (family, word) = (self.family()?, self.random.below(WORDS));
        let (prefix, end) = (prefix_of(word), end_of(word));
        let life = family.id();
        let locks = self.random.one_in(4);
        let mode = if locks {
            self.random.pick(&[ReadMode::Shared, ReadMode::Exclusive])
        } else {
            ReadMode::Snapshot
        };
        let scan = Scan { prefix: prefix.len(), ..scan_from(&prefix, mode, 0) };
        let must_refuse = locks && self.must_refuse();
        let rows = read_rows(&self.world.db, txn, &family, &scan, || {})?;
        if must_refuse {
            return Err(Failed::Wrong("a locking search after the log failed is answered".into()));
        }
        if !rows.is_sorted_by(|a, b| a.0 < b.0) || rows.iter().any(|(key, _)| !key.starts_with(&prefix)) {
            return Err(Failed::Wrong(format!("a search for {} is not in order", prefix.escape_ascii())));
        }
        let second = self.world.second(txn, mode);
        let unknown: BTreeSet<Vec<u8>> = match locks {
            true => self.own.keys().filter(|(of, _)| *of == life).map(|(_, key)| key.clone()).collect(),
            false => BTreeSet::new(),
        };
        let range = Range { life, from: prefix, to: Some(end), found: Found { rows, second }, unknown };
        if !locks {
            self.check_second(txn)?;
            if let Some(seq) = self.snapshot(txn)? {
                self.world.history.scanned(&self.name(), seq, range, self.own.clone());
            }
            return Ok(());
        }
        if self.keeps_gaps() {
            self.kept.push(range);
        }
        Ok(())
    }
}
