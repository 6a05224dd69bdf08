//! Writes a program statement by statement: tables, then changes, queries, transactions, definitions, and
//! after every so many statements a look at the whole state.
//!
//! The writer gets the server's answer to a definition ([`Writer::answered`]), so it knows the tables.
//! All else comes from the seed.

use std::collections::VecDeque;

use super::alter::{alter, empty};
use super::change::{change, fill, prepared};
use super::condition::every_row;
use super::dice::Dice;
use super::full_text::Texts;
use super::link::{link_up, may_be_linked};
use super::link_change::{change_links, Defined};
use super::marks::{list, HINT};
use super::program::{Sort, Step};
use super::query::{query, with_parameter};
use super::schema::Table;

/// Statements between two looks at the state.
const LOOK_AFTER: u32 = 40;

/// Tables as they are when a definition is accepted, with their indexes.
type Pending = Vec<(usize, Table)>;

/// The author of one program.
#[derive(Debug)]
pub(super) struct Writer {
    dice: Dice,
    tables: Vec<Table>,
    texts: Texts,
    /// Steps to hand out; a definition has the tables after its acceptance.
    waiting: VecDeque<(Step, Pending)>,
    /// The same for the last step handed out.
    pending: Pending,
    /// Tables to be made.
    to_make: usize,
    statements: u32,
    limit: u32,
    in_transaction: bool,
    /// The session's isolation level, and the running transaction's.
    level: &'static str,
    transaction_level: &'static str,
    locked: bool,
    ended: bool,
    /// True if the tables have foreign keys.
    linked: bool,
    /// `foreign_key_checks`.
    checks: bool,
}

impl Writer {
    /// A program of so many statements.
    pub(super) fn new(seed: u64, statements: u32) -> Writer {
        let mut dice = Dice::new(seed);
        let mode = dice.word(&[
            "",
            "",
            "STRICT_TRANS_TABLES",
            "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
            "STRICT_ALL_TABLES",
            "PAD_CHAR_TO_FULL_LENGTH",
        ]);
        let level = dice.word(&[
            "REPEATABLE READ",
            "REPEATABLE READ",
            "READ COMMITTED",
            "SERIALIZABLE",
            "READ UNCOMMITTED",
        ]);
        let settings =
            [format!("SET sql_mode = '{mode}'"), format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}")];
        let waiting = settings.into_iter().map(|text| (Step::new(Sort::Control, text), Vec::new())).collect();
        let linked = dice.one_in(2);
        Writer {
            to_make: if linked { dice.count(2, 4) } else { dice.count(2, 3) },
            dice,
            texts: Texts::new(seed),
            tables: Vec::new(),
            waiting,
            pending: Vec::new(),
            statements: 0,
            limit: statements,
            in_transaction: false,
            level,
            transaction_level: level,
            locked: false,
            ended: false,
            linked,
            checks: true,
        }
    }

    /// The next statement; none at the end.
    pub(super) fn next(&mut self) -> Option<Step> {
        loop {
            if let Some((step, pending)) = self.waiting.pop_front() {
                self.pending = pending;
                let virtuals = self.tables.iter().any(|t| t.columns.iter().any(|c| !c.is_base()));
                return Some(step.virtuals(virtuals));
            }
            if self.to_make > 0 {
                return Some(self.make_table());
            }
            if self.statements >= self.limit {
                if self.ended {
                    return None;
                }
                self.ended = true;
                self.end_transaction();
                self.look();
                continue;
            }
            self.statements += 1;
            self.write();
            if self.statements % LOOK_AFTER == 0 {
                self.look();
            }
        }
    }

    /// Takes the answer to the last statement handed out: accepted or not.
    pub(super) fn answered(&mut self, accepted: bool) {
        let pending = std::mem::take(&mut self.pending);
        if !accepted {
            return;
        }
        for (index, table) in pending {
            if index < self.tables.len() {
                self.tables[index] = table;
            } else {
                self.made(table);
            }
        }
    }

    /// A new table gets rows.
    fn made(&mut self, table: Table) {
        self.to_make -= 1;
        let rows = *self.dice.pick(&[0, 3, 10, 20, 40, 40, 120, 300]);
        for from in (0..rows).step_by(40) {
            let step = fill(&mut self.dice, &table, 40.min(rows - from));
            self.put(step);
        }
        if self.dice.one_in(2) {
            self.put(Step::new(Sort::Quiet, format!("ANALYZE TABLE {}", table.name)));
        }
        self.tables.push(table);
    }

    fn make_table(&mut self) -> Step {
        let index = self.tables.len();
        let name = format!("t{index}");
        let mut table = Table::random(&mut self.dice, &name);
        if self.linked {
            // The first one must be fit for a parent.
            while index == 0 && !(may_be_linked(&table) && table.primary.is_some()) {
                table = Table::random(&mut self.dice, &name);
            }
            link_up(&mut self.dice, &mut table, &self.tables);
        }
        let step = Step::new(Sort::Definition, table.create());
        self.pending = vec![(index, table)];
        step
    }

    fn write(&mut self) {
        // (LOCK TABLES names the other tables alone.)
        if !self.locked {
            if let Some(steps) = self.texts.steps(!self.in_transaction) {
                return self.put_all(steps);
            }
        }
        let level = self.level_now();
        if self.linked && self.dice.one_in(14) {
            return self.links();
        }
        let step = match self.dice.number(0, 99) {
            0..=40 => query(&mut self.dice, &self.tables),
            41..=80 => change(&mut self.dice, &self.tables, level),
            81..=90 => {
                self.transaction();
                return;
            }
            91 => {
                self.handler();
                return;
            }
            92 | 93 => {
                let table = self.dice.pick(&self.tables).clone();
                let steps = prepared(&mut self.dice, &table, &self.tables, level);
                self.put_all(steps);
                return;
            }
            94 => {
                let table = self.dice.pick(&self.tables).clone();
                match with_parameter(&mut self.dice, &table) {
                    Some(step) => step,
                    None => query(&mut self.dice, &self.tables),
                }
            }
            95 => {
                let table = self.dice.pick(&self.tables).name.clone();
                let how = self.dice.word(&["ANALYZE TABLE", "OPTIMIZE TABLE", "FLUSH TABLES"]);
                self.definition_begins();
                Step::new(Sort::Quiet, format!("{how} {table}"))
            }
            96 if self.dice.one_in(4) => {
                let table = self.dice.pick(&self.tables).clone();
                self.definition_begins();
                empty(&mut self.dice, &table, &self.tables)
            }
            _ => {
                let index = self.dice.count(0, self.tables.len() - 1);
                let (mut step, after) = alter(&mut self.dice, &self.tables[index], &self.tables);
                // A copy looks each child's parent up, and one engine copies where the other does not.
                if after.orphans && !after.links.is_empty() {
                    step.text.insert_str(0, "SET STATEMENT foreign_key_checks = 0 FOR ");
                }
                self.definition_begins();
                self.waiting.push_back((step, vec![(index, after)]));
                return;
            }
        };
        self.put(step);
    }

    /// Foreign keys come, go and change, or are not checked for a while.
    fn links(&mut self) {
        if self.dice.one_in(if self.checks { 6 } else { 2 }) {
            self.checks = !self.checks;
            self.tables.iter_mut().for_each(|table| table.orphans |= !self.checks);
            let text = format!("SET foreign_key_checks = {}", u8::from(self.checks));
            return self.put(Step::new(Sort::Control, text));
        }
        let index = self.dice.count(0, self.tables.len() - 1);
        let defined: Vec<Defined> = change_links(&mut self.dice, &self.tables, index, self.checks);
        if !defined.is_empty() {
            self.definition_begins();
            self.waiting.extend(defined);
        }
    }

    fn level_now(&self) -> &'static str {
        if self.in_transaction {
            self.transaction_level
        } else {
            self.level
        }
    }

    fn put(&mut self, step: Step) {
        self.waiting.push_back((step, Vec::new()));
    }

    fn put_all(&mut self, steps: impl IntoIterator<Item = Step>) {
        self.waiting.extend(steps.into_iter().map(|step| (step, Vec::new())));
    }

    /// Definitions end transactions; under LOCK TABLES they would ask for locks of their own.
    fn definition_begins(&mut self) {
        self.in_transaction = false;
        if self.locked {
            self.locked = false;
            self.put(Step::new(Sort::Control, "UNLOCK TABLES"));
        }
    }

    fn end_transaction(&mut self) {
        self.definition_begins();
        self.put(Step::new(Sort::Control, "COMMIT"));
    }

    fn transaction(&mut self) {
        let control = |text: String| Step::new(Sort::Control, text);
        if !self.in_transaction {
            if self.locked || self.dice.one_in(8) {
                return self.lock_tables();
            }
            let begin = self.dice.word(&[
                "BEGIN",
                "BEGIN",
                "START TRANSACTION WITH CONSISTENT SNAPSHOT",
                "START TRANSACTION READ WRITE",
            ]);
            self.in_transaction = true;
            self.transaction_level = self.level;
            if self.dice.one_in(4) {
                let level = self.dice.word(&[
                    "REPEATABLE READ",
                    "READ COMMITTED",
                    "SERIALIZABLE",
                    "READ UNCOMMITTED",
                ]);
                self.transaction_level = level;
                self.put(control(format!("SET TRANSACTION ISOLATION LEVEL {level}")));
            }
            self.put(control(begin.to_string()));
            return;
        }
        let name = self.dice.number(0, 2);
        let text = match self.dice.number(0, 9) {
            0..=2 => {
                let change = self.texts.before_savepoint();
                self.put_all(change);
                format!("SAVEPOINT s{name}")
            }
            3 | 4 => format!("ROLLBACK TO SAVEPOINT s{name}"),
            5 => format!("RELEASE SAVEPOINT s{name}"),
            6 | 7 => {
                self.in_transaction = false;
                "COMMIT".to_string()
            }
            _ => {
                self.in_transaction = false;
                "ROLLBACK".to_string()
            }
        };
        self.put(control(text));
    }

    fn lock_tables(&mut self) {
        self.locked = !self.locked;
        let text = if self.locked {
            let how = self.dice.word(&["WRITE", "WRITE", "READ"]);
            let names = self.tables.iter().map(|t| format!("{n} {how}, {n} x READ, {n} y READ", n = t.name));
            format!("LOCK TABLES {}", names.collect::<Vec<_>>().join(", "))
        } else {
            "UNLOCK TABLES".to_string()
        };
        self.put(Step::new(Sort::Control, text));
    }

    /// HANDLER over a key, forward and back.
    fn handler(&mut self) {
        let table = self.dice.pick(&self.tables).clone();
        // InnoDB's partitions are not merged in the order of a key with a virtual column. READ k PREV
        // over them aborts the server (an assertion of InnoDB's in handler::ha_index_prev).
        let keys: Vec<_> =
            table.keys.iter().filter(|k| !k.hash && !k.ignored && table.partitions.is_none()).collect();
        let name = &table.name;
        let mut texts = vec![format!("HANDLER {name} OPEN")];
        if keys.is_empty() {
            texts.push(format!("HANDLER {name} READ FIRST"));
            texts.push(format!("HANDLER {name} READ NEXT LIMIT {}", self.dice.number(1, 5)));
        } else {
            let key = *self.dice.pick(&keys);
            let first = &key.parts[0];
            let start = self.dice.word(&["FIRST", "LAST"]);
            let searched = table.column(&first.column).map(|c| c.kind.compared(&mut self.dice));
            match searched {
                Some(value) if first.length.is_none() && self.dice.one_in(2) => {
                    let sign = self.dice.word(&["=", ">=", ">", "<=", "<"]);
                    let limit = self.dice.word(&["", "", " LIMIT 20"]);
                    texts.push(format!("HANDLER {name} READ {} {sign} ({value}){limit}", key.name));
                }
                _ => texts.push(format!("HANDLER {name} READ {} {start}", key.name)),
            }
            for _ in 0..self.dice.count(1, 3) {
                let way = self.dice.word(&["NEXT", "NEXT", "PREV"]);
                let limit = self.dice.number(1, 4);
                texts.push(format!("HANDLER {name} READ {} {way} LIMIT {limit}", key.name));
            }
        }
        texts.push(format!("HANDLER {name} CLOSE"));
        self.put_all(texts.into_iter().map(|t| Step::new(Sort::Control, t).ordered(true)));
    }

    /// Looks at all tables: rows, each key, checks, counts, definitions. CHECKSUM TABLE is left out: it
    /// includes bytes outside of a row, and InnoDB's and Aria's differ for the same rows.
    fn look(&mut self) {
        for table in self.tables.clone() {
            let name = &table.name;
            let history = if table.versioned { " FOR SYSTEM_TIME ALL" } else { "" };
            let columns = table.all_columns("");
            let mut steps = vec![
                Step::new(Sort::Query, format!("SELECT {columns} FROM {name}{history}{HINT}")),
                Step::new(Sort::Query, format!("SELECT COUNT(*) FROM {name}")),
            ];
            let leading = table.keys.iter().filter(|k| !k.hash && !k.ignored).map(|k| (&k.name, &k.parts));
            for (key, parts) in leading {
                if let Some(rows) = every_row(&mut self.dice, &table, &parts[0].column) {
                    let text = format!("SELECT {columns} FROM {name} FORCE INDEX ({key}) WHERE {rows}");
                    steps.push(Step::new(Sort::Query, text));
                    // The key's own columns: from the key alone.
                    let own = list(", ", parts.iter().map(|p| table.tagged(&p.column, &p.column)));
                    let text = format!("SELECT {own} FROM {name} FORCE INDEX ({key}) WHERE {rows}");
                    steps.push(Step::new(Sort::Query, text));
                }
            }
            if !table.links.is_empty() {
                steps.push(Step::new(Sort::Look, links_of(name)));
            }
            if !self.in_transaction && !self.locked {
                steps.push(Step::new(Sort::Look, format!("CHECK TABLE {name} EXTENDED")));
                steps.push(Step::new(Sort::Look, format!("SHOW CREATE TABLE {name}")));
            }
            let keys = table.readable_keys();
            self.put_all(steps.into_iter().map(|step| step.keys(keys.clone()).look()));
        }
        if !self.locked {
            let looks = self.texts.looks(!self.in_transaction);
            self.put_all(looks);
        }
    }
}

/// The query for a table's foreign keys in information_schema.
fn links_of(table: &str) -> String {
    format!(
        "SELECT k.constraint_name, column_name, k.referenced_table_name, referenced_column_name, delete_rule, update_rule \
         FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints r \
         ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name \
         AND r.table_name = k.table_name WHERE k.table_schema = DATABASE() AND k.table_name = '{table}' \
         ORDER BY k.constraint_name, ordinal_position"
    )
}

#[cfg(test)]
mod tests {
    use super::super::marks::plain;
    use super::*;

    fn texts(seed: u64) -> Vec<String> {
        let mut writer = Writer::new(seed, 200);
        let mut all = Vec::new();
        while let Some(step) = writer.next() {
            all.push(plain(&step.text));
            writer.answered(true);
        }
        all
    }

    #[test]
    fn a_seed_is_a_program_and_it_looks_at_the_end() {
        let program = texts(5);
        assert_eq!(program, texts(5));
        assert_ne!(program, texts(6));
        assert!(program.len() > 250);
        assert!(program[program.len() - 1].starts_with("SHOW CREATE TABLE"));
    }

    #[test]
    fn every_form_of_statement_comes_up() {
        let all: Vec<String> = (0..150).flat_map(texts).collect();
        for word in [
            "INSERT IGNORE",
            "REPLACE INTO",
            "ON DUPLICATE KEY",
            "RETURNING",
            "UPDATE IGNORE",
            "DELETE x, y",
            "JOIN",
            "GROUP BY",
            "DISTINCT",
            "UNION",
            "OVER (",
            "EXISTS (",
            "HANDLER",
            "SAVEPOINT",
            "LOCK TABLES",
            "ISOLATION LEVEL SERIALIZABLE",
            "EXECUTE",
            "TRUNCATE",
            "PARTITION BY",
            "SYSTEM VERSIONING",
            "ADD COLUMN",
            "DROP COLUMN",
            "MODIFY",
            "ADD PRIMARY KEY",
            "USING HASH",
            "VIRTUAL",
            "STORED",
            "INVISIBLE",
            "COMPRESSED",
            "FOR UPDATE",
            "LIKE",
            "FOREIGN KEY",
            "ON DELETE CASCADE",
            "ON UPDATE SET NULL",
            "DELETE IGNORE",
            "DROP FOREIGN KEY",
            "foreign_key_checks = 0",
            "FULLTEXT KEY",
            "IN BOOLEAN MODE",
        ] {
            assert!(all.iter().any(|t| t.contains(word)), "no statement with {word}");
        }
    }
}
