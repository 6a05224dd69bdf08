//! State beyond a transaction: prepared ones and their decisions, definitions, counters, restarts.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidesdb::Error;

use super::sim::open;
use super::{Open, World};

impl World {
    pub(super) fn prepare(&mut self, at: usize) {
        let xid = format!("x{}-{}", self.seed, self.rng.next()).into_bytes();
        let two_phase = self.rng.one_in(2);
        self.trace(|| format!("prepare {:?} {two_phase}", String::from_utf8_lossy(&xid)));
        let open = &mut self.open[at];
        open.cursor = None;
        open.txn.prepare(two_phase.then_some(&xid)).expect("prepares");
        open.model.prepared = Some(if two_phase { xid } else { Vec::new() });
        self.count("prepares");
    }

    pub(super) fn decide(&mut self, at: usize) {
        let writer = self.open.iter().position(|o| o.model.prepared.is_none() && !o.model.own.is_empty());
        if let Some(writer) = writer.filter(|_| !self.open[at].model.ordered && self.rng.one_in(2)) {
            let open = &mut self.open[at];
            open.txn.order();
            // It is in the commit order, whatever comes, and visible as soon as a later commit is.
            let own = open.model.own.clone();
            open.model.ordered = true;
            self.model.commit(&own);
            self.end(writer, true);
            self.count("overtaken");
            return;
        }
        let mut open = self.open.swap_remove(at);
        if open.model.ordered || self.rng.one_in(2) {
            let checkpoint = self.rng.one_in(2);
            open.txn.finish(checkpoint).expect("finishes");
            if checkpoint {
                // The marker's sync was left to the checkpoint request, which comes now.
                self.db().flush_log().expect("syncs");
            }
            if !open.model.ordered {
                self.model.commit(&open.model.own);
            }
        } else {
            open.txn.rollback().expect("rolls back");
        }
        self.model.unlock_all(open.model.owner);
    }

    pub(super) fn ddl(&mut self) {
        let (name, other) = (self.name(), self.name());
        let options = self.rng.pick(&self.family_options.clone()).clone();
        let mut ddl = self.db().ddl().expect("begins");
        let (has, has_other) = (self.model.names.contains_key(&name), self.model.names.contains_key(&other));
        let what = if self.model.names.len() < 2 { 0 } else { self.rng.below(8) };
        match what {
            0 | 1 => {
                let done = ddl.create(&name, options, b"made");
                assert_eq!(done.is_err(), has, "create {name:?}: {done:?}");
                if done.is_ok() && !self.rng.one_in(8) {
                    ddl.commit().expect("commits");
                    self.model.create(&name);
                    self.count("creates");
                }
            }
            2 => {
                let done = ddl.drop_family(&name);
                assert_eq!(done.is_ok(), has, "drop {name:?}: {done:?}");
                if has {
                    ddl.commit().expect("commits");
                    self.model.seq += 1;
                    if let Some(id) = self.model.names.remove(&name) {
                        self.model.families.remove(&id);
                        self.model.locks.retain(|(family, _), _| *family != id);
                        self.model.gaps.retain(|gap| gap.family != id);
                    }
                    self.count("drops");
                }
            }
            3 | 4 => {
                let done = ddl.rename(&name, &other);
                assert_eq!(done.is_ok(), has && !has_other, "rename {name:?} to {other:?}: {done:?}");
                if done.is_ok() {
                    ddl.commit().expect("commits");
                    self.model.seq += 1;
                    if let Some(id) = self.model.names.remove(&name) {
                        self.model.names.insert(other, id);
                    }
                    self.count("renames");
                }
            }
            5 => {
                let done = ddl.truncate(&name);
                assert_eq!(done.is_ok(), has, "truncate {name:?}: {done:?}");
                if has {
                    ddl.commit().expect("commits");
                    if let Some(id) = self.model.names.remove(&name) {
                        self.model.families.remove(&id);
                        self.model.locks.retain(|(family, _), _| *family != id);
                        self.model.gaps.retain(|gap| gap.family != id);
                    }
                    self.model.create(&name);
                    self.count("truncates");
                }
            }
            6 => {
                if has && has_other && name != other {
                    // The exchange of two names, as ALTER by COPY makes it.
                    ddl.rename(&name, b"between").expect("renames");
                    ddl.rename(&other, &name).expect("renames");
                    ddl.rename(b"between", &other).expect("renames");
                    ddl.commit().expect("commits");
                    self.model.seq += 1;
                    let (a, b) = (self.model.names[&name], self.model.names[&other]);
                    self.model.names.insert(name, b);
                    self.model.names.insert(other, a);
                    self.count("exchanges");
                }
            }
            _ => {
                if has {
                    let options = self.rng.pick(&self.family_options.clone()).clone();
                    ddl.set_options(&name, options).expect("sets");
                    ddl.commit().expect("commits");
                    self.model.seq += 1;
                    self.count("alters");
                }
            }
        }
        self.refresh_handles();
    }

    pub(super) fn refresh_handles(&mut self) {
        let names: BTreeSet<Vec<u8>> = self.db().family_names(b"").iter().map(|n| n.to_vec()).collect();
        assert_eq!(names, self.model.names.keys().cloned().collect(), "names of families");
        for (name, id) in self.model.names.clone() {
            let handle = self.db().family(&name).expect("there");
            if let Some(known) = self.handles.get(&id) {
                assert!(Arc::ptr_eq(known, &handle), "one object for a family");
            }
            self.handles.insert(id, handle);
        }
    }

    pub(super) fn counter(&mut self) {
        let Some((family, handle)) = self.family() else { return };
        let counter = self.rng.below(2) as u32;
        if !self.live(family) {
            let taken = self.db().counter_take(&handle, counter, 1, 1, 1, u64::MAX);
            assert!(matches!(taken, Err(Error::NoSuchFamily(_))), "a counter of a dropped family: {taken:?}");
            return;
        }
        let highest = self.model.families[&family].counters.get(&counter).copied().unwrap_or(0);
        let now = match self.rng.below(4) {
            0 => {
                let to = highest.saturating_sub(2) + self.rng.below(300);
                self.db().counter_raise(&handle, counter, to).expect("raises");
                highest.max(to)
            }
            1 => {
                let next = self.db().counter_peek(&handle, counter).expect("peeks");
                assert!(next > highest, "the next value {next} is not above {highest}");
                highest
            }
            _ => {
                let (count, increment) = (1 + self.rng.below(90), 1 + self.rng.below(3));
                let offset = self.rng.below(increment);
                let first = self
                    .db()
                    .counter_take(&handle, counter, count, offset, increment, u64::MAX)
                    .expect("takes");
                assert!(first > highest, "{first} was handed out before ({highest})");
                assert_eq!(first % increment, offset, "offset");
                first + (count - 1) * increment
            }
        };
        self.model.families.get_mut(&family).expect("live").counters.insert(counter, now);
        self.count("counters");
    }

    /// Restarts the store; open transactions are gone, prepared ones wait for their decision.
    pub(super) fn restart(&mut self) {
        let clean = self.rng.one_in(2);
        let mode = *self.rng.pick(&self.crash_ok.clone());
        let crashed = self.disk.crash(mode);
        if !clean {
            self.disk.crash_at(0);
        }
        for open in std::mem::take(&mut self.open) {
            let Open { mut txn, model, cursor } = open;
            drop(cursor);
            match (clean, &model.prepared) {
                // A clean end decides what it can.
                (true, Some(_)) if model.ordered || self.rng.one_in(2) => {
                    txn.finish(false).expect("finishes");
                    if !model.ordered {
                        self.model.commit(&model.own);
                    }
                    self.model.unlock_all(model.owner);
                }
                (true, _) => {
                    txn.rollback().expect("rolls back");
                    self.model.unlock_all(model.owner);
                }
                // Ordered without a finish: its marker may be in the log's queue only.
                (false, Some(_)) if model.ordered => unreachable!("ordered ones are finished before a crash"),
                (false, Some(xid)) if !xid.is_empty() && !model.own.is_empty() => {
                    // Of its locks those on written keys come back.
                    self.model.unlock_all(model.owner);
                    for (family, key) in model.own.keys() {
                        self.model.lock(model.owner, *family, key, true).expect("nobody else has it");
                    }
                    self.model.undecided.insert(xid.clone(), (model.own, model.owner));
                }
                (false, _) => self.model.unlock_all(model.owner),
            }
        }
        self.trace(|| format!("restart, clean {clean}, {mode:?}"));
        let db = self.db.take().expect("open");
        self.handles.clear();
        if clean {
            db.close().expect("closes");
            self.count("clean restarts");
        } else {
            drop(db);
            self.disk = crashed;
            self.count("crashes");
        }
        self.db = Some(
            open(&self.disk, &self.options)
                .unwrap_or_else(|e| panic!("opens after {mode:?}, clean {clean}: {e}")),
        );
        // Handles of families that were dropped are gone with the store.
        let mut undecided = self.db().prepared();
        undecided.sort();
        assert_eq!(undecided, self.model.undecided.keys().cloned().collect::<Vec<_>>(), "undecided");
        self.refresh_handles();
        self.compare();
    }

    pub(super) fn decide_recovered(&mut self) {
        let Some(xid) = self.model.undecided.keys().next().cloned() else { return };
        let Some((own, owner)) = self.model.undecided.remove(&xid) else { return };
        let commit = self.rng.one_in(2);
        self.trace(|| format!("decide {:?}: {commit}", String::from_utf8_lossy(&xid)));
        let known = match commit {
            true => self.db().commit_by_xid(&xid),
            false => self.db().rollback_by_xid(&xid),
        };
        assert!(known.expect("decides"), "the transaction is known");
        if commit {
            self.model.commit(&own);
        }
        self.model.unlock_all(owner);
        self.count("decided after a restart");
    }
}
