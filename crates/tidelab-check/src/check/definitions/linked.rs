//! Linked tables as their client knows them: a parent, a child, and the child's foreign keys to the parent and to itself.
//!
//! [`Linked::lines`] is the expected view of them, [`read`] the server's view.

use std::collections::{BTreeMap, BTreeSet};

use super::super::session::{Failure, Session};

/// Referenced values of the parent's columns, without those multiplied by ten.
pub(super) const REFERENCED: i64 = 7;
/// Column families of a parent and of a child, with their indexes.
const PARENTS_FAMILIES: usize = 2;
const CHILDS_FAMILIES: usize = 4;

/// A parent or a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// `database.name`.
    pub(super) name: String,
    /// The column with an occasional change of name.
    pub(super) column: &'static str,
    /// True with a further column.
    pub(super) more: bool,
    /// Rows: 1 to so many.
    pub(super) rows: i64,
}

/// A foreign key's actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Actions {
    pub(super) delete: &'static str,
    pub(super) update: &'static str,
}

/// Names of the foreign keys: to the parent's primary key, to its other key, and to the child itself.
pub(super) const BY_ID: &str = "by_id";
pub(super) const BY_CODE: &str = "by_code";
pub(super) const TO_SELF: &str = "to_self";
pub(super) const KEYS: [&str; 3] = [BY_ID, BY_CODE, TO_SELF];

/// The tables of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Linked {
    /// Existence of each of its two databases.
    pub(super) databases: [bool; 2],
    pub(super) parent: Option<Table>,
    pub(super) child: Option<Table>,
    /// The child's foreign keys.
    pub(super) keys: BTreeMap<&'static str, Actions>,
    /// The parent as the child's keys know it: it may be missing.
    pub(super) referred: (String, &'static str),
}

/// The name of one of a client's two databases.
pub(super) fn database(client: usize, away: usize) -> String {
    format!("kin{client}{}", ["", "_away"][away])
}

fn database_of(table: &str) -> &str {
    table.split_once('.').map_or("", |(database, _)| database)
}

fn name_of(table: &str) -> &str {
    table.split_once('.').map_or(table, |(_, name)| name)
}

impl Linked {
    pub(super) fn new(client: usize) -> Linked {
        Linked {
            databases: [true; 2],
            parent: None,
            child: None,
            keys: BTreeMap::new(),
            referred: (format!("{}.p0", database(client, 0)), "id"),
        }
    }

    /// True if the child has a foreign key to the parent.
    pub(super) fn is_referenced(&self) -> bool {
        self.keys.contains_key(BY_ID) || self.keys.contains_key(BY_CODE)
    }

    /// True if each row of the child finds its parent.
    pub(super) fn has_no_orphans(&self) -> bool {
        self.child.as_ref().is_none_or(|child| child.rows == 0)
            || self.parent.as_ref().is_some_and(|parent| parent.rows >= REFERENCED)
    }

    /// Without the tables of one database.
    pub(super) fn forget(&mut self, parent: bool, child: bool) {
        if parent {
            self.parent = None;
        }
        if child {
            self.child = None;
            self.keys.clear();
        }
    }

    /// For parent and child: true if the table is in this database.
    pub(super) fn within(&self, database: &str) -> (bool, bool) {
        let is = |table: &Option<Table>| table.as_ref().is_some_and(|t| database_of(&t.name) == database);
        (is(&self.parent), is(&self.child))
    }

    /// Column families in the store: those of the guards too.
    pub(super) fn families(&self) -> usize {
        let parent = if self.parent.is_some() { PARENTS_FAMILIES } else { 0 };
        let child = if self.child.is_some() { CHILDS_FAMILIES } else { 0 };
        parent + child + self.keys.len()
    }

    /// Names of the tables, for a look at a database's folder.
    pub(super) fn tables_in(&self, database: &str) -> BTreeSet<String> {
        let tables = self.parent.iter().chain(&self.child).filter(|t| database_of(&t.name) == database);
        tables.map(|t| name_of(&t.name).to_string()).collect()
    }

    /// A foreign key: the child's column, the referenced table and column, and the index there.
    pub(super) fn key(&self, name: &str) -> (&'static str, &str, &'static str, &'static str) {
        let child = self.child.as_ref();
        match name {
            BY_ID => (child.map_or("ref", |c| c.column), &self.referred.0, self.referred.1, "PRIMARY"),
            BY_CODE => ("code", &self.referred.0, "code", "by_code"),
            _ => ("up", child.map_or("", |c| c.name.as_str()), "id", "PRIMARY"),
        }
    }

    /// A foreign key in CREATE TABLE and after ADD.
    pub(super) fn clause(&self, name: &str, actions: Actions) -> String {
        let (column, table, referred, _) = self.key(name);
        format!(
            "CONSTRAINT {name} FOREIGN KEY ({column}) REFERENCES {table} ({referred}) ON DELETE {} ON UPDATE {}",
            actions.delete, actions.update
        )
    }

    /// Databases, tables and foreign keys, with one line for each place of its definition.
    pub(super) fn lines(&self, client: usize) -> BTreeSet<String> {
        let mut lines: BTreeSet<String> = (0..2)
            .filter(|away| self.databases[*away])
            .map(|away| format!("database {}", database(client, away)))
            .collect();
        if let Some(Table { name, column, more, rows }) = &self.parent {
            lines.insert(table_line(
                name,
                &format!("{column},code{}", if *more { ",more" } else { "" }),
                *rows,
            ));
        }
        if let Some(Table { name, column, more, rows }) = &self.child {
            let more = if *more { ",more" } else { "" };
            lines.insert(table_line(name, &format!("id,up,{column},code{more}"), *rows));
        }
        for (name, Actions { delete, update }) in &self.keys {
            let Some(child) = &self.child else { continue };
            let child = &child.name;
            let (column, parent, referred, index) = self.key(name);
            let (d, t) = (database_of(parent), name_of(parent));
            let quoted = match d == database_of(child) {
                true => format!("`{t}`"),
                false => format!("`{d}`.`{t}`"),
            };
            let clause = |event: &str, action: &str| match action {
                "RESTRICT" => String::new(),
                action => format!(" ON {event} {action}"),
            };
            lines.insert(format!(
                "{child}: CONSTRAINT `{name}` FOREIGN KEY (`{column}`) REFERENCES {quoted} (`{referred}`){}{}",
                clause("DELETE", delete),
                clause("UPDATE", update)
            ));
            lines.insert(format!("usage: {child} {name} {column} {parent} {referred}"));
            lines.insert(format!("rules: {child} {name} {delete} {update}"));
            let found = *name == TO_SELF || self.parent.is_some();
            let (index, state) = if found { (index, "RESOLVED") } else { ("NULL", "NO TABLE") };
            lines.insert(format!(
                "view: {child} {name} `{column}` {parent} `{referred}` {delete} {update} {index} {state}"
            ));
        }
        lines
    }
}

fn table_line(name: &str, columns: &str, rows: i64) -> String {
    format!("table {name} ({columns}) with {rows} rows")
}

/// The server's view of a client's tables, in the lines of [`Linked::lines`].
pub(super) fn read(session: &mut Session, client: usize) -> Result<BTreeSet<String>, Failure> {
    let within = format!("IN ('{}', '{}')", database(client, 0), database(client, 1));
    let mut lines = BTreeSet::new();
    for row in session
        .rows(&format!("SELECT schema_name FROM information_schema.schemata WHERE schema_name {within}"))?
    {
        lines.insert(format!("database {}", row.concat()));
    }
    let tables = session.rows(&format!(
        "SELECT CONCAT(table_schema, '.', table_name),
         (SELECT GROUP_CONCAT(column_name ORDER BY ordinal_position) FROM information_schema.columns AS c
          WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name)
         FROM information_schema.tables AS t WHERE table_schema {within}"
    ))?;
    for row in &tables {
        let [name, columns] = &row[..] else { continue };
        let rows = session.number(&format!("SELECT COUNT(*) FROM {name}"))?;
        lines.insert(table_line(name, columns, rows));
        let definition = session.rows(&format!("SHOW CREATE TABLE {name}"))?.concat().concat();
        for line in definition.lines().filter_map(|line| line.strip_prefix("  CONSTRAINT ")) {
            lines.insert(format!("{name}: CONSTRAINT {}", line.trim_end_matches(',')));
        }
    }
    let told = [
        format!(
            "SELECT CONCAT('usage: ', table_schema, '.', table_name), constraint_name, column_name,
             CONCAT(referenced_table_schema, '.', referenced_table_name), referenced_column_name
             FROM information_schema.key_column_usage
             WHERE table_schema {within} AND referenced_table_name IS NOT NULL"
        ),
        format!(
            "SELECT CONCAT('rules: ', constraint_schema, '.', table_name), constraint_name, delete_rule, update_rule
             FROM information_schema.referential_constraints WHERE constraint_schema {within}"
        ),
        format!(
            "SELECT CONCAT('view: ', table_schema, '.', table_name), constraint_name, columns,
             CONCAT(referenced_table_schema, '.', referenced_table_name), referenced_columns, delete_rule, update_rule,
             COALESCE(referenced_index, 'NULL'), state
             FROM information_schema.tidesdb_foreign_keys WHERE table_schema {within}"
        ),
    ];
    for select in told {
        lines.extend(session.rows(&select)?.iter().map(|row| row.join(" ")));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked() -> Linked {
        let table = |name: &str, column| Table { name: name.to_string(), column, more: false, rows: 9 };
        let mut all = Linked::new(1);
        all.parent = Some(table("kin1.p0", "id"));
        all.child = Some(table("kin1_away.c0", "link"));
        all.keys.insert(BY_ID, Actions { delete: "CASCADE", update: "RESTRICT" });
        all
    }

    #[test]
    fn a_foreign_key_is_told_of_in_four_places() {
        let lines = linked().lines(1);
        for line in [
            "kin1_away.c0: CONSTRAINT `by_id` FOREIGN KEY (`link`) REFERENCES `kin1`.`p0` (`id`) ON DELETE CASCADE",
            "usage: kin1_away.c0 by_id link kin1.p0 id",
            "rules: kin1_away.c0 by_id CASCADE RESTRICT",
            "view: kin1_away.c0 by_id `link` kin1.p0 `id` CASCADE RESTRICT PRIMARY RESOLVED",
        ] {
            assert!(lines.contains(line), "{line} in {lines:?}");
        }
    }

    #[test]
    fn a_missing_parent_leaves_the_key_and_takes_its_rows() {
        let mut all = linked();
        assert!(all.has_no_orphans());
        assert_eq!(all.families(), PARENTS_FAMILIES + CHILDS_FAMILIES + 1);
        all.forget(true, false);
        assert!(!all.has_no_orphans() && all.is_referenced());
        assert!(all
            .lines(1)
            .contains("view: kin1_away.c0 by_id `link` kin1.p0 `id` CASCADE RESTRICT NULL NO TABLE"));
        all.forget(false, true);
        assert_eq!(all.families(), 0);
        assert!(!all.is_referenced());
    }
}
