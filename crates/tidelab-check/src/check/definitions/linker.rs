//! A client with changes of linked tables until the server is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rand::rngs::StdRng;

use super::super::killing::Killed;
use super::super::session::{Failure, Session};
use super::changes::{self, Change};
use super::linked::{self, Linked};

/// For a kind of change: how often it was answered, and how often killed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) answered: u64,
    pub(super) killed: u64,
    /// Of the killed ones, those present after the restart.
    pub(super) happened: u64,
}

/// The model of a client, across the rounds.
pub(super) struct Linker {
    pub(super) number: usize,
    pub(super) now: Linked,
    /// A change sent and not answered.
    in_doubt: Option<Change>,
    pub(super) done: BTreeMap<&'static str, Done>,
    pub(super) complaint: Option<String>,
}

impl Linker {
    pub(super) fn new(number: usize) -> Linker {
        Linker { number, now: Linked::new(number), in_doubt: None, done: BTreeMap::new(), complaint: None }
    }

    /// Statements to make its databases.
    pub(super) fn databases(&self) -> [String; 2] {
        [0, 1].map(|away| format!("CREATE DATABASE {}", linked::database(self.number, away)))
    }

    /// Changes definitions until the server is gone.
    pub(super) fn load(&mut self, socket: &Path, random: StdRng, killed: &Killed) {
        if let Some(failure) = killed.unexplained(self.work(socket, random)) {
            let statement = self.in_doubt.take().map(|c| format!("checks {}: {}", c.checks, c.statement));
            self.complaint = Some(format!("linked tables {}: {failure}: {statement:?}", self.number));
        }
    }

    fn work(&mut self, socket: &Path, mut random: StdRng) -> Result<(), Failure> {
        let mut session = Session::open(socket)?;
        loop {
            let change = changes::draw(self.number, &self.now, &mut random);
            session.run(&format!("SET SESSION foreign_key_checks = {}", u8::from(change.checks)))?;
            let change = self.in_doubt.insert(change);
            session.run(&change.statement)?;
            self.done.entry(change.kind).or_default().answered += 1;
            if let Some(change) = self.in_doubt.take() {
                self.now = change.after;
            }
        }
    }

    /// After a restart: compares with the server's lines and goes on from there.
    pub(super) fn settle(&mut self, there: &BTreeSet<String>, wrong: &mut Vec<String>) {
        let before = self.now.lines(self.number);
        let Some(change) = self.in_doubt.take() else {
            if before != *there {
                wrong.push(self.difference(&before, there, "nothing"));
            }
            return;
        };
        let done = self.done.entry(change.kind).or_default();
        done.killed += 1;
        let statement = change.statement;
        let mut possible = change.between.into_iter().chain([change.after]);
        if before == *there {
            return;
        }
        match possible.find(|tables| tables.lines(self.number) == *there) {
            Some(tables) => {
                done.happened += 1;
                self.now = tables;
            }
            None => wrong.push(self.difference(&before, there, &statement)),
        }
    }

    fn difference(&self, expected: &BTreeSet<String>, there: &BTreeSet<String>, in_doubt: &str) -> String {
        let more: Vec<&String> = there.difference(expected).collect();
        let less: Vec<&String> = expected.difference(there).collect();
        format!("linked tables {}: there is {more:?}, must be {less:?}, in doubt is {in_doubt}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::linked::Table;
    use super::*;

    fn killed_in_rename(there: impl Fn(&mut Linked)) -> (u64, usize) {
        let mut linker = Linker::new(0);
        let named = |name: &str| {
            let mut tables = linker.now.clone();
            tables.parent = Some(Table { name: name.to_string(), column: "id", more: false, rows: 9 });
            tables
        };
        let (before, after) = (named("kin0.p0"), named("kin0.p1"));
        linker.now = before.clone();
        linker.in_doubt = Some(Change {
            kind: "RENAME parent",
            checks: true,
            statement: String::new(),
            after,
            between: Vec::new(),
        });
        let mut found = before;
        there(&mut found);
        let mut wrong = Vec::new();
        linker.settle(&found.lines(0), &mut wrong);
        (linker.done["RENAME parent"].happened, wrong.len())
    }

    #[test]
    fn a_change_in_doubt_happened_or_not_and_nothing_else() {
        let rename = |name: &'static str| {
            move |tables: &mut Linked| {
                if let Some(parent) = &mut tables.parent {
                    parent.name = name.to_string();
                }
            }
        };
        assert_eq!(killed_in_rename(|_| ()), (0, 0));
        assert_eq!(killed_in_rename(rename("kin0.p1")), (1, 0));
        assert_eq!(killed_in_rename(rename("kin0.p2")), (0, 1));
        assert_eq!(killed_in_rename(|tables| tables.parent = None), (0, 1));
    }
}
