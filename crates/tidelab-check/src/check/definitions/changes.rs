//! Random changes of linked tables, each with its possible outcomes.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::RngExt;

use super::linked::{database, Actions, Linked, Table, BY_CODE, BY_ID, KEYS, REFERENCED, TO_SELF};

/// The changes: each must have been answered at least once in a long run.
pub(super) const KINDS: [&str; 26] = [
    "CREATE DATABASE",
    "CREATE parent",
    "CREATE parent again",
    "CREATE child",
    "CREATE child first",
    "DROP child",
    "DROP parent",
    "DROP parent of a child",
    "DROP DATABASE",
    "RENAME parent",
    "RENAME child",
    "RENAME both",
    "RENAME and more",
    "RENAME COLUMN of parent",
    "RENAME COLUMN of child",
    "COPY parent",
    "COPY child",
    "more of parent",
    "more of child",
    "ADD FOREIGN KEY",
    "ADD FOREIGN KEY in place",
    "DROP FOREIGN KEY",
    "DROP FOREIGN KEY by copy",
    "SWAP FOREIGN KEY",
    "TRUNCATE parent",
    "TRUNCATE child",
];

/// A statement on the tables.
pub(super) struct Change {
    pub(super) kind: &'static str,
    /// `foreign_key_checks`.
    pub(super) checks: bool,
    pub(super) statement: String,
    /// The tables when it is done.
    pub(super) after: Linked,
    /// Further states possible after a kill: the server drops the tables of a database one by one, and gives
    /// a changed table its new name afterwards.
    pub(super) between: Vec<Linked>,
}

impl Actions {
    /// Those of a foreign key; a change does not go to its table of origin.
    fn draw(key: &str, random: &mut StdRng) -> Actions {
        const ALL: [&str; 4] = ["RESTRICT", "NO ACTION", "CASCADE", "SET NULL"];
        let mut any = || ALL.choose(random).copied().unwrap_or("RESTRICT");
        Actions { delete: any(), update: if key == TO_SELF { "RESTRICT" } else { any() } }
    }
}

/// A change of a client's tables.
pub(super) fn draw(client: usize, now: &Linked, random: &mut StdRng) -> Change {
    let any = random.random_bool(0.5);
    let change =
        |kind, checks, statement, after| Change { kind, checks, statement, after, between: Vec::new() };
    let mut after = now.clone();
    if let Some(away) = now.databases.iter().position(|there| !there) {
        after.databases[away] = true;
        return change("CREATE DATABASE", any, format!("CREATE DATABASE {}", database(client, away)), after);
    }
    let (parent, child) = match (&now.parent, &now.child) {
        (Some(parent), Some(child)) => (parent, child),
        // Now and then the child comes before its parent, as in a dump.
        (None, None) if random.random_bool(0.3) => return create_child(client, now, random),
        (None, _) if random.random_bool(0.7) => return create_parent(client, now, random),
        (Some(_), None) if random.random_bool(0.7) => return create_child(client, now, random),
        (Some(parent), None) => return parent_alone(client, now, parent, random),
        (None, Some(child)) => return child_alone(client, now, child, random),
        (None, None) => return create_parent(client, now, random),
    };
    match random.random_range(0..24) {
        0 => drop_database(client, now, random),
        1 => {
            let names = |table: &mut Table, name| std::mem::replace(&mut table.name, name);
            let (p, c) = (free(client, "p", &parent.name, random), free(client, "c", &child.name, random));
            after.referred.0.clone_from(&p);
            let was = after.parent.as_mut().map(|table| names(table, p.clone())).unwrap_or_default();
            let were = after.child.as_mut().map(|table| names(table, c.clone())).unwrap_or_default();
            change("RENAME both", any, format!("RENAME TABLE {were} TO {c}, {was} TO {p}"), after)
        }
        2..=9 => of_keys(now, child, random),
        10..=16 => parent_alone(client, now, parent, random),
        _ => child_alone(client, now, child, random),
    }
}

/// Another name of a table's kind, in one of both databases.
fn free(client: usize, letter: &str, own: &str, random: &mut StdRng) -> String {
    loop {
        let away = usize::from(random.random_bool(0.3));
        let name = format!("{}.{letter}{}", database(client, away), random.random_range(0..3));
        if name != own {
            return name;
        }
    }
}

fn create_parent(client: usize, now: &Linked, random: &mut StdRng) -> Change {
    let mut after = now.clone();
    let again = now.is_referenced();
    if !again {
        after.referred = (free(client, "p", "", random), "id");
    }
    let rows = if random.random_bool(0.2) { 0 } else { random.random_range(REFERENCED..40) };
    let (name, column) = after.referred.clone();
    let statement = format!(
        "CREATE TABLE {name} ({column} INT PRIMARY KEY, code INT, UNIQUE by_code (code)) ENGINE=TidesDB \
         SELECT seq AS {column}, seq * 10 AS code FROM source.numbers WHERE seq <= {rows}"
    );
    after.parent = Some(Table { name, column, more: false, rows });
    Change {
        kind: if again { "CREATE parent again" } else { "CREATE parent" },
        checks: random.random_bool(0.5),
        statement,
        after,
        between: Vec::new(),
    }
}

fn create_child(client: usize, now: &Linked, random: &mut StdRng) -> Change {
    let mut after = now.clone();
    let rows = random.random_range(1..40);
    let name = free(client, "c", "", random);
    after.child = Some(Table { name: name.clone(), column: "ref", more: false, rows });
    match &now.parent {
        Some(parent) => after.referred = (parent.name.clone(), parent.column),
        None => after.referred = (free(client, "p", "", random), "id"),
    }
    let mut clauses = String::new();
    for key in KEYS {
        if random.random_bool(0.6) {
            let actions = Actions::draw(key, random);
            after.keys.insert(key, actions);
            clauses.push_str(&format!(", {}", after.clause(key, actions)));
        }
    }
    let alone = after.is_referenced() && after.parent.is_none();
    let checked = !after.is_referenced() || after.has_no_orphans();
    Change {
        kind: if alone { "CREATE child first" } else { "CREATE child" },
        checks: checked && random.random_bool(0.5),
        statement: format!(
            "CREATE TABLE {name} (id INT PRIMARY KEY, up INT, ref INT, code INT, KEY to_self (up), KEY by_id (ref), \
             KEY by_code (code){clauses}) ENGINE=TidesDB SELECT seq AS id, NULLIF(seq - 1, 0) AS up, \
             seq % {REFERENCED} + 1 AS ref, 10 * (seq % {REFERENCED} + 1) AS code FROM source.numbers WHERE seq <= {rows}"
        ),
        after,
        between: Vec::new(),
    }
}

fn drop_database(client: usize, now: &Linked, random: &mut StdRng) -> Change {
    let away = usize::from(random.random_bool(0.5));
    let database = database(client, away);
    let (parent, child) = now.within(&database);
    // A child elsewhere keeps its parent.
    let refused = parent && !child && now.is_referenced();
    let without = |parent, child| {
        let mut left = now.clone();
        left.forget(parent, child);
        left
    };
    let mut after = without(parent, child);
    after.databases[away] = false;
    Change {
        kind: "DROP DATABASE",
        checks: !refused && random.random_bool(0.5),
        statement: format!("DROP DATABASE {database}"),
        after,
        between: vec![without(parent, false), without(false, child), without(parent, child)],
    }
}

/// A change of the parent's definition, or its end.
fn parent_alone(client: usize, now: &Linked, parent: &Table, random: &mut StdRng) -> Change {
    let mut after = now.clone();
    let name = &parent.name;
    let (mut kind, mut checks) = ("", random.random_bool(0.5));
    let mut changed = parent.clone();
    let statement = match random.random_range(0..10) {
        0 | 1 => {
            after.parent = None;
            kind = if now.is_referenced() { "DROP parent of a child" } else { "DROP parent" };
            checks &= !now.is_referenced();
            return Change {
                kind,
                checks,
                statement: format!("DROP TABLE {name}"),
                after,
                between: Vec::new(),
            };
        }
        2 | 3 => {
            kind = "RENAME parent";
            changed.name = free(client, "p", name, random);
            format!("RENAME TABLE {name} TO {}", changed.name)
        }
        4 | 5 => {
            kind = "RENAME COLUMN of parent";
            changed.column = if parent.column == "id" { "nr" } else { "id" };
            rename_column(parent, changed.column, random)
        }
        6 => {
            kind = "TRUNCATE parent";
            checks &= !now.is_referenced();
            changed.rows = 0;
            format!("TRUNCATE TABLE {name}")
        }
        _ => more(client, "p", &mut changed, &mut kind, ["COPY parent", "more of parent"], random),
    };
    after.referred = (changed.name.clone(), changed.column);
    let between =
        not_renamed(kind, now, |half| half.parent = Some(Table { name: name.clone(), ..changed.clone() }));
    after.parent = Some(changed);
    Change { kind, checks, statement, after, between }
}

/// A change of the child's definition, or its end; its foreign keys stay.
fn child_alone(client: usize, now: &Linked, child: &Table, random: &mut StdRng) -> Change {
    let mut after = now.clone();
    let name = &child.name;
    let (mut kind, mut checks) = ("", random.random_bool(0.5));
    let mut changed = child.clone();
    let statement = match random.random_range(0..8) {
        0 => {
            after.forget(false, true);
            let statement = format!("DROP TABLE {name}");
            return Change { kind: "DROP child", checks, statement, after, between: Vec::new() };
        }
        1 | 2 => {
            kind = "RENAME child";
            changed.name = free(client, "c", name, random);
            format!("RENAME TABLE {name} TO {}", changed.name)
        }
        3 | 4 => {
            kind = "RENAME COLUMN of child";
            changed.column = if child.column == "ref" { "link" } else { "ref" };
            rename_column(child, changed.column, random)
        }
        5 if random.random_bool(0.3) => {
            kind = "TRUNCATE child";
            changed.rows = 0;
            format!("TRUNCATE TABLE {name}")
        }
        _ => more(client, "c", &mut changed, &mut kind, ["COPY child", "more of child"], random),
    };
    // A copy looks each row's parent up.
    checks &= !now.is_referenced() || now.has_no_orphans();
    let between =
        not_renamed(kind, now, |half| half.child = Some(Table { name: name.clone(), ..changed.clone() }));
    after.child = Some(changed);
    Change { kind, checks, statement, after, between }
}

/// An ALTER in place with a new name of the table, killed between the two: the table has its new definition under its
/// old name, with every engine. The server's recovery renames only where it finds the new definition's file not yet
/// in its place (11.8.6, `DDL_ALTER_TABLE_PHASE_INPLACE`).
fn not_renamed(kind: &str, now: &Linked, put: impl FnOnce(&mut Linked)) -> Vec<Linked> {
    if kind != "RENAME and more" {
        return Vec::new();
    }
    let mut half = now.clone();
    put(&mut half);
    vec![half]
}

/// The column of a table gets another name.
fn rename_column(table: &Table, to: &str, random: &mut StdRng) -> String {
    format!("ALTER TABLE {} RENAME COLUMN {} TO {to}, {}", table.name, table.column, in_place(random))
}

fn in_place(random: &mut StdRng) -> &'static str {
    ["ALGORITHM=INSTANT", "ALGORITHM=INPLACE"].choose(random).copied().unwrap_or("ALGORITHM=INSTANT")
}

/// An ALTER by copy, of one column in place, or of one in place with a new name of the table. Not by copy with a new name:
/// where others refer to the table the server keeps a backup, of which its recovery knows nothing (11.8.6,
/// `DDL_ALTER_TABLE_PHASE_OLD_RENAMED`). A kill leaves that as `#sql-backup-*`, with every engine.
fn more(
    client: usize,
    letter: &str,
    table: &mut Table,
    kind: &mut &'static str,
    [copy, in_place]: [&'static str; 2],
    random: &mut StdRng,
) -> String {
    let name = table.name.clone();
    *kind = copy;
    if random.random_bool(0.3) {
        return format!("ALTER TABLE {name} FORCE, ALGORITHM=COPY");
    }
    let column = if table.more { "DROP COLUMN more" } else { "ADD COLUMN more INT DEFAULT 5" };
    table.more = !table.more;
    let algorithm = if random.random_bool(0.6) {
        "COPY"
    } else {
        *kind = in_place;
        "INSTANT"
    };
    if algorithm != "COPY" && random.random_bool(0.7) {
        *kind = "RENAME and more";
        table.name = free(client, letter, &name, random);
        return format!("ALTER TABLE {name} {column}, RENAME TO {}, ALGORITHM={algorithm}", table.name);
    }
    format!("ALTER TABLE {name} {column}, ALGORITHM={algorithm}")
}

/// A foreign key comes, goes, or takes the place of another one.
fn of_keys(now: &Linked, child: &Table, random: &mut StdRng) -> Change {
    let mut after = now.clone();
    let key = KEYS.choose(random).copied().unwrap_or(BY_ID);
    let name = &child.name;
    let actions = Actions::draw(key, random);
    if !now.is_referenced() {
        if let Some(parent) = &now.parent {
            after.referred = (parent.name.clone(), parent.column);
        }
    }
    let in_place = random.random_bool(0.5);
    // By copy its rows are looked up, in place none is.
    let checks = !in_place && now.has_no_orphans() && random.random_bool(0.7);
    let there = now.keys.contains_key(key);
    let swap = there && random.random_bool(0.3);
    if there && !swap {
        after.keys.remove(key);
        let (kind, algorithm) =
            if in_place { ("DROP FOREIGN KEY", "INSTANT") } else { ("DROP FOREIGN KEY by copy", "COPY") };
        let statement = format!("ALTER TABLE {name} DROP FOREIGN KEY {key}, ALGORITHM={algorithm}");
        return Change { kind, checks: checks || in_place, statement, after, between: Vec::new() };
    }
    after.keys.insert(key, actions);
    let algorithm = if in_place { "INPLACE" } else { "COPY" };
    let (kind, first) = match (swap, in_place) {
        (true, _) => ("SWAP FOREIGN KEY", format!("DROP FOREIGN KEY {key}, ")),
        (false, true) => ("ADD FOREIGN KEY in place", String::new()),
        (false, false) => ("ADD FOREIGN KEY", String::new()),
    };
    let statement =
        format!("ALTER TABLE {name} {first}ADD {}, ALGORITHM={algorithm}", after.clause(key, actions));
    Change { kind, checks, statement, after, between: Vec::new() }
}

/// The foreign keys to the parent.
pub(super) const TO_PARENT: [&str; 2] = [BY_ID, BY_CODE];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_kind_comes_up_and_changes_something_that_is_shown() {
        let mut random = StdRng::seed_from_u64(1);
        let mut now = Linked::new(0);
        let mut seen = BTreeSet::new();
        for _ in 0..5000 {
            let Change { kind, checks, statement, after, between } = draw(0, &now, &mut random);
            seen.insert(kind);
            if kind == "DROP parent of a child" || kind == "ADD FOREIGN KEY in place" {
                assert!(!checks, "{statement}");
            }
            if checks && kind == "COPY child" && now.is_referenced() {
                assert!(now.has_no_orphans(), "{statement}");
            }
            let in_steps = ["DROP DATABASE", "RENAME and more"].contains(&kind);
            assert_eq!(between.is_empty(), !in_steps, "{statement}");
            assert!(after.parent.as_ref().is_none_or(|p| p.name == after.referred.0), "{statement}");
            now = after;
        }
        assert_eq!(seen, KINDS.into_iter().collect());
    }
}
