//! Random changes of rows.
//!
//! A statement stopped in the middle, or passing over a row with IGNORE, depends on the order of the rows. It
//! gets a total order. Such are changes of a unique key to more than one constant, those with a LIMIT, and
//! those of referenced rows.

use super::condition::{alike, condition, joining_for_change};
use super::dice::Dice;
use super::link::{by_link, is_parent, meets_itself, reached, renews_a_link, without_links};
use super::marks::{list, maybe};
use super::program::{Sort, Step};
use super::schema::{Column, Table};

/// A change of one of the tables, or of two, in a transaction of this level.
pub(super) fn change(dice: &mut Dice, tables: &[Table], level: &str) -> Step {
    let t = dice.pick(tables).clone();
    match dice.number(0, 19) {
        0..=6 => {
            let rows = dice.count(1, 6);
            insert(dice, &t, rows, level)
        }
        7 => insert_select(dice, &t, tables, level),
        8..=13 => update(dice, &t, tables),
        14..=16 => delete(dice, &t, tables),
        17 => update_two(dice, &t, tables).unwrap_or_else(|| update(dice, &t, tables)),
        18 => delete_two(dice, &t, tables).unwrap_or_else(|| delete(dice, &t, tables)),
        _ => {
            let rows = dice.count(1, 3);
            insert(dice, &t, rows, level)
        }
    }
}

/// A row of it can meet another one by another key than the primary, and lack its parent.
fn is_unique_child(t: &Table) -> bool {
    !t.links.is_empty() && t.keys.iter().any(|key| key.unique)
}

/// REPLACE in a table with a key unique by a hash is a special case of InnoDB.
///
/// Below REPEATABLE READ, InnoDB looks for such keys when the row is written already. REPLACE is then refused
/// with 1062 or 1032, or counts other rows, depending on the other keys. The server also gives back unused
/// numbers reserved for the rows of a query.
fn may_replace(t: &Table, level: &str, of_query: bool) -> bool {
    let below = ["READ UNCOMMITTED", "READ COMMITTED"].contains(&level);
    let numbered = of_query && t.columns.iter().any(|column| column.auto_increment);
    // The server makes an UPDATE of it, which looks for the parent in InnoDB alone (`settable`).
    if t.orphans && is_unique_child(t) {
        return false;
    }
    !t.keys.iter().any(|key| key.hash) || !(below || numbered)
}

fn returning(dice: &mut Dice, t: &Table, often: u32) -> String {
    if dice.one_in(often) {
        let n = dice.count(1, 3);
        let some = dice.some(&t.columns, n);
        return maybe(&format!(" RETURNING {}", list(", ", some.iter().map(|c| t.tagged(&c.name, &c.name)))));
    }
    String::new()
}

/// Rows to fill a table.
pub(super) fn fill(dice: &mut Dice, t: &Table, rows: usize) -> Step {
    let columns = t.base();
    Step::new(Sort::Change, values(dice, "INSERT IGNORE", t, &columns, rows)).ordered(true)
}

fn insert(dice: &mut Dice, t: &Table, rows: usize, level: &str) -> Step {
    let mut columns = t.base();
    if dice.one_in(4) {
        let n = dice.count(1, columns.len());
        columns = dice.some(&columns, n);
    }
    let verb = dice.word(&["INSERT", "INSERT", "INSERT IGNORE", "INSERT IGNORE", "REPLACE"]);
    let verb = if verb == "REPLACE" && !may_replace(t, level, false) { "INSERT" } else { verb };
    let mut text = values(dice, verb, t, &columns, rows);
    // Of two keys that a row meets, the engines find one by a hash of the whole value first or last.
    // Of a row that meets another one and lacks its parent InnoDB tells of the first by the primary key only.
    if verb != "REPLACE" && !is_unique_child(t) && !t.keys.iter().any(|k| k.hash) && dice.one_in(4) {
        let target = dice.pick(&settable(t)).clone();
        let value = match dice.number(0, 2) {
            0 => format!("VALUES({})", target.name),
            _ => target.value(dice),
        };
        text.push_str(&maybe(&format!(" ON DUPLICATE KEY UPDATE {} = {value}", target.name)));
    }
    text.push_str(&returning(dice, t, 6));
    Step::new(Sort::Change, text).ordered(true)
}

/// Numbers of AUTO_INCREMENT are given in all rows or in none. After a given number the server reserves
/// others anew, more than InnoDB then takes, and the next statement's would differ.
fn values(dice: &mut Dice, verb: &str, t: &Table, columns: &[Column], rows: usize) -> String {
    let numbered = dice.one_in(4) && t.may_number();
    let rows: Vec<String> = (0..rows)
        .map(|_| {
            let value = |c: &Column, dice: &mut Dice| match (c.auto_increment, numbered) {
                (true, true) => dice.number(1, 60).to_string(),
                (true, false) => dice.word(&["NULL", "NULL", "0", "DEFAULT"]).to_string(),
                (false, _) => c.value(dice),
            };
            let values: Vec<String> = columns.iter().map(|c| t.tagged(&c.name, &value(c, dice))).collect();
            format!("({})", list(", ", values))
        })
        .collect();
    format!(
        "{verb} INTO {} ({}) VALUES {}",
        t.name,
        list(", ", columns.iter().map(|c| t.tagged(&c.name, &c.name))),
        list(", ", rows)
    )
}

fn insert_select(dice: &mut Dice, t: &Table, tables: &[Table], level: &str) -> Step {
    let source = dice.pick(tables).clone();
    let targets = t.base();
    let mut expressions = Vec::new();
    for target in &targets {
        let fits = |c: &&Column| alike(&c.kind, &target.kind) && !source.has_virtual_in_key(&c.name);
        let fitting: Vec<&Column> = source.columns.iter().filter(fits).collect();
        let expression = if target.auto_increment {
            "NULL".to_string()
        } else if fitting.is_empty() || dice.one_in(6) {
            target.kind.compared(dice)
        } else {
            dice.pick(&fitting).name.clone()
        };
        expressions.push(t.tagged(&target.name, &expression));
    }
    let verb = dice.word(&["INSERT", "INSERT IGNORE", "INSERT IGNORE", "REPLACE"]);
    // What REPLACE does to the rows of its query depends on when they are read.
    let reads_changes = source.name != t.name && reached(t, tables).contains(&source.name);
    let refused = reads_changes || !may_replace(t, level, true);
    let verb = if verb == "REPLACE" && refused { "INSERT" } else { verb };
    let filter = maybe(&format!(" WHERE {}", condition(dice, &source.without_virtual_in_keys(), "")));
    let text = format!(
        "{verb} INTO {} ({}) SELECT {} FROM {}{filter} ORDER BY {} LIMIT {}",
        t.name,
        list(", ", targets.iter().map(|c| t.tagged(&c.name, &c.name))),
        list(", ", expressions),
        source.name,
        source.total_order(dice, ""),
        dice.number(1, 30)
    );
    Step::new(Sort::Change, text).ordered(true)
}

/// A column's new value, and whether it is the same for all rows.
fn new_value(dice: &mut Dice, t: &Table, column: &Column) -> (String, bool) {
    let n = &column.name;
    match dice.number(0, 7) {
        0 if column.kind.is_integer() => (format!("{n} + 1"), false),
        1 if column.kind.is_integer() => (format!("{n} - {}", dice.number(1, 3)), false),
        0 if column.kind.is_text() => (format!("CONCAT({n}, 'x')"), false),
        1 if column.kind.is_text() => (format!("LEFT({n}, 1)"), false),
        2 => {
            let others: Vec<&Column> =
                t.columns.iter().filter(|c| c.name != *n && alike(&c.kind, &column.kind)).collect();
            if others.is_empty() {
                (column.value(dice), true)
            } else {
                (dice.pick(&others).name.clone(), false)
            }
        }
        _ => (column.value(dice), true),
    }
}

/// Columns for changes, without those of AUTO_INCREMENT. TidesDB does not hand out again a number given to a
/// row by an UPDATE. InnoDB does when the statement fails or the table has partitions.
///
/// Of a row without its parent InnoDB looks for the parent again when another column of the key's index changes, or the
/// primary key. TidesDB does when the foreign key's own columns change.
fn settable(t: &Table) -> Vec<Column> {
    let base = t.base();
    let looks_again = |c: &&Column| t.orphans && renews_a_link(t, &c.name);
    let others: Vec<Column> =
        base.iter().filter(|c| !c.auto_increment).filter(|c| !looks_again(c)).cloned().collect();
    if others.is_empty() {
        base
    } else {
        others
    }
}

fn update(dice: &mut Dice, t: &Table, tables: &[Table]) -> Step {
    let ignore = if dice.one_in(5) { " IGNORE" } else { "" };
    // A row that refers to itself, and that gets a new key without that reference, is 1451 in InnoDB alone.
    let seen = without_links(t);
    let base = settable(&seen);
    let n = dice.count(1, 3);
    let mut settings = Vec::new();
    let mut needs_order = is_parent(t, tables);
    for column in dice.some(&base, n) {
        let (value, constant) = new_value(dice, t, &column);
        needs_order |= t.decides_uniqueness(&column.name) && (!constant || !ignore.is_empty());
        settings.push(t.tagged(&column.name, &format!("{} = {value}", column.name)));
    }
    let keys = t.readable_keys();
    let hint = if !keys.is_empty() && dice.one_in(6) {
        maybe(&format!(" FORCE INDEX ({})", dice.pick(&keys)))
    } else {
        String::new()
    };
    let filter =
        if dice.one_in(10) { String::new() } else { maybe(&format!(" WHERE {}", condition(dice, t, ""))) };
    let mut text = format!("UPDATE{ignore} {}{hint} SET {}{filter}", t.name, list(", ", settings));
    let ordered = needs_order || dice.one_in(3);
    if ordered {
        text.push_str(&format!(" ORDER BY {}", t.total_order(dice, "")));
        if dice.one_in(2) {
            text.push_str(&limit(dice, t, 10));
        }
    }
    Step::new(Sort::Change, text).ordered(ordered)
}

/// LIMIT of a change; none with partitions. After a statement with conditions outside of every partition, the
/// server changes nothing in a statement with a LIMIT on the primary key in descending order. It does so with
/// either engine (docs/optimizer.md).
fn limit(dice: &mut Dice, t: &Table, most: i64) -> String {
    if t.partitions.is_some() {
        return String::new();
    }
    format!(" LIMIT {}", dice.number(1, most))
}

fn delete(dice: &mut Dice, t: &Table, tables: &[Table]) -> Step {
    let filter = maybe(&format!(" WHERE {}", condition(dice, &without_links(t), "")));
    let parent = is_parent(t, tables);
    let ordered = parent || dice.one_in(2);
    let ignore = if parent && dice.one_in(4) { " IGNORE" } else { "" };
    let mut text = format!("DELETE{ignore} FROM {}{filter}", t.name);
    if ordered {
        text.push_str(&format!(" ORDER BY {}", t.total_order(dice, "")));
        // Rows that an action took count for a LIMIT if they were collected before.
        if !meets_itself(t) {
            text.push_str(&limit(dice, t, 8));
        }
    }
    text.push_str(&returning(dice, t, 5));
    Step::new(Sort::Change, text).ordered(ordered)
}

/// True if a change of rows of one table cannot change those of the other. A join reads rows before the
/// others change, or after, as the plan says.
fn are_apart(t: &Table, u: &Table, tables: &[Table]) -> bool {
    !reached(t, tables).contains(&u.name) && !reached(u, tables).contains(&t.name)
}

fn update_two(dice: &mut Dice, t: &Table, tables: &[Table]) -> Option<Step> {
    let u = dice.pick(tables).clone();
    if !are_apart(t, &u, tables) {
        return None;
    }
    let on = joining_for_change(dice, t, "x.", &u, "y.")?;
    // Neither the joining column nor a column that it is made of. Whether the other table is looked up by
    // the old or the new value depends on the plan.
    let joins = on.split(" = ").filter_map(|side| side.split_once('.'));
    let joins: Vec<(&Table, &str)> = joins.map(|(x, c)| (if x == "x" { t } else { &u }, c)).collect();
    let constant = |dice: &mut Dice, table: &Table, alias: &str| {
        let mut columns = settable(table);
        let joining =
            || joins.iter().filter(|(of, _)| of.name == table.name).filter_map(|(of, c)| of.column(c));
        columns.retain(|c| !joining().any(|joined| joined.name == c.name || joined.is_made_of(&c.name)));
        if columns.is_empty() {
            return None;
        }
        let column = dice.pick(&columns).clone();
        let value = column.value(dice);
        Some(table.tagged(&column.name, &format!("{alias}{} = {value}", column.name)))
    };
    let mut settings = vec![constant(dice, t, "x.")?];
    if u.name != t.name && dice.one_in(2) {
        settings.extend(constant(dice, &u, "y."));
    }
    let text = format!(
        "UPDATE {} x JOIN {} y ON {on} SET {}{}",
        t.name,
        u.name,
        list(", ", settings),
        maybe(&format!(" WHERE {}", condition(dice, t, "x.")))
    );
    Some(Step::new(Sort::Change, text))
}

fn delete_two(dice: &mut Dice, t: &Table, tables: &[Table]) -> Option<Step> {
    let u = dice.pick(tables).clone();
    let below = reached(t, tables);
    // A parent goes with its own children, and with none of another parent.
    let linked = by_link(t, &u).filter(|_| u.name != t.name && below == [u.name.clone()]);
    let apart = are_apart(t, &u, tables) && below.len() <= 1;
    let on = match linked {
        Some(on) => on,
        None if apart => joining_for_change(dice, t, "x.", &u, "y.")?,
        None => return None,
    };
    // The order in which the tables lose their rows depends on the plan.
    let both = u.name != t.name && !is_parent(t, tables) && !is_parent(&u, tables);
    let from = if both && dice.one_in(3) { "x, y" } else { "x" };
    let text = format!(
        "DELETE {from} FROM {} x JOIN {} y ON {on} WHERE {}",
        t.name,
        u.name,
        condition(dice, t, "x.")
    );
    Some(Step::new(Sort::Change, text))
}

/// A change within PREPARE and EXECUTE, done twice.
pub(super) fn prepared(dice: &mut Dice, t: &Table, tables: &[Table], level: &str) -> Vec<Step> {
    let inner = if dice.one_in(2) {
        let rows = dice.count(1, 2);
        insert(dice, t, rows, level)
    } else {
        update(dice, t, tables)
    };
    let execute = || Step::new(Sort::Change, "EXECUTE p").ordered(inner.ordered);
    vec![
        Step::new(Sort::Control, format!("PREPARE p FROM '{}'", inner.text.replace('\'', "''"))),
        execute(),
        execute(),
        Step::new(Sort::Control, "DEALLOCATE PREPARE p"),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::marks::plain;
    use super::*;

    #[test]
    fn what_depends_on_the_order_has_one() {
        let mut ordered = 0;
        for seed in 0..2000 {
            let mut dice = Dice::new(seed);
            let tables = [Table::random(&mut dice, "t0"), Table::random(&mut dice, "t1")];
            let step = change(&mut dice, &tables, "REPEATABLE READ");
            let text = plain(&step.text);
            if text.starts_with("UPDATE IGNORE") {
                let table = tables.iter().find(|t| text.contains(&t.name)).unwrap();
                let unique = table.columns.iter().all(|c| table.decides_uniqueness(&c.name));
                assert!(!unique || text.contains("ORDER BY"), "{text}");
            }
            let below = plain(&change(&mut Dice::new(seed + 1), &tables, "READ COMMITTED").text);
            let hashed =
                |t: &&Table| t.keys.iter().any(|k| k.hash) && below.contains(&format!("INTO {} ", t.name));
            assert!(!below.starts_with("REPLACE") || !tables.iter().any(|t| hashed(&t)), "{below}");
            assert!(!text.contains("LIMIT") || text.contains("ORDER BY"), "{text}");
            ordered += u32::from(step.ordered);
        }
        assert!(ordered > 800);
    }
}
