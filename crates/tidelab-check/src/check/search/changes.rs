//! Random changes of the table.

use std::sync::atomic::{AtomicI64, Ordering};

use super::super::sql::Dice;
use super::table::{quote, Table, KEYS, TABLE};
use super::vocabulary::Vocabulary;

/// The source of changes, shared by all connections: each row gets a tag of its own.
pub(super) struct Changes<'a> {
    pub(super) table: &'a Table,
    pub(super) vocabulary: &'a Vocabulary,
    /// True for a round with long texts.
    pub(super) long: bool,
    pub(super) next_tag: AtomicI64,
}

impl Changes<'_> {
    /// An INSERT or REPLACE of some rows.
    pub(super) fn insert(&self, dice: &mut Dice, verb: &str, rows: usize) -> String {
        let rows: Vec<String> = (0..rows).map(|_| format!("({})", self.row(dice).join(", "))).collect();
        format!("{verb} INTO {TABLE} VALUES {}", rows.join(", "))
    }

    /// A change of one or several rows.
    pub(super) fn change(&self, dice: &mut Dice) -> String {
        let key = dice.number(0, KEYS - 1);
        let condition = match dice.number(0, 6) {
            2 => {
                let columns = self.table.list(dice.pick(&self.table.indexes));
                let word = quote(&self.vocabulary.in_some_case(dice));
                format!("MATCH ({columns}) AGAINST ({word}) AND n < {}", dice.number(0, 100))
            }
            0 => format!("n = {}", dice.number(0, 100)),
            1 => {
                let low = dice.number(0, 100);
                format!("n BETWEEN {low} AND {}", low + 3)
            }
            _ => self.table.key_is(key),
        };
        match dice.number(0, 15) {
            0..=2 => {
                let rows = dice.count(1, 4);
                self.insert(dice, "INSERT", rows)
            }
            3 | 4 => {
                let rows = dice.count(1, 3);
                self.insert(dice, "REPLACE", rows)
            }
            5 => {
                let rows = dice.count(1, 3);
                self.insert(dice, "INSERT IGNORE", rows)
            }
            6 => {
                let insert = self.insert(dice, "INSERT", 1);
                format!("{insert} ON DUPLICATE KEY UPDATE {}", self.assignment(dice))
            }
            7 | 8 => format!("DELETE FROM {TABLE} WHERE {condition}"),
            9 => {
                let values = self.table.key_values(dice.number(0, KEYS - 1));
                format!("UPDATE {TABLE} SET k = {} WHERE {}", values[0], self.table.key_is(key))
            }
            10 => format!("UPDATE {TABLE} SET n = {} WHERE {condition}", dice.number(0, 100)),
            11 => {
                let word = quote(&self.vocabulary.in_some_case(dice));
                let column = dice.pick(&self.table.columns);
                let name = &column.name;
                if column.most == usize::MAX {
                    format!("UPDATE {TABLE} SET {name} = CONCAT({name}, ' ', {word}) WHERE {condition}")
                } else {
                    format!(
                        "UPDATE {TABLE} SET {name} = LEFT(CONCAT({word}, ' ', {name}), {}) WHERE {condition}",
                        column.most
                    )
                }
            }
            _ => format!("UPDATE {TABLE} SET {} WHERE {condition}", self.assignment(dice)),
        }
    }

    fn assignment(&self, dice: &mut Dice) -> String {
        let count = self.table.columns.len();
        let some = dice.count(1, count);
        let columns = dice.some(&(0..count).collect::<Vec<usize>>(), some);
        let all: Vec<String> = columns
            .into_iter()
            .map(|column| format!("{} = {}", self.table.columns[column].name, self.value(dice, column)))
            .collect();
        all.join(", ")
    }

    fn row(&self, dice: &mut Dice) -> Vec<String> {
        let mut values = self.table.key_values(dice.number(0, KEYS - 1));
        values.push(self.next_tag.fetch_add(1, Ordering::Relaxed).to_string());
        values.push(dice.number(0, 100).to_string());
        values.push("0".to_string());
        values.extend((0..self.table.columns.len()).map(|column| self.value(dice, column)));
        values
    }

    fn value(&self, dice: &mut Dice, column: usize) -> String {
        let column = &self.table.columns[column];
        if column.nullable && dice.one_in(6) {
            return "NULL".to_string();
        }
        if self.long && column.most == usize::MAX && dice.one_in(60) {
            return quote(&self.vocabulary.long_text(dice));
        }
        // (TEXT has 65,535 bytes.)
        quote(&self.vocabulary.text(dice, column.most.min(10_000)))
    }
}
