//! A table of a server, and whether it can become TidesDB. The rules are those of `docs/tables.md`.

use super::facts::Facts;

/// The parser that TidesDB takes.
const PARSER: &str = "ngram";

/// The kind of a name in information_schema.TABLES.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Table,
    /// WITH SYSTEM VERSIONING.
    Versioned,
    Sequence,
    View,
}

/// A foreign key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    pub name: String,
    pub columns: Vec<String>,
    pub parent_schema: String,
    pub parent: String,
    pub parent_columns: Vec<String>,
    pub on_update: String,
    pub on_delete: String,
}

impl ForeignKey {
    /// The statement's part to make it again.
    pub fn definition(&self) -> String {
        let list = |names: &[String]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
        format!(
            "ADD CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {}.{} ({}) ON DELETE {} ON UPDATE {}",
            quoted(&self.name),
            list(&self.columns),
            quoted(&self.parent_schema),
            quoted(&self.parent),
            list(&self.parent_columns),
            self.on_delete,
            self.on_update
        )
    }
}

/// A table as information_schema shows it.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub schema: String,
    pub name: String,
    pub sort: Sort,
    /// None: the server cannot open it.
    pub engine: Option<String>,
    /// The server's message about it, where it cannot open it.
    pub comment: String,
    pub row_format: String,
    pub options: String,
    pub rows: u64,
    /// Bytes of rows and indexes.
    pub bytes: u64,
    pub partitions: u64,
    /// Indexes by name, with their kinds (BTREE, HASH, FULLTEXT, ...).
    pub indexes: Vec<(String, String)>,
    /// FULLTEXT indexes WITH PARSER, with the parsers' names.
    pub parsers: Vec<(String, String)>,
    /// Foreign keys of the table.
    pub foreign_keys: Vec<ForeignKey>,
    /// Foreign keys dropped by `tidesdb_foreign_keys=WARN`.
    pub dropped_keys: Vec<ForeignKey>,
    /// Tables whose foreign keys refer to it, with the keys' names.
    pub referred_by: Vec<(String, String)>,
    /// MERGE tables with this one as a part.
    pub merged_in: Vec<String>,
    /// History by transaction id.
    pub by_transaction_id: bool,
    /// DATA DIRECTORY or INDEX DIRECTORY.
    pub has_directory: bool,
    /// The AUTO_INCREMENT column begins no index.
    pub counter_begins_no_index: bool,
}

/// A judgement in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is TidesDB.
    Already,
    /// The statement converts it.
    Can,
    /// Something stands against it.
    Cannot,
    /// It has no rows of its own.
    View,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Already => "is TidesDB",
            State::Can => "can become TidesDB",
            State::Cannot => "cannot become TidesDB as it is",
            State::View => "is a view and follows its tables",
        }
    }
}

/// A judgement.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub state: State,
    /// Obstacles to it.
    pub against: Vec<String>,
    /// Remedies of the obstacles, in the order of `against`.
    pub takes: Vec<String>,
    /// Changes with the engine.
    pub notes: Vec<String>,
}

/// Engines whose tables hold their rows in this server.
const WITH_ROWS: [&str; 7] = ["InnoDB", "MyISAM", "Aria", "ROCKSDB", "MEMORY", "ARCHIVE", "CSV"];

pub use crate::connection::quoted;

impl Table {
    /// `schema`.`name` for a statement.
    pub fn quoted(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    /// The statement to convert it.
    pub fn forth(&self) -> String {
        format!("ALTER TABLE {} ENGINE=TidesDB;", self.quoted())
    }

    /// The statement to convert it back.
    pub fn back(&self) -> String {
        let engine = self.engine.as_deref().unwrap_or("InnoDB");
        format!("ALTER TABLE {} ENGINE={engine};", self.quoted())
    }

    fn has_option(&self, name: &str) -> bool {
        let options = self.options.to_ascii_uppercase().replace(['`', '\'', '"'], "");
        options.split(' ').any(|option| option.starts_with(name))
    }

    /// True if its rows are encrypted on disk.
    fn is_encrypted(&self, facts: &Facts) -> bool {
        let by_default = match self.engine.as_deref() {
            Some("InnoDB") => facts.encrypts_tables,
            Some("Aria") => facts.encrypts_aria,
            _ => false,
        };
        !self.has_option("ENCRYPTED=NO") && (by_default || self.has_option("ENCRYPTED=YES"))
    }

    /// The verdict on its conversion to TidesDB.
    pub fn judge(&self, facts: &Facts) -> Verdict {
        let mut verdict =
            Verdict { state: State::Can, against: Vec::new(), takes: Vec::new(), notes: Vec::new() };
        if self.sort == Sort::View {
            verdict.state = State::View;
            return verdict;
        }
        if self.engine.as_deref().is_some_and(|engine| engine.eq_ignore_ascii_case("TidesDB")) {
            verdict.state = State::Already;
            self.note_dropped_keys(&mut verdict.notes);
            return verdict;
        }
        let mut against = |what: String, takes: String| {
            verdict.against.push(what);
            verdict.takes.push(takes);
        };
        self.judge_engine(&mut against);
        self.judge_keys(&mut against);
        self.judge_rest(facts, &mut against);
        if !verdict.against.is_empty() {
            verdict.state = State::Cannot;
            return verdict;
        }
        self.note(&mut verdict.notes);
        verdict
    }

    /// The statement to add a dropped key, or the reason for none.
    pub fn adds(&self, key: &ForeignKey) -> Result<String, &'static str> {
        if key.columns.is_empty() {
            return Err("its definition is lost: a column of it is gone");
        }
        if [&key.on_delete, &key.on_update].iter().any(|rule| *rule == "SET DEFAULT") {
            return Err("TidesDB has no SET DEFAULT: it takes another action");
        }
        Ok(format!("ALTER TABLE {} {};", self.quoted(), key.definition()))
    }

    fn note_dropped_keys(&self, notes: &mut Vec<String>) {
        for key in &self.dropped_keys {
            let parent = format!("{}.{}", quoted(&key.parent_schema), quoted(&key.parent));
            let why = self.adds(key).err().map_or(String::new(), |why| format!("; {why}"));
            notes.push(format!(
                "foreign key {} to {parent} was dropped (tidesdb_foreign_keys=WARN), and nothing checks it{why}",
                quoted(&key.name)
            ));
        }
    }

    fn judge_engine(&self, against: &mut dyn FnMut(String, String)) {
        match self.engine.as_deref() {
            None => against(
                format!("the server cannot open it: {}", self.comment),
                "repair it, or install its engine".into(),
            ),
            Some(engine) if !WITH_ROWS.iter().any(|known| known.eq_ignore_ascii_case(engine)) => against(
                format!("engine {engine} keeps its rows elsewhere, or is made for one purpose"),
                "a new table with ENGINE=TidesDB, filled by INSERT ... SELECT, if its rows are to be here"
                    .into(),
            ),
            Some(_) => {}
        }
    }

    fn judge_keys(&self, against: &mut dyn FnMut(String, String)) {
        for (name, kind) in &self.indexes {
            if ["SPATIAL", "RTREE", "VECTOR"].contains(&kind.as_str()) {
                against(
                    format!("{kind} index {}", quoted(name)),
                    format!(
                        "ALTER TABLE {} DROP INDEX {}; and no more searches through it",
                        self.quoted(),
                        quoted(name)
                    ),
                );
            }
        }
        for (name, parser) in self.parsers.iter().filter(|(_, parser)| parser != PARSER) {
            against(
                format!("FULLTEXT index {} WITH PARSER {}", quoted(name), quoted(parser)),
                format!(
                    "ALTER TABLE {} DROP INDEX {}; and the same index without a parser, with TidesDB's own words",
                    self.quoted(),
                    quoted(name)
                ),
            );
        }
        for key in &self.foreign_keys {
            if [&key.on_delete, &key.on_update].iter().all(|rule| *rule != "SET DEFAULT") {
                continue;
            }
            against(
                format!(
                    "foreign key {} to {}.{} with SET DEFAULT",
                    quoted(&key.name),
                    quoted(&key.parent_schema),
                    quoted(&key.parent)
                ),
                format!(
                    "ALTER TABLE {} DROP FOREIGN KEY {}; and the same key with another action, or none",
                    self.quoted(),
                    quoted(&key.name)
                ),
            );
        }
        for merge in &self.merged_in {
            against(
                format!("the MERGE table {merge} reads it, and takes MyISAM alone"),
                format!(
                    "DROP TABLE {merge}, which has no rows of its own; a view with UNION ALL in its place"
                ),
            );
        }
        if self.counter_begins_no_index {
            against(
                "its AUTO_INCREMENT column begins no index, so that numbers are counted within a prefix"
                    .into(),
                "an index that begins with the column; numbers are then counted over the whole table".into(),
            );
        }
    }

    fn judge_rest(&self, facts: &Facts, against: &mut dyn FnMut(String, String)) {
        if self.by_transaction_id {
            against(
                "system versioning by transaction id".into(),
                "a new table with ENGINE=TidesDB, its row start and row end of the type TIMESTAMP(6), filled by INSERT ... \
                 SELECT: rows of the past have no times to take along"
                    .into(),
            );
        }
        let is_innodb = self.engine.as_deref().is_some_and(|engine| engine.eq_ignore_ascii_case("InnoDB"));
        if self.sort == Sort::Versioned && is_innodb && !self.by_transaction_id && !facts.by_dump {
            let name = self.quoted();
            against(
                "system versioning in InnoDB, whose engine the server does not let ALTER TABLE change".into(),
                format!(
                    "a new table with ENGINE=TidesDB WITH SYSTEM VERSIONING, filled with its history: SET SESSION \
                     system_versioning_insert_history=ON, then INSERT ... SELECT columns, row_start, row_end FROM {name} \
                     FOR SYSTEM_TIME ALL. Or a move by dump, with its history (--dump). Or ALTER TABLE {name} DROP \
                     SYSTEM VERSIONING; and no more history"
                ),
            );
        }
        if self.has_directory {
            against(
                "DATA DIRECTORY or INDEX DIRECTORY".into(),
                "a table without them; the store's place is tidesdb_data_home_dir".into(),
            );
        }
        if self.is_encrypted(facts) {
            against(
                "its rows are encrypted on disk, and TidesDB does not encrypt".into(),
                format!(
                    "an encrypted file system for the store, and ALTER TABLE {} ENCRYPTED=NO;",
                    self.quoted()
                ),
            );
        }
        if facts.galera {
            against(
                "the server is a Galera node, and Galera replicates InnoDB alone".into(),
                "a server outside of the cluster".into(),
            );
        }
    }

    fn note(&self, notes: &mut Vec<String>) {
        if self.has_option("PAGE_COMPRESSED") || self.row_format.eq_ignore_ascii_case("COMPRESSED") {
            notes.push(
                "its page compression has no effect; TidesDB compresses every table (COMPRESSION='ZSTD' is the densest)"
                    .into(),
            );
        } else if self.has_option("ROW_FORMAT=") || self.has_option("KEY_BLOCK_SIZE=") {
            notes.push("ROW_FORMAT and KEY_BLOCK_SIZE have no effect".into());
        }
        if self.partitions > 0 {
            notes.push(format!(
                "all of its {} partitions are converted by the one statement",
                self.partitions
            ));
        }
        match self.engine.as_deref() {
            Some("MyISAM" | "Aria" | "ARCHIVE" | "CSV") => {
                notes.push("it becomes transactional: statements take row locks, not a table lock".into());
            }
            Some(engine) if engine.eq_ignore_ascii_case("ROCKSDB") => notes.push(
                "comments that MyRocks reads have no effect: TTL=seconds and COMPRESSION='...' take their place".into(),
            ),
            Some("MEMORY") => notes.push("its rows will survive a restart, and each change is logged".into()),
            _ => {}
        }
        if self.indexes.iter().any(|(_, kind)| kind == "FULLTEXT") {
            notes.push(
                "its full text has other scores, and words of tidesdb_fts_min_word_len characters and more"
                    .into(),
            );
        }
        let has_primary = self.indexes.iter().any(|(name, _)| name == "PRIMARY");
        if !has_primary && self.sort != Sort::Sequence {
            notes.push("without a primary key replicas find changed rows by reading the table".into());
        }
        if self.sort == Sort::Versioned {
            notes.push(
                "its history is kept; the statement needs SET system_versioning_alter_history=KEEP (it is among the statements)"
                    .into(),
            );
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A plain table of InnoDB with a primary key.
    pub fn table(change: impl FnOnce(&mut Table)) -> Table {
        let mut table = Table {
            schema: "shop".into(),
            name: "it`em".into(),
            engine: Some("InnoDB".into()),
            row_format: "Dynamic".into(),
            rows: 10,
            bytes: 1000,
            indexes: vec![("PRIMARY".into(), "BTREE".into())],
            ..Table::default()
        };
        change(&mut table);
        table
    }

    /// A key of two columns to a table of the same database.
    pub fn key_to(parent: &str) -> ForeignKey {
        ForeignKey {
            name: format!("to_{parent}"),
            columns: vec!["a".into(), "b".into()],
            parent_schema: "shop".into(),
            parent: parent.into(),
            parent_columns: vec!["x".into(), "y".into()],
            on_update: "CASCADE".into(),
            on_delete: "RESTRICT".into(),
        }
    }

    #[test]
    fn a_plain_table_can_and_goes_back() {
        let plain = table(|_| ());
        let verdict = plain.judge(&Facts::default());
        assert_eq!((verdict.state, verdict.notes.len()), (State::Can, 0), "{verdict:?}");
        assert_eq!(plain.forth(), "ALTER TABLE `shop`.`it``em` ENGINE=TidesDB;");
        assert_eq!(plain.back(), "ALTER TABLE `shop`.`it``em` ENGINE=InnoDB;");
    }

    /// Facts, a change of a plain table, and parts of its obstacles and of their remedies.
    type Case<'a> = (&'a Facts, Box<dyn FnOnce(&mut Table)>, &'a str, &'a str);

    #[test]
    fn each_hindrance_is_named_with_what_it_takes() {
        let key = ForeignKey { on_delete: "SET DEFAULT".into(), ..key_to("p") };
        let encrypted = Facts { encrypts_tables: true, ..Facts::default() };
        let galera = Facts { galera: true, ..Facts::default() };
        let plain = Facts::default();
        let cases: [Case<'_>; 13] = [
            (
                &plain,
                Box::new(|t: &mut Table| t.indexes.push(("place".into(), "SPATIAL".into()))),
                "SPATIAL index `place`",
                "DROP INDEX `place`",
            ),
            (
                &plain,
                Box::new(|t: &mut Table| t.parsers.push(("words".into(), "mecab".into()))),
                "FULLTEXT index `words` WITH PARSER `mecab`",
                "DROP INDEX `words`",
            ),
            (
                &plain,
                Box::new(|t: &mut Table| t.foreign_keys.push(key)),
                "foreign key `to_p` to `shop`.`p` with SET DEFAULT",
                "DROP FOREIGN KEY `to_p`",
            ),
            (
                &plain,
                Box::new(|t: &mut Table| t.merged_in.push("`shop`.`u`".into())),
                "MERGE table `shop`.`u`",
                "DROP TABLE `shop`.`u`",
            ),
            (
                &plain,
                Box::new(|t: &mut Table| t.engine = Some("SPIDER".into())),
                "SPIDER",
                "INSERT ... SELECT",
            ),
            (&plain, Box::new(|t: &mut Table| t.engine = None), "cannot open", "repair"),
            (&plain, Box::new(|t: &mut Table| t.by_transaction_id = true), "transaction id", "TIMESTAMP(6)"),
            (
                &plain,
                Box::new(|t: &mut Table| t.sort = Sort::Versioned),
                "versioning in InnoDB",
                "row_start, row_end",
            ),
            (&plain, Box::new(|t: &mut Table| t.has_directory = true), "DIRECTORY", "tidesdb_data_home_dir"),
            (&plain, Box::new(|t: &mut Table| t.counter_begins_no_index = true), "AUTO_INCREMENT", "index"),
            (
                &plain,
                Box::new(|t: &mut Table| t.options = "`ENCRYPTED`='yes' row_format=DYNAMIC".into()),
                "encrypted",
                "ENCRYPTED=NO",
            ),
            (&encrypted, Box::new(|_: &mut Table| ()), "encrypted", "encrypted file system"),
            (&galera, Box::new(|_: &mut Table| ()), "Galera", "outside"),
        ];
        for (facts, change, against, takes) in cases {
            let verdict = table(change).judge(facts);
            assert_eq!(verdict.state, State::Cannot, "{verdict:?}");
            assert!(verdict.against[0].contains(against), "{verdict:?}");
            assert!(verdict.takes[0].contains(takes), "{verdict:?}");
        }
        let not = table(|t| t.options = "ENCRYPTED=NO".into());
        assert_eq!(not.judge(&encrypted).state, State::Can);
    }

    #[test]
    fn what_changes_with_the_engine_is_noted() {
        let notes = |change: fn(&mut Table)| table(change).judge(&Facts::default()).notes.join("; ");
        assert!(notes(|t| t.row_format = "Compressed".into()).contains("COMPRESSION="));
        assert!(notes(|t| t.options = "row_format=DYNAMIC".into()).contains("ROW_FORMAT"));
        assert!(notes(|t| t.partitions = 3).contains("3 partitions"));
        assert!(notes(|t| t.engine = Some("MyISAM".into())).contains("transactional"));
        assert!(notes(|t| t.indexes.clear()).contains("primary key"));
        assert!(notes(|t| t.engine = Some("ROCKSDB".into())).contains("TTL=seconds"));
        let old = |t: &mut Table| (t.sort, t.engine) = (Sort::Versioned, Some("Aria".into()));
        assert!(notes(old).contains("KEEP"));
        assert_eq!(table(|t| t.sort = Sort::View).judge(&Facts::default()).state, State::View);
        assert_eq!(
            table(|t| t.engine = Some("TidesDB".into())).judge(&Facts::default()).state,
            State::Already
        );
    }
}
