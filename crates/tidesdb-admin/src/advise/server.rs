//! What the adviser reads of a server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, Row, Value};
use tidesdb::internal::io::RealDisk;

use super::table::{quoted, ForeignKey, Sort, Table};
use crate::cli::Advise;
use crate::output::Failure;

/// Where Debian's server has its socket.
const DEBIAN: &str = "/run/mysqld/mysqld.sock";

/// information_schema opens every table for its sizes.
const ANSWER_LIMIT: Duration = Duration::from_secs(3600);

/// Databases of the server itself.
pub const SYSTEM: [&str; 4] = ["mysql", "sys", "information_schema", "performance_schema"];

/// What counts for all tables.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub version: String,
    /// The plugin is loaded.
    pub has_engine: bool,
    pub data_directory: String,
    /// Bytes that are free there, where this program can look.
    pub free: Option<u64>,
    pub binary_log: bool,
    pub is_replica: Option<bool>,
    pub gtid_pos_engines: String,
    pub encrypts_tables: bool,
    pub encrypts_aria: bool,
    pub galera: bool,
    /// `sql_mode` has NO_ENGINE_SUBSTITUTION.
    pub refuses_unknown_engines: bool,
    /// Tables of the server's own databases.
    pub system_tables: u64,
}

impl Facts {
    /// ALTER by copy lets others write since 11.2.
    pub fn copies_online(&self) -> bool {
        let mut parts = self.version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
        (parts.next(), parts.next()) >= (Some(11), Some(2))
    }
}

/// A connection. Nothing but SELECT and SHOW goes through it.
pub struct Server {
    connection: Conn,
    /// Socket, or host and port.
    place: String,
    /// The server runs on this machine.
    is_here: bool,
}

type Columns = Vec<String>;

fn text(value: Value) -> String {
    match value {
        Value::NULL => String::new(),
        Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        other => other.as_sql(true),
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

/// A name as information_schema's tables have it: database and table.
type Name = (String, String);

/// Takes the next two columns as a name.
fn name_of(columns: &[String]) -> Name {
    (columns[0].clone(), columns[1].clone())
}

impl Server {
    /// Connects as the options say.
    pub fn connect(options: &Advise) -> Result<Server, Failure> {
        let password = match &options.password_file {
            None => None,
            Some(file) => {
                let text = std::fs::read_to_string(file)
                    .map_err(|error| Failure::Other(format!("cannot read {}: {error}", file.display())))?;
                Some(text.lines().next().unwrap_or_default().to_string())
            }
        };
        let socket = match (&options.socket, &options.host) {
            (Some(socket), _) => Some(socket.clone()),
            (None, Some(_)) => None,
            (None, None) if Path::new(DEBIAN).exists() => Some(PathBuf::from(DEBIAN)),
            (None, None) => {
                let what = format!("no server is named: --socket FILE or --host NAME (there is no {DEBIAN})");
                return Err(Failure::Other(what));
            }
        };
        let place = match &socket {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.host.as_deref().unwrap_or_default(), options.port),
        };
        let builder = OptsBuilder::new()
            .user(Some(options.user.as_str()))
            .pass(password)
            .prefer_socket(false)
            .read_timeout(Some(ANSWER_LIMIT))
            .write_timeout(Some(ANSWER_LIMIT));
        let builder = match &socket {
            Some(socket) => builder.socket(Some(socket.to_string_lossy())),
            None => builder.ip_or_hostname(options.host.clone()).tcp_port(options.port),
        };
        let connection = Conn::new(builder).map_err(|error| {
            Failure::Other(format!(
                "cannot connect to {place} as {}: {error}; see --socket, --host, --user, --password-file",
                options.user
            ))
        })?;
        Ok(Server { connection, place, is_here: socket.is_some() })
    }

    fn rows(&mut self, statement: &str) -> Result<Vec<Columns>, Failure> {
        let rows: Result<Vec<Row>, _> = self.connection.query(statement);
        let rows = rows.map_err(|error| Failure::Other(format!("{}: {error} in {statement}", self.place)))?;
        Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect())
    }

    /// Reads what counts for all tables.
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
            home => home,
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
            if wanted(&row[0]) {
                found.insert(name_of(&row), plain_table(&row, sort));
            }
        }
        for name in databases {
            if !found.keys().any(|(schema, _)| schema == name) {
                return Err(Failure::Other(format!(
                    "{}: the database {name} has no tables, or is not there",
                    self.place
                )));
            }
        }
        self.read_indexes(&mut found)?;
        self.read_foreign_keys(&mut found)?;
        self.read_columns(&mut found)?;
        for row in self.rows(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COUNT(*) FROM information_schema.PARTITIONS \
             WHERE PARTITION_NAME IS NOT NULL GROUP BY TABLE_SCHEMA, TABLE_NAME",
        )? {
            if let Some(table) = found.get_mut(&name_of(&row)) {
                table.partitions = number(&row[2]);
            }
        }
        for table in found.values_mut() {
            if table.engine.is_some() && matches!(table.sort, Sort::Table | Sort::Versioned) && !facts.galera
            {
                let shown = self.rows(&format!("SHOW CREATE TABLE {}", table.quoted()));
                // Without the privilege for it the statement itself will tell.
                let rows = shown.unwrap_or_default();
                let definition =
                    rows.first().and_then(|row| row.get(1)).map_or_else(String::new, |sql| bare(sql));
                table.has_directory = names_directory(&definition);
                table.by_transaction_id = is_by_transaction_id(&definition);
            }
        }
        Ok(found.into_values().collect())
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

    fn read_foreign_keys(&mut self, found: &mut BTreeMap<Name, Table>) -> Result<(), Failure> {
        let mut keys: BTreeMap<(Name, String), ForeignKey> = BTreeMap::new();
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
            keys.insert((name_of(&row), row[2].clone()), key);
        }
        for row in self.rows(
            "SELECT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_COLUMN_NAME \
             FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL \
             ORDER BY TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION",
        )? {
            if let Some(key) = keys.get_mut(&(name_of(&row), row[2].clone())) {
                key.columns.push(row[3].clone());
                key.parent_columns.push(row[4].clone());
            }
        }
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
        partitions: 0,
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        referred_by: Vec::new(),
        by_transaction_id: false,
        has_directory: false,
        counter_begins_no_index: false,
    }
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

/// Whether a definition has DATA DIRECTORY or INDEX DIRECTORY.
fn names_directory(bare: &str) -> bool {
    bare.contains("DATA DIRECTORY") || bare.contains("INDEX DIRECTORY")
}

/// Whether a definition's history counts transactions instead of seconds. 10.11 tells so nowhere else.
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
    fn directories_are_found_outside_of_texts() {
        let names = |sql: &str| names_directory(&bare(sql));
        assert!(names("CREATE TABLE `t` (a INT) ENGINE=InnoDB DATA DIRECTORY='/x'"));
        assert!(names("... PARTITION `p` ... INDEX DIRECTORY = '/x' ENGINE = MyISAM"));
        assert!(!names("CREATE TABLE `DATA DIRECTORY` (a INT COMMENT 'it''s INDEX DIRECTORY')"));
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
