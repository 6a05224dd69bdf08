//! The definer of the check `foreign`: changes definitions. It is the only one, so it knows them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::RngExt;

use super::super::session::{Failure, Session};
use super::definitions::{self, Actions, Definitions, DROPPABLE, KEYS, TABLES};
use super::scene::{ClientCounts, Line, Notes, Scene};

/// Kinds of statements; a long run must have each answered.
pub(super) const KINDS: [&str; 10] = [
    "FORCE",
    "ADD INDEX",
    "DROP INDEX",
    "ADD COLUMN",
    "DROP COLUMN",
    "DROP FOREIGN KEY",
    "ADD FOREIGN KEY",
    "RENAME",
    "TRUNCATE",
    "DROP, refused",
];

/// Attempts to add a foreign key while the writers go on.
const TRIES: u32 = 6;

pub(super) struct Definer {
    pub(super) definitions: Definitions,
    /// The definitions after a statement whose outcome is not known, and it.
    in_doubt: Option<(String, Definitions)>,
    pub(super) tally: ClientCounts,
    pub(super) complaints: Vec<String>,
    last_error: u16,
    pub(super) notes: Arc<Notes>,
}

impl Definer {
    pub(super) fn new(definitions: Definitions) -> Definer {
        Definer {
            definitions,
            in_doubt: None,
            tally: ClientCounts::default(),
            complaints: Vec::new(),
            last_error: 0,
            notes: Arc::new(Notes::new()),
        }
    }

    /// Changes definitions until the round is over or the server is gone.
    pub(super) fn work(&mut self, scene: &Scene, mut random: StdRng) -> Result<(), Failure> {
        let mut line: Option<Line> = None;
        let mut old = None;
        while scene.goes_on() {
            let mut now = match line.take() {
                Some(line) => line,
                None => {
                    let line = Line::open(scene, old)?;
                    old = Some(line.id);
                    line
                }
            };
            match self
                .adopt(&mut now.session, scene)
                .and_then(|()| self.step(&mut now.session, scene, &mut random))
            {
                Ok(()) => line = Some(now),
                Err(Failure::Lost(_)) => self.tally.lost += 1,
                // Killed: what the statement did is looked up.
                Err(Failure::Sql { code: 1317, .. }) => {
                    self.tally.error(1317);
                    line = Some(now);
                }
                Err(failure) => return Err(failure),
            }
            scene.pause(Duration::from_millis(random.random_range(10..80)));
        }
        Ok(())
    }

    /// One change, or one and its reverse.
    fn step(&mut self, session: &mut Session, scene: &Scene, random: &mut StdRng) -> Result<(), Failure> {
        // A foreign key that is missing comes back soon, a table gets its name back at once.
        if let Some(key) = (0..KEYS.len()).find(|key| self.definitions.keys[*key].is_none()) {
            if random.random_bool(0.7) {
                return self.add_key(session, scene, key, random);
            }
        }
        let table = TABLES[random.random_range(0..TABLES.len())].0;
        if let Some(table) = self.renamed() {
            return self.rename(session, table).map(|_| ());
        }
        let name = self.definitions.name(table);
        let shape = self.definitions.tables.get(table).copied().unwrap_or_default();
        let mut after = self.definitions.clone();
        let changed = after.tables.entry(table).or_default();
        match random.random_range(0..13) {
            0 | 1 => {
                let sql = format!("ALTER TABLE {name} FORCE, ALGORITHM=COPY");
                self.change(session, "FORCE", sql, after)?;
            }
            2 | 3 => {
                changed.index = !shape.index;
                let (kind, change) = match shape.index {
                    true => ("DROP INDEX", "DROP INDEX by_v"),
                    false => ("ADD INDEX", "ADD INDEX by_v (v)"),
                };
                self.change(session, kind, format!("ALTER TABLE {name} {change}, ALGORITHM=NOCOPY"), after)?;
            }
            4 | 5 => {
                changed.column = !shape.column;
                let (kind, change) = match shape.column {
                    true => ("DROP COLUMN", "DROP COLUMN more"),
                    false => ("ADD COLUMN", "ADD COLUMN more INT DEFAULT 5"),
                };
                self.change(session, kind, format!("ALTER TABLE {name} {change}, ALGORITHM=INSTANT"), after)?;
            }
            6..9 => {
                let key = random.random_range(0..DROPPABLE);
                if self.definitions.keys[key].is_some() {
                    after.keys[key] = None;
                    let child = self.definitions.name(KEYS[key].child);
                    let sql = format!("ALTER TABLE {child} DROP FOREIGN KEY {}", KEYS[key].name);
                    scene.may_miss(key, true);
                    if self.change(session, "DROP FOREIGN KEY", sql, after)? {
                        scene.pause(Duration::from_millis(random.random_range(5..60)));
                        self.add_key(session, scene, key, random)?;
                    } else {
                        scene.may_miss(key, false);
                    }
                }
            }
            9 | 10 => {
                if self.rename(session, table)? {
                    scene.pause(Duration::from_millis(random.random_range(0..30)));
                    self.rename(session, table)?;
                }
            }
            11 => {
                let parent = ["g", "p", "c"][random.random_range(0..3)];
                // A table with history is not truncated, whoever refers to it.
                let refused: &[u16] = match self.definitions.is_versioned(parent) {
                    true => &[4137, 1701],
                    false if self.definitions.is_referenced(parent) => &[1701],
                    false => &[],
                };
                let sql = format!("TRUNCATE TABLE {}", self.definitions.name(parent));
                self.refuse(session, "TRUNCATE", sql, after, refused)?;
            }
            _ => {
                let parent = ["g", "p"][random.random_range(0..2)];
                if self.definitions.is_referenced(parent) {
                    let sql = format!("DROP TABLE {}", self.definitions.name(parent));
                    self.refuse(session, "DROP, refused", sql, after, &[1451])?;
                }
            }
        }
        Ok(())
    }

    fn renamed(&self) -> Option<&'static str> {
        self.definitions.tables.iter().find(|(_, shape)| shape.renamed).map(|(table, _)| *table)
    }

    fn rename(&mut self, session: &mut Session, table: &'static str) -> Result<bool, Failure> {
        let mut after = self.definitions.clone();
        let shape = after.tables.entry(table).or_default();
        shape.renamed = !shape.renamed;
        let sql = format!("RENAME TABLE {} TO {}", self.definitions.name(table), after.name(table));
        self.change(session, "RENAME", sql, after)
    }

    /// Adds a foreign key; new children without a parent lose their reference.
    fn add_key(
        &mut self,
        session: &mut Session,
        scene: &Scene,
        key: usize,
        random: &mut StdRng,
    ) -> Result<(), Failure> {
        for _ in 0..TRIES {
            if !scene.goes_on() {
                break;
            }
            let actions = Actions::draw(key, random);
            let mut after = self.definitions.clone();
            after.keys[key] = Some(actions);
            let child = self.definitions.name(KEYS[key].child);
            let sql = format!("ALTER TABLE {child} ADD {}", self.definitions.clause(key, actions));
            if self.change(session, "ADD FOREIGN KEY", sql, after)? {
                scene.may_miss(key, false);
                break;
            }
            let mend = self.definitions.mend(key);
            self.change(session, "mend", mend, self.definitions.clone())?;
        }
        Ok(())
    }

    /// Runs a statement after which the definitions are `after`. False: it did not happen, for a permitted
    /// reason.
    fn change(
        &mut self,
        session: &mut Session,
        kind: &'static str,
        sql: String,
        after: Definitions,
    ) -> Result<bool, Failure> {
        self.tally.statements += 1;
        self.in_doubt = Some((sql.clone(), after));
        self.notes.add(&format!("{sql}: sent"));
        let answer = session.run(&sql);
        let said = answer.as_ref().map_or_else(Failure::to_string, |_| "done".to_string());
        self.notes.add(&said);
        match answer {
            Ok(_) => {
                if let Some((_, after)) = self.in_doubt.take() {
                    self.definitions = after;
                }
                self.tally.done(kind);
                Ok(true)
            }
            Err(Failure::Sql { code, message }) => match code {
                1317 => Err(Failure::Sql { code, message }),
                1025 if message.contains("interrupted") => Err(Failure::Sql { code: 1317, message }),
                // Waits for the table, or for rows while they are mended.
                1205 | 1213 | 1020 => self.did_not(code),
                // A prepared transaction that came meanwhile has the table, or one that looked for a parent there.
                1025 if message.contains("Lock timed out") || message.contains("Lock deadlock") => {
                    self.did_not(code)
                }
                1105 if message.contains("a prepared XA transaction") => self.did_not(code),
                1452 if kind == "ADD FOREIGN KEY" => self.did_not(code),
                1062 | 1451 if kind == "mend" => self.did_not(code),
                _ => Err(Failure::Sql { code, message: format!("{message}: {sql}") }),
            },
            Err(failure) => Err(failure),
        }
    }

    fn did_not(&mut self, code: u16) -> Result<bool, Failure> {
        self.tally.error(code);
        self.last_error = code;
        self.in_doubt = None;
        Ok(false)
    }

    /// Runs a statement without a change of definitions. It must fail with one of these errors, if any.
    fn refuse(
        &mut self,
        session: &mut Session,
        kind: &'static str,
        sql: String,
        after: Definitions,
        expected: &[u16],
    ) -> Result<(), Failure> {
        match self.change(session, kind, sql.clone(), after) {
            Err(Failure::Sql { code, .. }) if expected.contains(&code) => {
                self.did_not(code)?;
                self.tally.done(kind);
            }
            Ok(true) if !expected.is_empty() => {
                self.complaints.push(format!("{sql}: was answered, must be refused with {expected:?}"));
            }
            done => {
                done?;
            }
        }
        Ok(())
    }

    /// With no statement of this client going on: the one in doubt happened or did not.
    fn adopt(&mut self, session: &mut Session, scene: &Scene) -> Result<(), Failure> {
        if self.in_doubt.is_none() {
            return Ok(());
        }
        let there = definitions::read(session)?;
        self.compare(&there);
        (0..KEYS.len()).for_each(|key| scene.may_miss(key, self.definitions.keys[key].is_none()));
        Ok(())
    }

    /// Compares with the real definitions and goes on from them.
    pub(super) fn compare(&mut self, there: &BTreeSet<String>) {
        let before = self.definitions.lines();
        match self.in_doubt.take() {
            Some((_, after)) if after.lines() == *there => self.definitions = after,
            in_doubt if before != *there => self.complaints.push(format!(
                "definitions: {} (in doubt: {:?})",
                definitions::difference(there, &before),
                in_doubt.map(|(sql, _)| sql)
            )),
            _ => {}
        }
    }

    /// With no client at work: all tables get their names, and all foreign keys come back.
    pub(super) fn restore(&mut self, session: &mut Session, random: &mut StdRng) -> Result<(), Failure> {
        while let Some(table) = self.renamed() {
            self.rename_now(session, table)?;
        }
        for (key, known) in KEYS.iter().enumerate() {
            if self.definitions.keys[key].is_none() {
                session.run(&self.definitions.mend(key))?;
                let actions = Actions::draw(key, random);
                let mut after = self.definitions.clone();
                after.keys[key] = Some(actions);
                let child = self.definitions.name(known.child);
                let sql = format!("ALTER TABLE {child} ADD {}", self.definitions.clause(key, actions));
                self.must_change(session, "ADD FOREIGN KEY", sql, after)?;
            }
        }
        Ok(())
    }

    fn rename_now(&mut self, session: &mut Session, table: &'static str) -> Result<(), Failure> {
        match self.rename(session, table)? {
            true => Ok(()),
            false => Err(Failure::Sql { code: 0, message: format!("{table} is in use at rest") }),
        }
    }

    fn must_change(
        &mut self,
        session: &mut Session,
        kind: &'static str,
        sql: String,
        after: Definitions,
    ) -> Result<(), Failure> {
        match self.change(session, kind, sql.clone(), after)? {
            true => Ok(()),
            false => Err(Failure::Sql { code: self.last_error, message: format!("{sql}: refused at rest") }),
        }
    }
}
