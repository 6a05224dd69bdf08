//! Queries of the adviser on a server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tidesdb::internal::io::RealDisk;

use super::facts::Facts;
use super::table::{quoted, ForeignKey, Sort, Table};
use crate::cli::Advise;
use crate::connection::Connection;
use crate::output::Failure;

/// Databases of the server itself.
pub const SYSTEM: [&str; 4] = ["mysql", "sys", "information_schema", "performance_schema"];

/// A connection. Nothing but SELECT and SHOW goes through it.
pub struct Server {
    connection: Connection,
    /// The server runs on this machine.
    is_here: bool,
}

type Columns = Vec<String>;

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// A name as information_schema's tables have it: database and table.
type Name = (String, String);

/// Foreign keys dropped by `tidesdb_foreign_keys=WARN`. The view takes the PROCESS privilege.
const DROPPED_KEYS: &str = "SELECT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, COLUMNS, REFERENCED_TABLE_SCHEMA, \
     REFERENCED_TABLE_NAME, REFERENCED_COLUMNS, UPDATE_RULE, DELETE_RULE FROM information_schema.TIDESDB_FOREIGN_KEYS \
     WHERE STATE = 'DROPPED' ORDER BY TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME";

/// Foreign keys by table and name.
type ForeignKeys = BTreeMap<(Name, String), ForeignKey>;

/// Takes the next two columns as a name.
fn name_of(columns: &[String]) -> Name {
    (columns[0].clone(), columns[1].clone())
}

impl Server {
    /// Connects as the options say.
    pub fn connect(options: &Advise) -> Result<Server, Failure> {
        let address = options.server.address();
        let is_here = address.local()?.is_some();
        Ok(Server { connection: Connection::open(&address)?, is_here })
    }

    fn rows(&mut self, statement: &str) -> Result<Vec<Columns>, Failure> {
        self.connection.rows(statement)
    }

    /// Reads the facts relevant to all tables.
    pub fn facts(&mut self) -> Result<Facts, Failure> {
        let variables: BTreeMap<String, String> = self
            .rows(
                "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'datadir', 'log_bin', \
                 'gtid_pos_auto_engines', 'innodb_encrypt_tables', 'aria_encrypt_tables', 'wsrep_on', 'sql_mode', 'tidesdb_data_home_dir')",
            )?
            .into_iter()
            .map(|row| (row[0].to_ascii_lowercase(), row[1].clone()))
            .collect();
        let of = |name: &str| variables.get(name).cloned().unwrap_or_default();
        let engines = self.rows(
            "SELECT ENGINE FROM information_schema.ENGINES WHERE ENGINE = 'TidesDB' AND SUPPORT IN ('YES', 'DEFAULT')",
        )?;
        // Not everybody may ask.
        let is_replica = self.rows("SHOW ALL SLAVES STATUS").ok().map(|rows| !rows.is_empty());
        let system = self.rows(
            "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ('mysql', 'sys', \
             'performance_schema') AND TABLE_TYPE <> 'VIEW'",
        )?;
        let home = match of("tidesdb_data_home_dir") {
            home if home.is_empty() => of("datadir"),
            // A name without a directory is one in the data directory.
            home => Path::new(&of("datadir")).join(home).to_string_lossy().into_owned(),
        };
        // A path on this machine is the server's only when it comes by a socket.
        let is_here = self.is_here && Path::new(&home).is_dir();
        let free = is_here.then(|| RealDisk::shared().free_space(Path::new(&home)).ok()).flatten();
        let is_on = |name: &str| matches!(of(name).as_str(), "ON" | "FORCE" | "1");
        Ok(Facts {
            version: of("version"),
            has_engine: !engines.is_empty(),
            data_directory: of("datadir"),
            free,
            binary_log: is_on("log_bin"),
            is_replica,
            gtid_pos_engines: of("gtid_pos_auto_engines"),
            encrypts_tables: is_on("innodb_encrypt_tables"),
            encrypts_aria: is_on("aria_encrypt_tables"),
            galera: is_on("wsrep_on"),
            refuses_unknown_engines: of("sql_mode").contains("NO_ENGINE_SUBSTITUTION"),
            system_tables: system.first().map_or(0, |row| number(&row[0])),
            by_dump: false,
            unread_sizes: None,
            unread_keys: None,
        })
    }

    /// Reads the tables of the databases, of all but the server's own where none is named.
    pub fn tables(&mut self, facts: &Facts, databases: &[String]) -> Result<Vec<Table>, Failure> {
        for name in databases {
            if SYSTEM.iter().any(|system| system.eq_ignore_ascii_case(name)) {
                let what = format!("{name} is the server's own database: its tables keep their engine");
                return Err(Failure::Other(what));
            }
        }
        let wanted = |schema: &str| {
            !SYSTEM.iter().any(|system| system.eq_ignore_ascii_case(schema))
                && (databases.is_empty() || databases.iter().any(|name| name == schema))
        };
        let mut found: BTreeMap<Name, Table> = BTreeMap::new();
        let mut merges: Vec<Name> = Vec::new();
        for row in self.rows(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, ROW_FORMAT, TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH, \
             CREATE_OPTIONS, TABLE_COMMENT FROM information_schema.TABLES",
        )? {
            let sort = match row[2].as_str() {
                "BASE TABLE" => Sort::Table,
                "SYSTEM VERSIONED" => Sort::Versioned,
                "SEQUENCE" => Sort::Sequence,
                "VIEW" => Sort::View,
                // TEMPORARY: of this connection, which has none.
                _ => continue,
            };
            if row[3].eq_ignore_ascii_case("MRG_MyISAM") {
                merges.push(name_of(&row));
            }
            if wanted(&row[0]) {
                found.insert(name_of(&row), plain_table(&row, sort));
            }
        }
        for name in databases {
            if !found.keys().any(|(schema, _)| schema == name) {
                return Err(Failure::Other(format!(
                    "{}: the database {name} has no tables, or is not there",
                    self.connection.place
                )));
            }
        }
        self.read_indexes(&mut found)?;
        self.read_columns(&mut found)?;
        self.read_merges(&merges, &mut found);
        for row in self.rows(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COUNT(*) FROM information_schema.PARTITIONS \
             WHERE PARTITION_NAME IS NOT NULL GROUP BY TABLE_SCHEMA, TABLE_NAME",
        )? {
            if let Some(table) = found.get_mut(&name_of(&row)) {
                table.partitions = number(&row[2]);
            }
        }
        // A Galera node's tables stay, whatever their definitions say.
        let keys = if facts.galera { BTreeMap::new() } else { self.read_definitions(&mut found) };
        self.read_foreign_keys(keys, &mut found)?;
        Ok(found.into_values().collect())
    }

    /// Takes InnoDB's sizes from its files: information_schema.TABLES has those of the last statistics. Tables of the
    /// system tablespace have no file. `Err`: why they cannot be read.
    pub fn read_sizes(&mut self, tables: &mut [Table]) -> Result<(), String> {
        let told = |failure: Failure| failure.to_string();
        let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
        for row in self
            .rows("SELECT HEX(NAME), ALLOCATED_SIZE FROM information_schema.INNODB_SYS_TABLESPACES")
            .map_err(told)?
        {
            *sizes.entry(without_partition(&row[0]).to_string()).or_default() += number(&row[1]);
        }
        // A file's name is that of the table, in the server's code for names of files.
        let names = self
            .rows(
                "SELECT TABLE_SCHEMA, TABLE_NAME, CONCAT(HEX(CONVERT(TABLE_SCHEMA USING filename)), '2F', \
                 HEX(CONVERT(TABLE_NAME USING filename))) FROM information_schema.TABLES WHERE ENGINE = 'InnoDB'",
            )
            .map_err(told)?;
        for row in names {
            let Some(size) = sizes.get(&row[2]) else { continue };
            let mut own = tables.iter_mut();
            if let Some(table) = own.find(|table| table.schema == row[0] && table.name == row[1]) {
                table.bytes = *size;
            }
        }
        Ok(())
    }

    /// Gives their dropped foreign keys to the tables. `Err`: why they cannot be read.
    pub fn read_dropped_keys(&mut self, tables: &mut [Table]) -> Result<(), String> {
        let rows = self.rows(DROPPED_KEYS).map_err(|failure| failure.to_string())?;
        for row in rows {
            let mut own = tables.iter_mut();
            if let Some(table) = own.find(|table| table.schema == row[0] && table.name == row[1]) {
                table.dropped_keys.push(dropped_key(&row));
            }
        }
        Ok(())
    }

    fn read_indexes(&mut self, found: &mut BTreeMap<Name, Table>) -> Result<(), Failure> {
        for row in self.rows(
            "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, INDEX_TYPE FROM information_schema.STATISTICS \
             WHERE SEQ_IN_INDEX = 1 ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME",
        )? {
            if let Some(table) = found.get_mut(&name_of(&row)) {
                table.indexes.push((row[2].clone(), row[3].clone()));
            }
        }
        Ok(())
    }

    /// Reads the facts missing in information_schema. Returns the foreign keys.
    fn read_definitions(&mut self, found: &mut BTreeMap<Name, Table>) -> ForeignKeys {
        let mut keys = ForeignKeys::new();
        for (name, table) in found {
            if table.engine.is_none() || !matches!(table.sort, Sort::Table | Sort::Versioned) {
                continue;
            }
            // Without the privilege for it the statement itself will tell.
            let rows = self.rows(&format!("SHOW CREATE TABLE {}", table.quoted())).unwrap_or_default();
            let Some(sql) = rows.first().and_then(|row| row.get(1)) else { continue };
            let bare = bare(sql);
            table.has_directory = names_directory(&bare);
            table.by_transaction_id = is_by_transaction_id(&bare);
            table.parsers = sql.lines().filter_map(parser_of).collect();
            for key in sql.lines().filter_map(|line| foreign_key_of(line, &table.schema)) {
                keys.insert((name.clone(), key.name.clone()), key);
            }
        }
        keys
    }

    /// Adds the keys in information_schema, those of other databases' tables too, and gives all to their
    /// tables.
    fn read_foreign_keys(
        &mut self,
        mut keys: ForeignKeys,
        found: &mut BTreeMap<Name, Table>,
    ) -> Result<(), Failure> {
        let mut others = ForeignKeys::new();
        for row in self.rows(
            "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME, \
             UPDATE_RULE, DELETE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS",
        )? {
            let key = ForeignKey {
                name: row[2].clone(),
                columns: Vec::new(),
                parent_schema: row[3].clone(),
                parent: row[4].clone(),
                parent_columns: Vec::new(),
                on_update: row[5].clone(),
                on_delete: row[6].clone(),
            };
            if !keys.contains_key(&(name_of(&row), row[2].clone())) {
                others.insert((name_of(&row), row[2].clone()), key);
            }
        }
        for row in self.rows(
            "SELECT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_COLUMN_NAME \
             FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL \
             ORDER BY TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION",
        )? {
            if let Some(key) = others.get_mut(&(name_of(&row), row[2].clone())) {
                key.columns.push(row[3].clone());
                key.parent_columns.push(row[4].clone());
            }
        }
        keys.append(&mut others);
        for (((schema, child), _), key) in keys {
            let parent = (key.parent_schema.clone(), key.parent.clone());
            let is_own = parent == (schema.clone(), child.clone());
            if let Some(table) = found.get_mut(&parent).filter(|_| !is_own) {
                table.referred_by.push((format!("{}.{}", quoted(&schema), quoted(&child)), key.name.clone()));
            }
            if let Some(table) = found.get_mut(&(schema, child)) {
                table.foreign_keys.push(key);
            }
        }
        Ok(())
    }

    /// Tables of a MERGE table have to be MyISAM.
    fn read_merges(&mut self, merges: &[Name], found: &mut BTreeMap<Name, Table>) {
        for (schema, name) in merges {
            let merge = format!("{}.{}", quoted(schema), quoted(name));
            let rows = self.rows(&format!("SHOW CREATE TABLE {merge}")).unwrap_or_default();
            for part in rows.first().and_then(|row| row.get(1)).map_or_else(Vec::new, |sql| union_of(sql)) {
                let part = (part.0.unwrap_or_else(|| schema.clone()), part.1);
                if let Some(table) = found.get_mut(&part) {
                    table.merged_in.push(merge.clone());
                }
            }
        }
    }

    fn read_columns(&mut self, found: &mut BTreeMap<Name, Table>) -> Result<(), Failure> {
        let first: BTreeSet<(Name, String)> = self
            .rows(
                "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS \
                 WHERE SEQ_IN_INDEX = 1",
            )?
            .into_iter()
            .map(|row| (name_of(&row), row[2].clone()))
            .collect();
        for row in self.rows(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS \
             WHERE EXTRA LIKE '%auto_increment%'",
        )? {
            let Some(table) = found.get_mut(&name_of(&row)) else { continue };
            table.counter_begins_no_index = !first.contains(&(name_of(&row), row[2].clone()));
        }
        Ok(())
    }
}

/// A table of a row of information_schema.TABLES; the rest is not read yet.
fn plain_table(row: &Columns, sort: Sort) -> Table {
    Table {
        schema: row[0].clone(),
        name: row[1].clone(),
        sort,
        engine: Some(row[3].clone()).filter(|engine| !engine.is_empty()),
        comment: row[9].clone(),
        row_format: row[4].clone(),
        options: row[8].clone(),
        rows: number(&row[5]),
        bytes: number(&row[6]) + number(&row[7]),
        ..Table::default()
    }
}

/// The name of a table's file without the part of a partition, both in hexadecimal: `#P#` or `#p#`. A # of the table's own
/// name is written in another way.
fn without_partition(name: &str) -> &str {
    let bytes = (0..name.len()).step_by(2);
    let mut ends = bytes.filter(|at| matches!(name.get(*at..at + 6), Some("235023" | "237023")));
    &name[..ends.next().unwrap_or(name.len())]
}

/// A foreign key of a row of `DROPPED_KEYS`.
fn dropped_key(row: &Columns) -> ForeignKey {
    let list = |text: &str| column_names(&format!("({text})")).map_or_else(Vec::new, |(names, _)| names);
    ForeignKey {
        name: row[2].clone(),
        columns: list(&row[3]),
        parent_schema: row[4].clone(),
        parent: row[5].clone(),
        parent_columns: list(&row[6]),
        on_update: row[7].clone(),
        on_delete: row[8].clone(),
    }
}

/// The quoted name at a text's begin, and the rest of the text.
fn identifier(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '`' | '"'))?;
    let (mut name, mut chars) = (String::new(), text[1..].chars());
    while let Some(c) = chars.next() {
        if c == quote {
            match chars.as_str().strip_prefix(quote) {
                Some(more) => chars = more.chars(),
                None => return Some((name, chars.as_str())),
            }
        }
        name.push(c);
    }
    None
}

/// The name of a table at a text's begin, with its database if named, and the rest of the text.
fn table_name(text: &str) -> Option<(Option<String>, String, &str)> {
    let (first, rest) = identifier(text)?;
    match rest.strip_prefix('.') {
        Some(rest) => identifier(rest).map(|(name, rest)| (Some(first), name, rest)),
        None => Some((None, first, rest)),
    }
}

/// The names of a list of columns in parentheses, and the rest of the text after it.
fn column_names(text: &str) -> Option<(Vec<String>, &str)> {
    let (mut names, mut rest) = (Vec::new(), text.strip_prefix('(')?);
    loop {
        let (name, after) = identifier(rest)?;
        names.push(name);
        match after.strip_prefix(')') {
            Some(after) => return Some((names, after)),
            None => rest = after.strip_prefix(',')?.trim_start(),
        }
    }
}

/// The tables named in UNION by a MERGE table's definition, each with its database if it is another.
fn union_of(sql: &str) -> Vec<(Option<String>, String)> {
    let (mut names, mut rest) = (Vec::new(), sql.rsplit_once("UNION=(").map_or("", |(_, list)| list));
    while let Some((schema, name, after)) = table_name(rest) {
        names.push((schema, name));
        rest = after.strip_prefix(',').unwrap_or_default();
    }
    names
}

/// The foreign key in a line of a definition of a table in the database `schema`. information_schema shows keys only to
/// users with more privileges than SELECT.
fn foreign_key_of(line: &str, schema: &str) -> Option<ForeignKey> {
    let (name, rest) = identifier(line.trim_start().strip_prefix("CONSTRAINT ")?)?;
    let (columns, rest) = column_names(rest.strip_prefix(" FOREIGN KEY ")?)?;
    let (parent_schema, parent, rest) = table_name(rest.strip_prefix(" REFERENCES ")?)?;
    let (parent_columns, rules) = column_names(rest.strip_prefix(' ')?)?;
    let after = |event: &str| {
        let told = rules.split_once(event).map_or("", |(_, rule)| rule);
        let mut known = ["CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION"].into_iter();
        known.find(|rule| told.starts_with(rule)).unwrap_or("RESTRICT").to_string()
    };
    Some(ForeignKey {
        name,
        columns,
        parent_schema: parent_schema.unwrap_or_else(|| schema.to_string()),
        parent,
        parent_columns,
        on_update: after(" ON UPDATE "),
        on_delete: after(" ON DELETE "),
    })
}

/// The FULLTEXT index in a line of a definition and its parser, if it has one.
fn parser_of(line: &str) -> Option<(String, String)> {
    let (index, rest) = identifier(line.trim_start().strip_prefix("FULLTEXT KEY ")?)?;
    let (_, rest) = column_names(rest.strip_prefix(' ')?)?;
    // In a comment for servers with parsers.
    let (_, rest) = rest.split_once(" WITH PARSER ")?;
    Some((index, identifier(rest)?.0))
}

/// A definition without its names and texts.
fn bare(sql: &str) -> String {
    let mut bare = String::new();
    let mut inside: Option<char> = None;
    for c in sql.chars() {
        match inside {
            Some(end) if c == end => inside = None,
            Some(_) => {}
            None if matches!(c, '`' | '\'' | '"') => inside = Some(c),
            None => bare.push(c),
        }
    }
    bare
}

/// True if a definition has DATA DIRECTORY or INDEX DIRECTORY.
fn names_directory(bare: &str) -> bool {
    bare.contains("DATA DIRECTORY") || bare.contains("INDEX DIRECTORY")
}

/// True if a definition's history counts transactions instead of seconds. 10.11 shows it nowhere else.
fn is_by_transaction_id(bare: &str) -> bool {
    bare.lines()
        .any(|line| line.contains("GENERATED ALWAYS AS ROW START") && line.trim_start().starts_with("bigint"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let online = |version: &str| Facts { version: version.into(), ..Facts::default() }.copies_online();
        assert!(online("11.8.6-MariaDB-log") && online("11.10.1-MariaDB") && online("12.0.2"));
        assert!(!online("10.11.6-MariaDB-0+deb12u1") && !online("11.1.9-MariaDB"));
    }

    #[test]
    fn partitions_are_one_table() {
        let digits = |name: &str| name.bytes().map(|byte| format!("{byte:02X}")).collect::<String>();
        for (file, table) in
            [("d/t", "d/t"), ("d/t#P#p0#SP#s1", "d/t"), ("d/t@0023P", "d/t@0023P"), ("d/t#p#a", "d/t")]
        {
            assert_eq!(without_partition(&digits(file)), digits(table), "{file}");
        }
        // The digits of `#P#`, but not at a byte's begin.
        assert_eq!(without_partition("F2350233"), "F2350233");
    }

    #[test]
    fn directories_are_found_outside_of_texts() {
        let names = |sql: &str| names_directory(&bare(sql));
        assert!(names("CREATE TABLE `t` (a INT) ENGINE=InnoDB DATA DIRECTORY='/x'"));
        assert!(names("... PARTITION `p` ... INDEX DIRECTORY = '/x' ENGINE = MyISAM"));
        assert!(!names("CREATE TABLE `DATA DIRECTORY` (a INT COMMENT 'it''s INDEX DIRECTORY')"));
    }

    #[test]
    fn the_parts_of_a_merge_are_named() {
        let names = |sql: &str| -> Vec<String> {
            let of =
                |(schema, name): (Option<String>, String)| format!("{}/{name}", schema.unwrap_or_default());
            union_of(sql).into_iter().map(of).collect()
        };
        let sql =
            "CREATE TABLE `u` (`a` int) ENGINE=MRG_MyISAM COMMENT='UNION=(`x`)' UNION=(`a,```,`d.b`.`c)`)";
        assert_eq!(names(sql), ["/a,`", "d.b/c)"]);
        for none in ["CREATE TABLE `u` (`a` int) ENGINE=MRG_MyISAM", "... UNION=(", "... UNION=(`"] {
            assert!(names(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn foreign_keys_are_read_from_definitions() {
        let line = "  CONSTRAINT `f``k` FOREIGN KEY (`a`, `b)`) REFERENCES `o.`.`p` (`x`, `y`) ON DELETE SET NULL ON UPDATE CASCADE,";
        let key = foreign_key_of(line, "shop").expect("a key");
        assert_eq!((key.name.as_str(), key.parent_schema.as_str(), key.parent.as_str()), ("f`k", "o.", "p"));
        assert_eq!(
            (key.columns, key.parent_columns),
            (vec!["a".into(), "b)".into()], vec!["x".into(), "y".into()])
        );
        assert_eq!((key.on_delete.as_str(), key.on_update.as_str()), ("SET NULL", "CASCADE"));
        let key =
            foreign_key_of("  CONSTRAINT `k` FOREIGN KEY (`a`) REFERENCES `p` (`x`)", "shop").expect("a key");
        assert_eq!((key.parent_schema.as_str(), key.on_delete.as_str()), ("shop", "RESTRICT"));
        for none in [
            "",
            "  CONSTRAINT `c` CHECK (`a` > 1)",
            "  CONSTRAINT `k",
            "  CONSTRAINT `k` FOREIGN KEY (`a`",
            "é",
        ] {
            assert!(foreign_key_of(none, "shop").is_none(), "{none}");
        }
    }

    #[test]
    fn parsers_are_read_from_definitions() {
        let line = "  FULLTEXT KEY `w``p` (`a`,`b)`) /*!50100 WITH PARSER `simple_parser` */ ,";
        assert_eq!(parser_of(line), Some(("w`p".into(), "simple_parser".into())));
        for none in [
            "  FULLTEXT KEY `w` (`a`,`b`),",
            "  FULLTEXT KEY ` WITH PARSER ` (`a`)",
            "  KEY `w` (`a`) COMMENT ' WITH PARSER `p`'",
            "  FULLTEXT KEY `w",
        ] {
            assert!(parser_of(none).is_none(), "{none}");
        }
    }

    #[test]
    fn dropped_keys_are_read_from_the_engines_view() {
        let row = |columns: &str| {
            ["shop", "c", "k", columns, "far", "p", "`x`, `y`", "CASCADE", "RESTRICT"]
                .map(str::to_string)
                .to_vec()
        };
        let key = dropped_key(&row("`a`, `b``)`"));
        assert_eq!((key.name.as_str(), key.parent_schema.as_str(), key.parent.as_str()), ("k", "far", "p"));
        assert_eq!(key.columns, ["a", "b`)"]);
        assert_eq!(key.parent_columns, ["x", "y"]);
        assert_eq!((key.on_update.as_str(), key.on_delete.as_str()), ("CASCADE", "RESTRICT"));
        assert!(dropped_key(&row("")).columns.is_empty());
    }

    #[test]
    fn history_by_transaction_id_is_told_from_history_by_time() {
        let by_id = |column: &str| {
            is_by_transaction_id(&bare(&format!("CREATE TABLE `t` (\n  {column},\n  `b` bigint(20)\n)")))
        };
        assert!(by_id("`s` bigint(20) unsigned GENERATED ALWAYS AS ROW START"));
        assert!(!by_id("`s` timestamp(6) GENERATED ALWAYS AS ROW START"));
        assert!(!by_id("`a` int(11) COMMENT 'bigint GENERATED ALWAYS AS ROW START'"));
    }
}
