//! Rows of the check `foreign` with one writer each. Their parents cannot go or change (RESTRICT), so the
//! writer knows them exactly.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::RngExt;

use super::super::session::{Failure, Session};
use super::statements::PARENTS;

/// Ids of a writer, and values of its unique column: from its number times this.
const RANGE: i64 = 1000;
const IDS: i64 = 24;
const UNIQUE: i64 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    p: i64,
    u: Option<i64>,
    v: i64,
}

/// Rows by id.
pub(super) type Kept = BTreeMap<i64, Row>;

/// A statement on a writer's rows.
pub(super) struct Change {
    pub(super) sql: String,
    pub(super) kind: &'static str,
    /// The rows after it.
    pub(super) after: Kept,
    /// The number of changed rows; none: not known.
    pub(super) affects: Option<u64>,
    /// True if it may do nothing; the number of changed rows decides.
    pub(super) optional: bool,
}

/// A statement of writer `number`, the owner of `rows`. Each value of `v` comes once.
pub(super) fn draw(number: i64, rows: &Kept, v: i64, random: &mut StdRng) -> Change {
    let base = number * RANGE;
    let id = base + random.random_range(0..IDS);
    let p = random.random_range(1..=PARENTS);
    let u = random.random_bool(0.6).then(|| base + random.random_range(0..UNIQUE));
    let u_text = u.map_or("NULL".to_string(), |u| u.to_string());
    let mut after = rows.clone();
    let done = |kind, sql, after, affects| Change { sql, kind, after, affects, optional: false };
    match random.random_range(0..10) {
        0..3 => {
            after.insert(id, Row { p, u, v });
            done(
                "INSERT",
                format!("INSERT INTO kept (id, p, u, v) VALUES ({id}, {p}, {u_text}, {v})"),
                after,
                Some(1),
            )
        }
        3 => {
            let (second, q) = (base + random.random_range(0..IDS), random.random_range(1..=PARENTS));
            after.insert(id, Row { p, u, v });
            after.insert(second, Row { p: q, u: None, v });
            let sql = format!(
                "INSERT INTO kept (id, p, u, v) VALUES ({id}, {p}, {u_text}, {v}), ({second}, {q}, NULL, {v})"
            );
            done("INSERT of rows", sql, after, Some(2))
        }
        4 => {
            after.insert(id, Row { p, u, v });
            let sql = format!("INSERT IGNORE INTO kept (id, p, u, v) VALUES ({id}, {p}, {u_text}, {v})");
            Change { sql, kind: "INSERT IGNORE", after, affects: None, optional: true }
        }
        5 => {
            after.retain(|_, row| u.is_none() || row.u != u);
            after.insert(id, Row { p, u, v });
            done(
                "REPLACE",
                format!("REPLACE INTO kept (id, p, u, v) VALUES ({id}, {p}, {u_text}, {v})"),
                after,
                None,
            )
        }
        6 => {
            let u = rows.get(&id).and_then(|row| row.u);
            after.insert(id, Row { p, u, v });
            let sql = format!(
                "INSERT INTO kept (id, p, u, v) VALUES ({id}, {p}, NULL, {v}) \
                 ON DUPLICATE KEY UPDATE p = VALUES(p), v = VALUES(v)"
            );
            // The server counts 2 for a row that was there, and 3 where its table keeps history.
            done("ON DUPLICATE KEY", sql, after, (!rows.contains_key(&id)).then_some(1))
        }
        7 | 8 => {
            let last = id + random.random_range(0..3);
            let mut changed = 0;
            for (_, row) in after.range_mut(id..=last) {
                (row.p, row.v) = (p, v);
                changed += 1;
            }
            let sql = format!("UPDATE kept SET p = {p}, v = {v} WHERE id BETWEEN {id} AND {last}");
            done("UPDATE of rows", sql, after, Some(changed))
        }
        _ => {
            let last = id + random.random_range(0..2);
            after.retain(|there, _| !(id..=last).contains(there));
            let gone = (rows.len() - after.len()) as u64;
            done("DELETE", format!("DELETE FROM kept WHERE id BETWEEN {id} AND {last}"), after, Some(gone))
        }
    }
}

/// The stored rows of writer `number`. `table`: the table's current name.
pub(super) fn read(session: &mut Session, table: &str, number: i64) -> Result<Kept, Failure> {
    let (low, high) = (number * RANGE, (number + 1) * RANGE - 1);
    let rows = session.numbers(&format!(
        "SELECT id, p, COALESCE(u, -1), v FROM {table} WHERE id BETWEEN {low} AND {high}"
    ))?;
    Ok(rows
        .iter()
        .map(|row| (row[0], Row { p: row[1], u: Some(row[2]).filter(|u| *u >= 0), v: row[3] }))
        .collect())
}

/// Found and expected rows, where they differ.
pub(super) fn difference(there: &Kept, expected: &Kept) -> String {
    let ids: BTreeSet<&i64> = there.keys().chain(expected.keys()).collect();
    let lines: Vec<String> = ids
        .into_iter()
        .filter(|id| there.get(id) != expected.get(id))
        .take(4)
        .map(|id| format!("row {id} is {:?}, must be {:?}", there.get(id), expected.get(id)))
        .collect();
    lines.join("; ")
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn each_row_has_its_own_unique_value_unless_the_server_refuses() {
        let mut random = StdRng::seed_from_u64(3);
        let mut rows = Kept::new();
        for v in 0..3000 {
            let change = draw(2, &rows, v, &mut random);
            let mut values: Vec<i64> = change.after.values().filter_map(|row| row.u).collect();
            values.sort_unstable();
            let all = values.len();
            values.dedup();
            let is_duplicate = values.len() < all;
            assert!(!is_duplicate || change.sql.starts_with("INSERT"), "{}", change.sql);
            if !is_duplicate {
                rows = change.after;
            }
        }
        assert!(rows.len() > 5 && rows.keys().all(|id| (2000..3000).contains(id)));
    }
}
