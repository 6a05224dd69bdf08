//! Random changes of a table's definition, each with the table as it is when the server accepts it.

use super::dice::Dice;
use super::kinds::Kind;
use super::link::{is_parent, linked_columns};
use super::marks::{list, maybe};
use super::program::{Sort, Step};
use super::schema::{Column, Key, Table};

/// An ALTER of one to three actions, or another statement on the definition.
pub(super) fn alter(dice: &mut Dice, table: &Table, tables: &[Table]) -> (Step, Table) {
    let mut after = table.clone();
    if table.partitions.is_some() && dice.one_in(3) {
        return partitions(dice, after);
    }
    // Columns of foreign keys have definitions of their own (`link_change`).
    let mut used = linked_columns(table, tables);
    let actions: Vec<String> =
        (0..*dice.pick(&[1, 1, 1, 2, 3])).filter_map(|_| action(dice, &mut after, &mut used)).collect();
    if actions.is_empty() {
        return (
            Step::new(Sort::Definition, format!("ALTER TABLE {} FORCE", table.name)).innodb_copies(),
            after,
        );
    }
    let copy = if dice.one_in(5) { maybe(", ALGORITHM=COPY") } else { String::new() };
    let text = format!("ALTER TABLE {} {}{copy}", table.name, list(", ", actions));
    let step = Step::new(Sort::Definition, text);
    (if copy.is_empty() { step.innodb_copies() } else { step }, after)
}

/// TRUNCATE, or a new name and back.
pub(super) fn empty(dice: &mut Dice, table: &Table, tables: &[Table]) -> Step {
    // Whether children let all of a table's rows go depends on their order.
    let how = if dice.one_in(2) || is_parent(table, tables) { "TRUNCATE TABLE" } else { "DELETE FROM" };
    Step::new(Sort::Definition, format!("{how} {}", table.name))
}

fn partitions(dice: &mut Dice, mut after: Table) -> (Step, Table) {
    let ranges = after.partitions.as_ref().is_some_and(|p| p.contains("RANGE"));
    let action = match dice.number(0, 3) {
        0 => {
            after.partitions = None;
            "REMOVE PARTITIONING"
        }
        // InnoDB gives each partition of a copy the table's next number, and one that is emptied takes it away only there.
        1 if !after.columns.iter().any(|column| column.auto_increment) => "TRUNCATE PARTITION p0",
        2 if !ranges => "ADD PARTITION PARTITIONS 1",
        3 if !ranges => "COALESCE PARTITION 1",
        _ => "REORGANIZE PARTITION p0 INTO (PARTITION p0 VALUES LESS THAN (2), PARTITION q VALUES LESS THAN (5))",
    };
    (Step::new(Sort::Definition, format!("ALTER TABLE {} {action}", after.name)), after)
}

/// An action on columns and keys untouched by the statement's other actions.
fn action(dice: &mut Dice, t: &mut Table, used: &mut Vec<String>) -> Option<String> {
    let free: Vec<Column> = t.columns.iter().filter(|c| !used.contains(&c.name)).cloned().collect();
    // Nor a key that loses a column: without its last one the key goes, and in place the server then misses it (1176).
    let key = {
        let touched = |key: &Key| key.parts.iter().any(|part| used.contains(&part.column));
        let keys: Vec<&Key> = t.keys.iter().filter(|k| !used.contains(&k.name) && !touched(k)).collect();
        (!keys.is_empty()).then(|| (*dice.pick(&keys)).clone())
    };
    let choice = dice.number(0, 39);
    if choice < 9 || free.is_empty() {
        let name = t.fresh("c");
        used.push(name.clone());
        let column = if choice < 2 && !free.is_empty() {
            let base = dice.pick(&free).clone();
            used.push(base.name.clone());
            Column::generated(dice, name, &base)
        } else {
            Column::random(dice, name)
        };
        return Some(add_column(dice, t, column));
    }
    let column = dice.pick(&free).clone();
    match choice {
        9..=21 | 35 => column_action(dice, t, used, choice, &column),
        22..=34 => key_action(dice, t, used, choice, key),
        36 => Some(format!("AUTO_INCREMENT = {}", dice.number(1, 200))),
        37 => Some(format!("COMMENT = 'c{}'", dice.number(1, 9))),
        38 => Some("FORCE".to_string()),
        _ => None,
    }
}

/// An action on a column untouched by other actions.
fn column_action(
    dice: &mut Dice,
    t: &mut Table,
    used: &mut Vec<String>,
    choice: i64,
    column: &Column,
) -> Option<String> {
    match choice {
        9..=12 if t.columns.len() > 2 => {
            used.push(column.name.clone());
            drop_column(t, &column.name);
            Some(t.tagged(&column.name, &format!("DROP COLUMN {}", column.name)))
        }
        13 | 14 => {
            let new = t.fresh("c");
            used.extend([column.name.clone(), new.clone()]);
            rename_column(t, &column.name, &new);
            Some(format!("RENAME COLUMN {} TO {new}", column.name))
        }
        15..=18 if column.is_base() && !column.auto_increment => {
            used.push(column.name.clone());
            let mut changed = Column::random(dice, column.name.clone());
            if dice.one_in(2) {
                changed = Column { kind: larger(&column.kind), ..column.clone() };
                changed.null |= dice.one_in(3);
            }
            let place = place(dice, t, &column.name);
            let text = format!("MODIFY {}{}", changed.sql(), maybe(&place.sql));
            let tagged = t.tagged(&column.name, &text);
            put(t, changed, &place);
            Some(tagged)
        }
        19 | 20 if column.is_base() && !column.auto_increment && column.kind.comparable() => {
            used.push(column.name.clone());
            let value = column.kind.compared(dice);
            if let Some(c) = t.columns.iter_mut().find(|c| c.name == column.name) {
                c.default = Some(value.clone());
            }
            Some(t.tagged(&column.name, &format!("ALTER {} SET DEFAULT {value}", column.name)))
        }
        21 => {
            used.push(column.name.clone());
            if let Some(c) = t.columns.iter_mut().find(|c| c.name == column.name) {
                c.default = None;
            }
            Some(t.tagged(&column.name, &format!("ALTER {} DROP DEFAULT", column.name)))
        }
        35 if column.kind.is_integer() => {
            used.push(column.name.clone());
            let unlucky = dice.number(30, 40);
            Some(t.tagged(&column.name, &format!("ADD CHECK ({} <> {unlucky})", column.name)))
        }
        _ => None,
    }
}

/// An action on keys; `key` is untouched by other actions.
fn key_action(
    dice: &mut Dice,
    t: &mut Table,
    used: &mut Vec<String>,
    choice: i64,
    key: Option<Key>,
) -> Option<String> {
    match choice {
        22..=27 => {
            let key = t.random_key(dice)?;
            if key.parts.iter().any(|p| used.contains(&p.column)) {
                return None;
            }
            use_key(used, &key);
            let text = format!("ADD {}", t.key_sql(&key));
            t.keys.push(key);
            Some(text)
        }
        28..=30 => {
            let key = key?;
            use_key(used, &key);
            t.keys.retain(|k| k.name != key.name);
            Some(format!("DROP KEY {}", key.name))
        }
        31 => {
            let key = key?;
            let new = t.fresh("k");
            use_key(used, &key);
            used.push(new.clone());
            if let Some(k) = t.keys.iter_mut().find(|k| k.name == key.name) {
                k.name.clone_from(&new);
            }
            Some(format!("RENAME KEY {} TO {new}", key.name))
        }
        32 => {
            let key = key?;
            use_key(used, &key);
            let ignored = dice.one_in(2);
            if let Some(k) = t.keys.iter_mut().find(|k| k.name == key.name) {
                k.ignored = ignored;
            }
            Some(format!("ALTER INDEX {} {}", key.name, if ignored { "IGNORED" } else { "NOT IGNORED" }))
        }
        33 if t.primary.is_some() && t.partitions.is_none() && !t.versioned && used.is_empty() => {
            t.primary = None;
            used.extend(t.columns.iter().map(|c| c.name.clone()));
            Some("DROP PRIMARY KEY".to_string())
        }
        33 | 34 if t.primary.is_none() && used.is_empty() => {
            let n = dice.count(1, 2);
            let parts = t.random_parts(dice, n, true);
            if parts.is_empty() {
                return None;
            }
            used.extend(t.columns.iter().map(|c| c.name.clone()));
            for part in &parts {
                if let Some(c) = t.columns.iter_mut().find(|c| c.name == part.column) {
                    c.null = false;
                }
            }
            let text = format!("ADD PRIMARY KEY ({})", t.parts_sql(&parts));
            t.primary = Some(parts);
            Some(text)
        }
        _ => None,
    }
}

/// No other action touches the key or its columns.
fn use_key(used: &mut Vec<String>, key: &Key) {
    used.push(key.name.clone());
    used.extend(key.parts.iter().map(|part| part.column.clone()));
}

/// A column's place: the text, and the column before it (none: it is the first, or stays).
struct Place {
    sql: String,
    first: bool,
    after: Option<String>,
}

fn place(dice: &mut Dice, t: &Table, itself: &str) -> Place {
    let others: Vec<String> = t.columns.iter().map(|c| c.name.clone()).filter(|n| n != itself).collect();
    match dice.number(0, 5) {
        0 => Place { sql: " FIRST".to_string(), first: true, after: None },
        1 | 2 if !others.is_empty() => {
            let after = dice.pick(&others).clone();
            Place { sql: format!(" AFTER {after}"), first: false, after: Some(after) }
        }
        _ => Place { sql: String::new(), first: false, after: None },
    }
}

fn add_column(dice: &mut Dice, t: &mut Table, column: Column) -> String {
    let place = place(dice, t, &column.name);
    let text = t.tagged(&column.name, &format!("ADD COLUMN {}{}", column.sql(), maybe(&place.sql)));
    put(t, column, &place);
    text
}

/// Puts a column where it goes, in the place of the one of its name.
fn put(t: &mut Table, column: Column, place: &Place) {
    let old = t.columns.iter().position(|c| c.name == column.name);
    if let Some(i) = old {
        t.columns.remove(i);
    }
    let at = if place.first {
        0
    } else if let Some(after) = &place.after {
        t.columns.iter().position(|c| c.name == *after).map_or(t.columns.len(), |i| i + 1)
    } else {
        old.unwrap_or(t.columns.len())
    };
    t.columns.insert(at, column);
}

fn drop_column(t: &mut Table, name: &str) {
    t.columns.retain(|c| c.name != name);
    for key in &mut t.keys {
        key.parts.retain(|p| p.column != name);
    }
    t.keys.retain(|k| !k.parts.is_empty());
    if let Some(parts) = &mut t.primary {
        parts.retain(|p| p.column != name);
        if parts.is_empty() {
            t.primary = None;
        }
    }
}

pub(super) fn rename_column(t: &mut Table, old: &str, new: &str) {
    for column in &mut t.columns {
        if column.name == old {
            column.name = new.to_string();
        }
        if let Some(generated) = &mut column.generated {
            generated.expression = rename_word(&generated.expression, old, new);
        }
        if let Some(check) = &mut column.check {
            *check = rename_word(check, old, new);
        }
    }
    for column in t.links.iter_mut().flat_map(|link| &mut link.columns).filter(|column| *column == old) {
        *column = new.to_string();
    }
    for part in t.keys.iter_mut().flat_map(|k| &mut k.parts).chain(t.primary.iter_mut().flatten()) {
        if part.column == old {
            part.column = new.to_string();
        }
    }
}

/// The text with a name replaced where it stands as a whole.
fn rename_word(text: &str, old: &str, new: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(std::iter::once('\0')) {
        if is_word(c) {
            word.push(c);
            continue;
        }
        out.push_str(if word == old { new } else { &word });
        word.clear();
        if c != '\0' {
            out.push(c);
        }
    }
    out
}

/// The next larger type of the same kind, where there is one.
fn larger(kind: &Kind) -> Kind {
    match kind {
        Kind::Varchar(n, c) => Kind::Varchar(n + 70, c),
        Kind::Char(n, c) => Kind::Char((n + 5).min(60), c),
        Kind::Varbinary(n) => Kind::Varbinary(n + 200),
        Kind::Integer(_, _, attributes) => Kind::Integer("BIGINT", 8, attributes),
        Kind::Decimal(_, scale, attributes) => Kind::Decimal(25, *scale, attributes),
        Kind::Text(_, c) => Kind::Text("LONGTEXT", c),
        Kind::Blob(_) => Kind::Blob("LONGBLOB"),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::marks::plain;
    use super::*;

    #[test]
    fn names_are_replaced_as_words() {
        assert_eq!(rename_word("LEFT(c1, 2) + c10", "c1", "x"), "LEFT(x, 2) + c10");
        assert_eq!(rename_word("c1", "c1", "x"), "x");
    }

    #[test]
    fn the_model_follows_what_is_dropped_and_renamed() {
        let mut renamed = 0;
        for seed in 0..3000 {
            let mut dice = Dice::new(seed);
            let table = Table::random(&mut dice, "t");
            let (step, after) = alter(&mut dice, &table, &[]);
            let text = plain(&step.text);
            for part in after.keys.iter().flat_map(|k| &k.parts).chain(after.primary.iter().flatten()) {
                assert!(after.column(&part.column).is_some(), "{text}: {part:?}");
            }
            if let Some((_, rest)) = text.split_once("RENAME COLUMN ") {
                let old = rest.split(' ').next().unwrap();
                assert!(table.column(old).is_some() && after.column(old).is_none(), "{text}");
                renamed += 1;
            }
        }
        assert!(renamed > 20);
    }
}
