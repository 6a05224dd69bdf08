//! The advice as text, as JSON, and as statements.

use serde_json::{json, Value};

use super::facts::Facts;
use super::family;
use super::summary::{self, megabytes};
use super::table::{Sort, State, Table, Verdict};
use crate::cli::Direction;
use crate::moment;
use crate::output::{Failure, Out};

/// Judged tables.
pub struct Report {
    facts: Facts,
    /// By name.
    tables: Vec<(Table, Verdict)>,
    /// Families to convert, smallest first, each by the places of its tables in `tables`, smallest first.
    order: Vec<Vec<usize>>,
    /// Megabytes a second.
    rate: u64,
}

/// For names with other letters than ASCII: the client's character set may be another.
const SET_NAMES: &str = "SET NAMES utf8mb4;";

/// After the summary.
const MORE: &str = "-- --full lists every table with its size, what would free each that cannot, and all statements; --sql prints the \
                    statements, --sql=back the way back, --dump a script for a move by dump";

impl Report {
    pub fn new(facts: Facts, tables: Vec<Table>, rate: u64) -> Report {
        let tables = family::judged(tables, &facts);
        let mut order = family::families(&tables);
        for members in &mut order {
            members.retain(|at| tables[*at].1.state == State::Can);
            members.sort_by_key(|at| (tables[*at].0.bytes, *at));
        }
        order.retain(|members| !members.is_empty());
        // An interruption after the small ones leaves little to do again; the large ones come when it is known to work.
        order.sort_by_key(|members| {
            (members.iter().map(|at| tables[*at].0.bytes).sum::<u64>(), members.first().copied())
        });
        Report { facts, tables, order, rate }
    }

    fn seconds(&self, bytes: u64) -> u64 {
        megabytes(bytes).div_ceil(self.rate)
    }

    fn ordered(&self) -> impl Iterator<Item = &Table> {
        self.order.iter().flatten().map(|at| &self.tables[*at].0)
    }

    fn has_keys(&self) -> bool {
        self.ordered().any(|table| !table.foreign_keys.is_empty())
    }

    /// Notes on the room and the time of the statements; none without statements.
    fn disk_and_time(&self) -> Vec<String> {
        if self.order.is_empty() {
            return Vec::new();
        }
        let facts = &self.facts;
        let mut notes = Vec::new();
        let largest = self.ordered().map(|table| table.bytes).max().unwrap_or(0);
        // Keys that are added read the table once more, and look each row up.
        let passes = |table: &Table| if table.foreign_keys.is_empty() { 1 } else { 2 };
        let all: u64 = self.ordered().map(|table| table.bytes * passes(table)).sum();
        let free = match facts.free {
            Some(free) => format!("{} MB are free now", megabytes(free)),
            None => "free space was not read: this program is not on the server's machine".into(),
        };
        notes.push(format!(
            "disk: a table and its copy are there together, so up to {} MB more for a while; {free}",
            megabytes(largest)
        ));
        if facts.free.is_some_and(|free| free < largest) {
            notes.push("there is not enough disk for the largest table: make room first".into());
        }
        notes.push(format!(
            "time: about {} for all, at {} MB a second (--rate); {}",
            moment::length(self.seconds(all)),
            self.rate,
            match facts.copies_online() {
                true => "most tables take writes meanwhile",
                false => "a table takes no writes meanwhile",
            }
        ));
        notes
    }

    /// Notes on the server as a whole.
    fn notes(&self) -> Vec<String> {
        let facts = &self.facts;
        let mut notes = Vec::new();
        if !facts.has_engine {
            notes.push(
                "the plugin is not loaded: INSTALL SONAME 'ha_tidesdb', or plugin_load_add=ha_tidesdb in an option file, \
                 before the statements"
                    .into(),
            );
        }
        if !facts.refuses_unknown_engines {
            notes.push(
                "sql_mode lacks NO_ENGINE_SUBSTITUTION: without the plugin this server makes tables of another engine from \
                 ENGINE=TidesDB, with a warning alone. The statements set the mode for themselves"
                    .into(),
            );
        }
        notes.extend(self.disk_and_time());
        if self.has_keys() {
            notes.push(
                "foreign keys are dropped, and added again when all tables they link are converted: stop writers of these \
                 tables meanwhile, and keep the statements (--sql > FILE). A run that stops in between is finished by the \
                 rest of that file: the keys are in no table then"
                    .into(),
            );
        }
        if facts.binary_log {
            notes.push(
                "the binary log is on: replicas run the statements too. Install the plugin there first, or convert each \
                 server by itself after SET SESSION sql_log_bin=0"
                    .into(),
            );
        }
        if facts.is_replica == Some(true) && !facts.gtid_pos_engines.to_ascii_lowercase().contains("tidesdb")
        {
            notes.push(
                "this server is a replica: SET GLOBAL gtid_pos_auto_engines='innodb,tidesdb' keeps its position in the \
                 engine of the rows, and saves a sync between two engines for each transaction"
                    .into(),
            );
        }
        notes.push(
            "a backup before it: mariadb-backup does not copy TidesDB tables afterwards (tidesdb-admin backup take \
             copies both)"
                .into(),
        );
        if let Some(why) = &facts.unread_keys {
            notes.push(format!(
                "foreign keys that tidesdb_foreign_keys=WARN dropped are not in this list; reading them takes the PROCESS \
                 privilege: {why}"
            ));
        }
        if let Some(why) = &facts.unread_sizes {
            notes.push(format!(
                "sizes of InnoDB's tables are the server's estimates, and may be old; those of the files take the PROCESS \
                 privilege: {why}"
            ));
        }
        notes.push("tables that the user may not see are not in this list".into());
        notes.push(format!(
            "the {} tables of mysql, sys and performance_schema keep their engines; temporary tables end with their sessions",
            facts.system_tables
        ));
        notes
    }

    /// The statements, in order.
    fn statements(&self, direction: Direction) -> Vec<String> {
        // Going back, the last that was converted is the first.
        let mut families: Vec<Vec<&Table>> =
            self.order.iter().map(|family| family.iter().map(|at| &self.tables[*at].0).collect()).collect();
        if matches!(direction, Direction::Back) {
            families.reverse();
            families.iter_mut().for_each(|family| family.reverse());
        }
        let tables: Vec<&Table> = families.iter().flatten().copied().collect();
        let mut statements = Vec::new();
        if tables.is_empty() {
            return statements;
        }
        if !tables.iter().all(|table| table.schema.is_ascii() && table.name.is_ascii()) {
            statements.push(SET_NAMES.into());
        }
        if !self.facts.refuses_unknown_engines {
            statements
                .push("SET SESSION sql_mode=CONCAT(@@sql_mode, ',NO_ENGINE_SUBSTITUTION');".to_string());
        }
        if tables.iter().any(|table| table.sort == Sort::Versioned) {
            statements.push("SET SESSION system_versioning_alter_history=KEEP;".to_string());
        }
        for family in &families {
            statements.extend(family::statements(family, |table| match direction {
                Direction::Forth => table.forth(),
                Direction::Back => table.back(),
            }));
        }
        statements
    }

    /// Statements to add dropped foreign keys.
    fn additions(&self) -> Vec<String> {
        let tables = self.tables.iter().map(|(table, _)| table);
        let mut additions: Vec<String> = tables
            .flat_map(|table| table.dropped_keys.iter().filter_map(|key| table.adds(key).ok()))
            .collect();
        if !additions.is_empty() {
            let mut settings = vec!["SET SESSION tidesdb_foreign_keys='ENFORCE';".to_string()];
            if !additions.iter().all(|statement| statement.is_ascii()) {
                settings.insert(0, SET_NAMES.into());
            }
            additions.splice(0..0, settings);
        }
        additions
    }

    /// The statements alone.
    pub fn sql(&self, direction: Direction, out: &mut Out<'_>) -> Result<(), Failure> {
        let statements = self.statements(direction);
        out.document(&json!(statements))?;
        statements.iter().try_for_each(|statement| out.line(statement))
    }

    fn table_json(&self, table: &Table, verdict: &Verdict) -> Value {
        let against: Vec<_> = verdict
            .against
            .iter()
            .zip(&verdict.takes)
            .map(|(what, takes)| json!({ "what": what, "takes": takes }))
            .collect();
        json!({
            "database": table.schema,
            "table": table.name,
            "kind": match table.sort {
                Sort::Table => "table",
                Sort::Versioned => "system versioned table",
                Sort::Sequence => "sequence",
                Sort::View => "view",
            },
            "engine": table.engine,
            "verdict": match verdict.state {
                State::Already => "already",
                State::Can => "can",
                State::Cannot => "cannot",
                State::View => "view",
            },
            "against": against,
            "notes": verdict.notes,
            "rows": table.rows,
            "bytes": table.bytes,
            "seconds": self.seconds(table.bytes),
        })
    }

    /// The report; with the tables as a dump would move them, its summary.
    pub fn print(&self, summary: Option<&Vec<(Table, Verdict)>>, out: &mut Out<'_>) -> Result<(), Failure> {
        out.line(format_args!("server: {}, data in {}", self.facts.version, self.facts.data_directory))?;
        let notes = self.notes();
        match summary {
            Some(by_dump) => {
                for line in summary::lines(&self.tables, by_dump) {
                    out.line(line)?;
                }
                out.line("")?;
                for note in &notes {
                    out.line(format_args!("-- {note}"))?;
                }
                out.line(MORE)?;
            }
            None => self.print_tables(&notes, out)?,
        }
        self.print_additions(out)?;
        self.print_json(&notes, out)
    }

    /// Every table, and the statements.
    fn print_tables(&self, notes: &[String], out: &mut Out<'_>) -> Result<(), Failure> {
        for (table, verdict) in &self.tables {
            let engine = match (&table.engine, table.sort) {
                (_, Sort::View) => String::new(),
                (Some(engine), _) => {
                    format!(" ({engine}, {} rows, {} MB)", table.rows, megabytes(table.bytes))
                }
                (None, _) => " (no engine)".into(),
            };
            out.line(format_args!("{}{engine} {}", table.quoted(), verdict.state.name()))?;
            for (what, takes) in verdict.against.iter().zip(&verdict.takes) {
                out.line(format_args!("  against it: {what}"))?;
                out.line(format_args!("  it takes: {takes}"))?;
            }
            for note in &verdict.notes {
                out.line(format_args!("  note: {note}"))?;
            }
        }
        out.line("")?;
        for note in notes {
            out.line(format_args!("-- {note}"))?;
        }
        let (forth, back) = (self.statements(Direction::Forth), self.statements(Direction::Back));
        for (head, statements) in
            [("the statements, smallest table or family first", &forth), ("the way back", &back)]
        {
            out.line(format_args!("\n-- {head}:"))?;
            if statements.is_empty() {
                out.line("-- none")?;
            }
            statements.iter().try_for_each(|statement| out.line(statement))?;
        }
        Ok(())
    }

    fn print_additions(&self, out: &mut Out<'_>) -> Result<(), Failure> {
        let additions = self.additions();
        if !additions.is_empty() {
            out.line(
                "\n-- foreign keys that were dropped, when the tables they link are TidesDB; 1452 tells that a row has no parent:",
            )?;
            additions.iter().try_for_each(|statement| out.line(statement))?;
        }
        Ok(())
    }

    fn print_json(&self, notes: &[String], out: &mut Out<'_>) -> Result<(), Failure> {
        let (forth, back) = (self.statements(Direction::Forth), self.statements(Direction::Back));
        let tables: Vec<_> =
            self.tables.iter().map(|(table, verdict)| self.table_json(table, verdict)).collect();
        out.document(&json!({
            "server": {
                "version": self.facts.version,
                "data_directory": self.facts.data_directory,
                "plugin_is_loaded": self.facts.has_engine,
                "free_bytes": self.facts.free,
                "binary_log": self.facts.binary_log,
                "is_replica": self.facts.is_replica,
            },
            "tables": tables,
            "notes": notes,
            "statements": forth,
            "statements_back": back,
            "statements_for_dropped_keys": self.additions(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::{key_to, table};
    use super::super::table::ForeignKey;
    use super::*;

    fn report(facts: Facts, tables: Vec<Table>) -> Report {
        Report::new(facts, tables, 20)
    }

    fn sized(name: &str, bytes: u64) -> Table {
        table(|table| (table.name, table.bytes) = (name.into(), bytes))
    }

    #[test]
    fn small_tables_come_first_and_go_back_last() {
        let facts = Facts { refuses_unknown_engines: true, ..Facts::default() };
        let done = table(|table| table.engine = Some("TidesDB".into()));
        let report = report(facts, vec![sized("large", 300), sized("small", 1), done, sized("middle", 20)]);
        let to = |name: &str, engine: &str| format!("ALTER TABLE `shop`.`{name}` ENGINE={engine};");
        let forth = ["small", "middle", "large"].map(|name| to(name, "TidesDB"));
        let back = ["large", "middle", "small"].map(|name| to(name, "InnoDB"));
        assert_eq!(report.statements(Direction::Forth), forth);
        assert_eq!(report.statements(Direction::Back), back);
    }

    #[test]
    fn a_family_is_one_step_by_the_size_of_all() {
        let facts = Facts { refuses_unknown_engines: true, ..Facts::default() };
        let child = table(|table| {
            (table.name, table.bytes, table.foreign_keys) = ("child".into(), 1, vec![key_to("parent")]);
        });
        let report =
            report(facts, vec![child, sized("middle", 200), sized("parent", 300), sized("small", 2)]);
        let starts = |direction| -> Vec<String> {
            let statements = report.statements(direction);
            statements
                .iter()
                .map(|text| text.split(' ').skip(2).take(2).collect::<Vec<_>>().join(" "))
                .collect()
        };
        let of = |name: &str, what: &str| format!("`shop`.`{name}` {what}");
        let (forth, back) = ("ENGINE=TidesDB;", "ENGINE=InnoDB;");
        assert_eq!(
            starts(Direction::Forth),
            [
                of("small", forth),
                of("middle", forth),
                of("child", "DROP"),
                of("child", forth),
                of("parent", forth),
                of("child", "ADD"),
            ]
        );
        assert_eq!(
            starts(Direction::Back),
            [
                of("child", "DROP"),
                of("parent", back),
                of("child", back),
                of("child", "ADD"),
                of("middle", back),
                of("small", back),
            ]
        );
        assert!(report.notes().iter().any(|note| note.contains("keep the statements")));
    }

    #[test]
    fn dropped_keys_are_added_by_statements_of_their_own() {
        let ready = table(|table| {
            (table.name, table.engine) = ("größe".into(), Some("TidesDB".into()));
            let lost = ForeignKey { name: "lost".into(), columns: Vec::new(), ..key_to("p") };
            let other = ForeignKey { name: "other".into(), on_update: "SET DEFAULT".into(), ..key_to("p") };
            table.dropped_keys = vec![key_to("p"), lost, other];
        });
        let report = report(Facts::default(), vec![ready]);
        assert!(report.statements(Direction::Forth).is_empty());
        assert_eq!(
            report.additions(),
            [
                "SET NAMES utf8mb4;",
                "SET SESSION tidesdb_foreign_keys='ENFORCE';",
                "ALTER TABLE `shop`.`größe` ADD CONSTRAINT `to_p` FOREIGN KEY (`a`, `b`) REFERENCES `shop`.`p` (`x`, `y`) \
                 ON DELETE RESTRICT ON UPDATE CASCADE;",
            ]
        );
        let notes = &report.tables[0].1.notes;
        for (note, part) in
            notes.iter().zip(["`to_p` to `shop`.`p` was", "a column of it is gone", "SET DEFAULT"])
        {
            assert!(note.contains(part), "{note}");
        }
        assert_eq!(notes.len(), 3);
    }

    #[test]
    fn settings_come_before_the_statements_that_need_them() {
        let versioned = table(|table| {
            (table.name, table.sort, table.engine) = ("größe".into(), Sort::Versioned, Some("Aria".into()));
        });
        let statements = report(Facts::default(), vec![versioned]).statements(Direction::Forth);
        let starts =
            ["SET NAMES utf8mb4;", "SET SESSION sql_mode=", "SET SESSION system_versioning", "ALTER "];
        assert_eq!(statements.len(), starts.len());
        for (statement, start) in statements.iter().zip(starts) {
            assert!(statement.starts_with(start), "{statement}");
        }
        // Nothing to convert, nothing to set.
        assert!(report(Facts::default(), Vec::new()).statements(Direction::Forth).is_empty());
    }
}
