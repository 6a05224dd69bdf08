//! Definitions of foreign keys: they come and go, their columns and tables get names, their tables go and come back.

use super::alter;
use super::dice::Dice;
use super::link::{is_parent, linked_columns, may_be_linked, new_link};
use super::marks::maybe;
use super::program::{Sort, Step};
use super::schema::Table;

/// A definition, and the tables changed when it is accepted.
pub(super) type Defined = (Step, Vec<(usize, Table)>);

/// A change of a table's foreign keys, or of their columns and indexes. `checks`: `foreign_key_checks` is on.
pub(super) fn change_links(dice: &mut Dice, tables: &[Table], index: usize, checks: bool) -> Vec<Defined> {
    let t = &tables[index];
    let mut after = t.clone();
    let name = &t.name;
    let one = |text: String, after: Vec<(usize, Table)>| vec![(Step::new(Sort::Definition, text), after)];
    match dice.number(0, 15) {
        0..=3 => {
            let Some(link) = new_link(dice, &mut after, tables, index) else { return Vec::new() };
            let algorithm = match dice.number(0, 3) {
                0 => maybe(", ALGORITHM=COPY"),
                // With checks InnoDB copies the table, and refuses this (1846).
                1 if !checks => maybe(", ALGORITHM=INPLACE"),
                _ => String::new(),
            };
            let text = format!("ALTER TABLE {name} ADD {}{algorithm}", link.sql(t));
            after.links.push(link);
            one(text, vec![(index, after)])
        }
        4..=6 if !t.links.is_empty() => {
            let link = dice.pick(&t.links).name.clone();
            // Not DROP CONSTRAINT, which InnoDB overlooks when it copies the table.
            let copy = if dice.one_in(4) { maybe(", ALGORITHM=COPY") } else { String::new() };
            after.links.retain(|other| other.name != link);
            one(format!("ALTER TABLE {name} DROP FOREIGN KEY {link}{copy}"), vec![(index, after)])
        }
        // With checks an index that a foreign key needs stays, and so does a column of one.
        7 if checks && !t.links.is_empty() => {
            let columns = dice.pick(&t.links).columns.clone();
            let column = dice.pick(&columns).clone();
            one(format!("ALTER TABLE {name} DROP COLUMN {column}"), Vec::new())
        }
        8 if checks && !t.keys.is_empty() => {
            let key = dice.pick(&t.keys).name.clone();
            after.keys.retain(|other| other.name != key);
            one(format!("ALTER TABLE {name} DROP KEY {key}"), vec![(index, after)])
        }
        9 | 10 => rename_column(dice, tables, index),
        11 => {
            // The references go there and back.
            let there = Step::new(Sort::Definition, format!("RENAME TABLE {name} TO away"));
            let back = Step::new(Sort::Definition, format!("RENAME TABLE away TO {name}"));
            vec![(there, Vec::new()), (back, Vec::new())]
        }
        12 | 13 if may_be_linked(t) => {
            let create = Step::new(Sort::Definition, t.create());
            let drop = Step::new(Sort::Definition, format!("DROP TABLE {name}"));
            vec![(drop, Vec::new()), (create, vec![(index, after)])]
        }
        14 | 15 if is_parent(t, tables) => one(format!("TRUNCATE TABLE {name}"), Vec::new()),
        _ => Vec::new(),
    }
}

/// A column of a foreign key, of the child or of the parent, gets another name: so do the references. InnoDB
/// reads the table anew for it, and forgets the AUTO_INCREMENT numbers of refused rows.
fn rename_column(dice: &mut Dice, tables: &[Table], index: usize) -> Vec<Defined> {
    let t = &tables[index];
    let columns = linked_columns(t, tables);
    if columns.is_empty() || t.columns.iter().any(|column| column.auto_increment) {
        return Vec::new();
    }
    let old = dice.pick(&columns).clone();
    let mut renamed = t.clone();
    let new = renamed.fresh("n");
    alter::rename_column(&mut renamed, &old, &new);
    let mut after = vec![(index, renamed)];
    for (at, table) in tables.iter().enumerate() {
        let mut table = if at == index { after[0].1.clone() } else { table.clone() };
        for link in &mut table.links {
            if link.parent == t.name {
                link.referred
                    .iter_mut()
                    .filter(|column| **column == old)
                    .for_each(|column| column.clone_from(&new));
            }
        }
        if at == index {
            after[0].1 = table;
        } else if table.links.iter().any(|link| link.parent == t.name) {
            after.push((at, table));
        }
    }
    let text = format!("ALTER TABLE {} RENAME COLUMN {old} TO {new}", t.name);
    vec![(Step::new(Sort::Definition, text), after)]
}

#[cfg(test)]
mod tests {
    use super::super::link::link_up;
    use super::super::marks::plain;
    use super::*;

    #[test]
    fn references_follow_a_column_in_all_tables() {
        let (mut renamed, mut kinds) = (0, std::collections::BTreeSet::new());
        for seed in 0..400 {
            let mut dice = Dice::new(seed);
            let mut tables = Vec::new();
            for index in 0..3 {
                let mut table = Table::random(&mut dice, &format!("t{index}"));
                link_up(&mut dice, &mut table, &tables);
                tables.push(table);
            }
            let index = dice.count(0, 2);
            for (step, after) in change_links(&mut dice, &tables, index, true) {
                let text = plain(&step.text);
                for word in ["ADD CONSTRAINT", "DROP FOREIGN KEY", "DROP COLUMN", "DROP KEY"] {
                    if text.contains(word) {
                        kinds.insert(word);
                    }
                }
                for word in ["RENAME COLUMN", "RENAME TABLE", "DROP TABLE", "TRUNCATE"] {
                    if text.contains(word) {
                        kinds.insert(word);
                    }
                }
                let Some((_, rest)) = text.split_once("RENAME COLUMN ") else { continue };
                let old = rest.split(' ').next().unwrap().to_string();
                for (at, table) in after {
                    tables[at] = table;
                }
                assert!(!linked_columns(&tables[index], &tables).contains(&old), "{text}");
                renamed += 1;
            }
        }
        assert!(renamed > 20);
        assert_eq!(kinds.len(), 8, "{kinds:?}");
    }
}
