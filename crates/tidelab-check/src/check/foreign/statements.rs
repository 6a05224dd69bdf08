//! Random statements of the check `foreign` on the tables shared by all writers. Few values, so writers meet.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::RngExt;

/// The largest id of a parent.
pub(super) const PARENTS: i64 = 60;

struct Column {
    name: &'static str,
    /// Its values: 1 to so many.
    values: i64,
    /// Share of NULLs.
    null: f64,
}

struct Shared {
    name: &'static str,
    ids: i64,
    columns: &'static [Column],
}

const V: Column = Column { name: "v", values: 1000, null: 0.0 };

const SHARED: [Shared; 4] = [
    Shared { name: "g", ids: 30, columns: &[Column { name: "k", values: 40, null: 0.1 }, V] },
    Shared {
        name: "p",
        ids: PARENTS,
        columns: &[
            Column { name: "g", values: 30, null: 0.2 },
            Column { name: "gk", values: 40, null: 0.3 },
            V,
        ],
    },
    Shared {
        name: "c",
        ids: 200,
        columns: &[
            Column { name: "p", values: PARENTS, null: 0.1 },
            Column { name: "g", values: 30, null: 0.5 },
            Column { name: "u", values: 600, null: 0.3 },
            V,
        ],
    },
    Shared { name: "t", ids: 60, columns: &[Column { name: "up", values: 60, null: 0.2 }, V] },
];

/// Kinds of statements; a long run must have each answered.
pub(super) const KINDS: [&str; 17] = [
    "INSERT",
    "INSERT of rows",
    "INSERT IGNORE",
    "INSERT SELECT",
    "ON DUPLICATE KEY",
    "REPLACE",
    "UPDATE",
    "UPDATE of ids",
    "UPDATE of rows",
    "UPDATE IGNORE",
    "UPDATE of two",
    "DELETE",
    "DELETE of rows",
    "DELETE IGNORE",
    "DELETE of two",
    "SELECT",
    "SELECT FOR UPDATE",
];

impl Column {
    fn value(&self, random: &mut StdRng) -> String {
        match random.random_bool(self.null) {
            true => "NULL".to_string(),
            false => random.random_range(1..=self.values).to_string(),
        }
    }
}

impl Shared {
    fn id(&self, random: &mut StdRng) -> i64 {
        random.random_range(1..=self.ids)
    }

    fn row(&self, random: &mut StdRng) -> String {
        let columns: Vec<String> = self.columns.iter().map(|column| column.value(random)).collect();
        format!("({}, {})", self.id(random), columns.join(", "))
    }

    fn rows(&self, random: &mut StdRng) -> String {
        let rows: Vec<String> = (0..random.random_range(2..=5)).map(|_| self.row(random)).collect();
        rows.join(", ")
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        format!("id, {}", names.join(", "))
    }

    /// Changes of one column or all.
    fn set(&self, random: &mut StdRng) -> String {
        let all = random.random_bool(0.2);
        let one = random.random_range(0..self.columns.len());
        let set = self.columns.iter().enumerate().filter(|(at, _)| all || *at == one);
        let set: Vec<String> =
            set.map(|(_, column)| format!("{} = {}", column.name, column.value(random))).collect();
        set.join(", ")
    }

    /// A condition met by a few rows, by the primary key or another index.
    fn some(&self, random: &mut StdRng) -> String {
        let column = &self.columns[random.random_range(0..self.columns.len())];
        if column.name == "v" || random.random_bool(0.5) {
            let id = self.id(random);
            format!("id BETWEEN {id} AND {}", id + random.random_range(0..4))
        } else {
            format!("{} = {}", column.name, random.random_range(1..=column.values))
        }
    }

    /// INSERT INTO of the table with its columns.
    fn into(&self, verb: &str) -> String {
        format!("{verb} INTO {} ({})", self.name, self.names())
    }
}

/// A statement and its kind.
pub(super) fn draw(random: &mut StdRng) -> (&'static str, String) {
    let kind = match random.random_range(0..100) {
        0..20 => "INSERT",
        20..32 => "INSERT of rows",
        32..39 => "INSERT IGNORE",
        39..42 => "INSERT SELECT",
        42..49 => "ON DUPLICATE KEY",
        49..55 => "REPLACE",
        55..65 => "UPDATE",
        65..69 => "UPDATE of ids",
        69..73 => "UPDATE of rows",
        73..75 => "UPDATE IGNORE",
        75..78 => "UPDATE of two",
        78..86 => "DELETE",
        86..89 => "DELETE of rows",
        89..92 => "DELETE IGNORE",
        92..95 => "DELETE of two",
        95..98 => "SELECT",
        _ => "SELECT FOR UPDATE",
    };
    (kind, text(kind, random))
}

fn text(kind: &str, random: &mut StdRng) -> String {
    let table = [0, 0, 1, 1, 1, 2, 2, 2, 3].choose(random).map_or(&SHARED[0], |at| &SHARED[*at]);
    let name = table.name;
    match kind {
        "INSERT" => format!("{} VALUES {}", table.into("INSERT"), table.row(random)),
        "INSERT of rows" => format!("{} VALUES {}", table.into("INSERT"), table.rows(random)),
        "INSERT IGNORE" => format!("{} VALUES {}", table.into("INSERT IGNORE"), table.rows(random)),
        "INSERT SELECT" => format!(
            "INSERT IGNORE INTO c (id, p, g, u, v) SELECT id + {}, id, g, NULL, v FROM p WHERE {}",
            random.random_range(0..140),
            SHARED[1].some(random)
        ),
        "ON DUPLICATE KEY" => {
            let rows = if random.random_bool(0.5) { table.row(random) } else { table.rows(random) };
            let set = table.set(random);
            format!("{} VALUES {rows} ON DUPLICATE KEY UPDATE {set}", table.into("INSERT"))
        }
        "REPLACE" => {
            let rows = if random.random_bool(0.6) { table.row(random) } else { table.rows(random) };
            format!("{} VALUES {rows}", table.into("REPLACE"))
        }
        "UPDATE" => format!("UPDATE {name} SET {} WHERE id = {}", table.set(random), table.id(random)),
        "UPDATE of ids" => {
            format!("UPDATE {name} SET id = {} WHERE id = {}", table.id(random), table.id(random))
        }
        "UPDATE of rows" => format!("UPDATE {name} SET {} WHERE {}", table.set(random), table.some(random)),
        "UPDATE IGNORE" => {
            format!("UPDATE IGNORE {name} SET {} WHERE {}", table.set(random), table.some(random))
        }
        "UPDATE of two" => match random.random_range(0..3) {
            0 => format!(
                "UPDATE p JOIN c ON c.p = p.id SET p.v = p.v + 1, c.{} WHERE p.id = {}",
                SHARED[2].set(random).replace(", ", ", c."),
                SHARED[1].id(random)
            ),
            1 => format!(
                "UPDATE g JOIN p ON p.g = g.id SET g.{}, p.v = p.v + 1 WHERE g.id = {}",
                SHARED[0].set(random).replace(", ", ", g."),
                SHARED[0].id(random)
            ),
            _ => format!(
                "UPDATE g JOIN p ON p.gk = g.k SET p.{} WHERE g.id = {}",
                SHARED[1].set(random).replace(", ", ", p."),
                SHARED[0].id(random)
            ),
        },
        "DELETE" => format!("DELETE FROM {name} WHERE id = {}", table.id(random)),
        "DELETE of rows" => format!("DELETE FROM {name} WHERE {}", table.some(random)),
        "DELETE IGNORE" => format!("DELETE IGNORE FROM {name} WHERE {}", table.some(random)),
        "DELETE of two" => match random.random_range(0..4) {
            0 => format!("DELETE p, c FROM p JOIN c ON c.p = p.id WHERE p.id = {}", SHARED[1].id(random)),
            1 => format!("DELETE c, p FROM c JOIN p ON c.p = p.id WHERE p.id = {}", SHARED[1].id(random)),
            2 => format!("DELETE g, p FROM g JOIN p ON p.g = g.id WHERE g.id = {}", SHARED[0].id(random)),
            _ => format!("DELETE c FROM c JOIN p ON c.p = p.id WHERE p.gk = {}", SHARED[0].id(random)),
        },
        "SELECT" => format!("SELECT COUNT(*), SUM(v) FROM {name} WHERE {}", table.some(random)),
        _ => format!("SELECT id FROM {name} WHERE {} FOR UPDATE", table.some(random)),
    }
}

/// Statements to fill the tables, parents first.
pub(super) fn fill(random: &mut StdRng) -> Vec<String> {
    let ids = |table: &Shared| 1..=table.ids;
    let mut statements = Vec::new();
    for table in &SHARED {
        for id in ids(table) {
            let columns: Vec<String> = table.columns.iter().map(|column| column.value(random)).collect();
            // Rows whose reference is missing, or whose unique value is there, are left out.
            statements.push(format!("{} VALUES ({id}, {})", table.into("INSERT IGNORE"), columns.join(", ")));
        }
    }
    statements
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_kind_is_drawn() {
        let mut random = StdRng::seed_from_u64(1);
        let drawn: BTreeSet<&str> = (0..2000).map(|_| draw(&mut random).0).collect();
        assert_eq!(drawn, KINDS.into_iter().collect());
    }

    #[test]
    fn a_seed_gives_the_same_statements() {
        let of = |seed| {
            let mut random = StdRng::seed_from_u64(seed);
            (0..50).map(|_| draw(&mut random).1).collect::<Vec<_>>()
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }
}
