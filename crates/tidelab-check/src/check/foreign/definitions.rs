//! The definitions of the check `foreign`: tables, foreign keys, and how information_schema shows them.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::RngExt;

use super::super::session::{Failure, Session};

/// The tables' database.
pub(super) const DATABASE: &str = "kin";

/// The tables, parents before children, with their columns and indexes. Each index of a foreign key is
/// declared, so it stays when the key goes.
pub(super) const TABLES: [(&str, &str); 5] = [
    ("g", "id INT PRIMARY KEY, k INT, v INT NOT NULL, UNIQUE by_k (k)"),
    ("p", "id INT PRIMARY KEY, g INT, gk INT, v INT NOT NULL, KEY by_g (g), KEY by_gk (gk)"),
    (
        "c",
        "id INT PRIMARY KEY, p INT, g INT, u INT, v INT NOT NULL, KEY by_p (p), KEY by_g (g), UNIQUE by_u (u)",
    ),
    ("t", "id INT PRIMARY KEY, up INT, v INT NOT NULL, KEY by_up (up)"),
    ("kept", "id INT PRIMARY KEY, p INT NOT NULL, u INT, v INT NOT NULL, KEY by_p (p), UNIQUE by_u (u)"),
];

/// A foreign key: its place, and its target.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) child: &'static str,
    pub(super) column: &'static str,
    pub(super) parent: &'static str,
    pub(super) refers_to: &'static str,
}

const fn key(
    name: &'static str,
    child: &'static str,
    column: &'static str,
    parent: &'static str,
    refers_to: &'static str,
) -> Key {
    Key { name, child, column, parent, refers_to }
}

/// The foreign keys. The last one never goes: each writer knows its own rows under it.
pub(super) const KEYS: [Key; 6] = [
    key("p_g", "p", "g", "g", "id"),
    key("p_gk", "p", "gk", "g", "k"),
    key("c_p", "c", "p", "p", "id"),
    key("c_g", "c", "g", "g", "id"),
    key("t_up", "t", "up", "t", "id"),
    key("kept_p", "kept", "p", "p", "id"),
];

/// The number of foreign keys to drop and add.
pub(super) const DROPPABLE: usize = KEYS.len() - 1;

/// The foreign key of [`KEYS`] with the child's actions.
const CHILD: usize = 2;

/// Actions of a foreign key when the parent goes or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Actions {
    delete: &'static str,
    update: &'static str,
}

impl Actions {
    /// Those of a foreign key; the one of children to parents has any.
    pub(super) fn draw(key: usize, random: &mut StdRng) -> Actions {
        let of = |delete, update| Actions { delete, update };
        match key {
            0 => of("CASCADE", "CASCADE"),
            1 => of("SET NULL", "SET NULL"),
            CHILD => of(
                ["CASCADE", "RESTRICT", "SET NULL", "NO ACTION"].choose(random).copied().unwrap_or("CASCADE"),
                ["CASCADE", "RESTRICT", "SET NULL"].choose(random).copied().unwrap_or("CASCADE"),
            ),
            4 => of("CASCADE", "RESTRICT"),
            _ => of("RESTRICT", "RESTRICT"),
        }
    }

    /// As a definition has them.
    pub(super) fn clause(self) -> String {
        format!("ON DELETE {} ON UPDATE {}", self.delete, self.update)
    }
}

/// A table's changes since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) renamed: bool,
    /// True with an index over `v`.
    pub(super) index: bool,
    /// True with a further column.
    pub(super) column: bool,
}

/// All definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definitions {
    pub(super) tables: BTreeMap<&'static str, Shape>,
    /// The actions of each of [`KEYS`]; none: it is dropped at the moment.
    pub(super) keys: [Option<Actions>; KEYS.len()],
    /// Tables WITH SYSTEM VERSIONING, for good.
    versioned: BTreeSet<&'static str>,
}

impl Definitions {
    pub(super) fn draw(random: &mut StdRng) -> Definitions {
        let share = if random.random_bool(0.5) { 0.5 } else { 0.0 };
        Definitions {
            tables: TABLES.iter().map(|(name, _)| (*name, Shape::default())).collect(),
            keys: std::array::from_fn(|key| Some(Actions::draw(key, random))),
            versioned: TABLES.iter().map(|(name, _)| *name).filter(|_| random.random_bool(share)).collect(),
        }
    }

    /// Statements to make them.
    pub(super) fn statements(&self) -> Vec<String> {
        let mut statements = vec![format!("CREATE DATABASE {DATABASE}"), format!("USE {DATABASE}")];
        for (name, columns) in TABLES {
            let mut text = format!("CREATE TABLE {name} ({columns}");
            for key in (0..KEYS.len()).filter(|key| KEYS[*key].child == name) {
                if let Some(actions) = self.keys[key] {
                    text.push_str(&format!(", {}", self.clause(key, actions)));
                }
            }
            let versioning = if self.is_versioned(name) { " WITH SYSTEM VERSIONING" } else { "" };
            statements.push(format!("{text}) ENGINE=TidesDB{versioning}"));
        }
        statements
    }

    /// The foreign key as a definition has it.
    pub(super) fn clause(&self, key: usize, actions: Actions) -> String {
        let Key { name, column, parent, refers_to, .. } = KEYS[key];
        let parent = self.name(parent);
        format!(
            "CONSTRAINT {name} FOREIGN KEY ({column}) REFERENCES {parent} ({refers_to}) {}",
            actions.clause()
        )
    }

    /// The table's current name.
    pub(super) fn name(&self, table: &str) -> String {
        match self.tables.get(table) {
            Some(Shape { renamed: true, .. }) => format!("{table}_else"),
            _ => table.to_string(),
        }
    }

    /// True if the table keeps its history.
    pub(super) fn is_versioned(&self, table: &str) -> bool {
        self.versioned.contains(table)
    }

    /// True if a foreign key refers to the table.
    pub(super) fn is_referenced(&self, table: &str) -> bool {
        (0..KEYS.len()).any(|key| KEYS[key].parent == table && self.keys[key].is_some())
    }

    /// The query for up to three children of a foreign key without a parent.
    pub(super) fn orphans(&self, key: usize) -> String {
        let Key { child, column, parent, refers_to, .. } = KEYS[key];
        let (child, parent) = (self.name(child), self.name(parent));
        format!(
            "SELECT x.id, x.{column} FROM {child} x LEFT JOIN {parent} y ON y.{refers_to} = x.{column} \
             WHERE x.{column} IS NOT NULL AND y.{refers_to} IS NULL LIMIT 3"
        )
    }

    /// The statement to remove the references of such children.
    pub(super) fn mend(&self, key: usize) -> String {
        let Key { child, column, parent, refers_to, .. } = KEYS[key];
        let (child, parent) = (self.name(child), self.name(parent));
        format!(
            "UPDATE {child} x LEFT JOIN {parent} y ON y.{refers_to} = x.{column} SET x.{column} = NULL \
             WHERE x.{column} IS NOT NULL AND y.{refers_to} IS NULL"
        )
    }

    /// Each table and each foreign key in a line, as [`read`] gives them.
    pub(super) fn lines(&self) -> BTreeSet<String> {
        let tables = self.tables.iter().map(|(name, shape)| {
            table_line(&self.name(name), i64::from(shape.index), i64::from(shape.column))
        });
        let keys = KEYS.iter().enumerate().filter_map(|(at, key)| {
            let actions = self.keys[at]?;
            let (child, parent) = (self.name(key.child), self.name(key.parent));
            Some(format!(
                "{} of {child} ({}) to {parent} ({}) {}",
                key.name,
                key.column,
                key.refers_to,
                actions.clause()
            ))
        });
        tables.chain(keys).collect()
    }
}

fn table_line(name: &str, indexes: i64, columns: i64) -> String {
    format!("table {name}, further indexes {indexes}, columns {columns}")
}

/// The definitions in information_schema, a line each.
pub(super) fn read(session: &mut Session) -> Result<BTreeSet<String>, Failure> {
    let tables = session.rows(&format!(
        "SELECT table_name,
         (SELECT COUNT(*) FROM information_schema.statistics AS s WHERE s.table_schema = '{DATABASE}'
          AND s.table_name = t.table_name AND s.index_name = 'by_v'),
         (SELECT COUNT(*) FROM information_schema.columns AS c WHERE c.table_schema = '{DATABASE}'
          AND c.table_name = t.table_name AND c.column_name = 'more')
         FROM information_schema.tables AS t WHERE table_schema = '{DATABASE}'"
    ))?;
    let keys = session.rows(&format!(
        "SELECT r.constraint_name, r.table_name, k.column_name, k.referenced_table_name,
         k.referenced_column_name, r.delete_rule, r.update_rule
         FROM information_schema.referential_constraints AS r JOIN information_schema.key_column_usage AS k
         ON k.constraint_schema = r.constraint_schema AND k.constraint_name = r.constraint_name
         AND k.table_name = r.table_name WHERE r.constraint_schema = '{DATABASE}'"
    ))?;
    let number = |text: &str| text.parse().unwrap_or(-1);
    let mut lines: BTreeSet<String> =
        tables.iter().map(|row| table_line(&row[0], number(&row[1]), number(&row[2]))).collect();
    for row in &keys {
        lines.insert(format!(
            "{} of {} ({}) to {} ({}) ON DELETE {} ON UPDATE {}",
            row[0], row[1], row[2], row[3], row[4], row[5], row[6]
        ));
    }
    Ok(lines)
}

/// Lines on only one side.
pub(super) fn difference(there: &BTreeSet<String>, expected: &BTreeSet<String>) -> String {
    let more: Vec<&str> = there.difference(expected).map(String::as_str).collect();
    let less: Vec<&str> = expected.difference(there).map(String::as_str).collect();
    format!("there is {more:?}, must be {less:?}")
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn a_rename_goes_into_names_and_references() {
        let mut all = Definitions::draw(&mut StdRng::seed_from_u64(1));
        all.tables.insert("p", Shape { renamed: true, ..Shape::default() });
        all.keys[0] = None;
        let lines = all.lines();
        assert_eq!(lines.len(), TABLES.len() + KEYS.len() - 1);
        assert!(lines.contains("kept_p of kept (p) to p_else (id) ON DELETE RESTRICT ON UPDATE RESTRICT"));
        assert!(lines.contains("table p_else, further indexes 0, columns 0"));
        assert!(all.orphans(5).contains("FROM kept x LEFT JOIN p_else y"));
        assert!(all.is_referenced("p") && !all.is_referenced("c"));
    }
}
