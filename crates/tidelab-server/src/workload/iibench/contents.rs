//! The expected contents of a table: the acknowledged rows, without those whose deletion was
//! acknowledged.
//!
//! The contents are compared by the number of rows, the least and greatest key, the sum of all keys, and
//! the sum of all numbers in the rows.

use crate::server::agreement::{self, Index};
use crate::server::session::{Failure, Session};

use super::schema::{Shape, INDEXES};

/// The contents of a table, real or expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Rows.
    pub rows: u64,
    /// The least and the greatest key; none without rows.
    pub keys: Option<(u64, u64)>,
    /// The sum of all keys; none where deletes made it unknown.
    pub key_sum: Option<u128>,
    /// The sum of all numbers but the keys; none where deletes made it unknown.
    pub number_sum: Option<u128>,
    /// Rows whose statement got no answer: there or not.
    pub uncertain: u64,
    /// Rows whose deletion got no answer.
    pub uncertainly_gone: u64,
    /// The engine may give keys of one statement to others at the same time, as MyRocks does. Then only the
    /// first of a statement's keys is known, and a bound of the greatest.
    pub interleaved: bool,
}

/// Rows deleted at the low end of the key, a range after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Rows.
    pub rows: u64,
    /// All keys below this are gone; 0 for none.
    pub below: u64,
    /// The sum of the keys; none after a range with gaps: it is unknown.
    pub key_sum: Option<u128>,
    /// Rows of a statement without an answer.
    pub uncertain: u64,
}

impl Default for Deleted {
    fn default() -> Deleted {
        Deleted { rows: 0, below: 0, key_sum: Some(0), uncertain: 0 }
    }
}

impl Deleted {
    /// The keys from `from` up to `below` were deleted: `rows` rows.
    pub fn range(&mut self, from: u64, below: u64, rows: u64) {
        self.rows += rows;
        self.below = self.below.max(below);
        let whole = below.checked_sub(from) == Some(rows);
        self.key_sum = self
            .key_sum
            .filter(|_| whole)
            .map(|sum| sum + u128::from(rows) * (u128::from(from) + u128::from(below - 1)) / 2);
    }

    /// Adds another client's deletions.
    pub fn add(&mut self, other: &Deleted) {
        self.rows += other.rows;
        self.below = self.below.max(other.below);
        self.key_sum = self.key_sum.zip(other.key_sum).map(|(a, b)| a + b);
        self.uncertain += other.uncertain;
    }
}

impl Contents {
    /// Of a table without rows.
    pub fn empty() -> Contents {
        Contents { key_sum: Some(0), number_sum: Some(0), ..Contents::default() }
    }

    /// Empty contents for one client's additions to this.
    pub fn nothing_more(&self) -> Contents {
        Contents { interleaved: self.interleaved, ..Contents::empty() }
    }

    /// Rows were acknowledged, with the first of their keys.
    pub fn inserted(&mut self, first: u64, rows: u64, number_sum: u64) {
        if rows == 0 {
            return;
        }
        let last = first + rows - 1;
        self.rows += rows;
        self.keys = Some(self.keys.map_or((first, last), |(low, high)| (low.min(first), high.max(last))));
        let consecutive = !self.interleaved;
        self.key_sum = self
            .key_sum
            .filter(|_| consecutive)
            .map(|sum| sum + u128::from(rows) * (u128::from(first) + u128::from(last)) / 2);
        self.number_sum = self.number_sum.map(|sum| sum + u128::from(number_sum));
    }

    /// Rows at the low end were deleted.
    pub fn without(&mut self, deleted: &Deleted) {
        if deleted.below == 0 && deleted.uncertain == 0 {
            return;
        }
        self.rows = self.rows.saturating_sub(deleted.rows);
        self.uncertainly_gone += deleted.uncertain;
        self.key_sum = self.key_sum.zip(deleted.key_sum).and_then(|(all, gone)| all.checked_sub(gone));
        self.number_sum = None;
        self.keys = self.keys.filter(|_| self.rows > 0).map(|(low, high)| (low.max(deleted.below), high));
    }

    /// Adds one client's acknowledged changes.
    pub fn add(&mut self, other: &Contents) {
        self.rows += other.rows;
        self.uncertain += other.uncertain;
        self.uncertainly_gone += other.uncertainly_gone;
        self.keys = match (self.keys, other.keys) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        self.key_sum = self.key_sum.zip(other.key_sum).map(|(a, b)| a + b);
        self.number_sum = self.number_sum.zip(other.number_sum).map(|(a, b)| a + b);
    }

    /// Reads the contents, along the primary key.
    pub fn read(session: &mut Session, table: &str) -> Result<Contents, Failure> {
        let statement = format!(
            "SELECT COUNT(*), COALESCE(MIN(transactionid), 0), COALESCE(MAX(transactionid), 0),
             COALESCE(SUM(transactionid), 0), COALESCE(SUM(cashregisterid + customerid + productid + price), 0)
             FROM `{table}` FORCE INDEX (PRIMARY)"
        );
        let rows = session.rows(&statement)?;
        let numbers: Option<Vec<u128>> =
            rows.first().map(|row| row.iter().filter_map(|text| text.parse().ok()).collect());
        match numbers.as_deref() {
            Some(&[rows, low, high, key_sum, number_sum]) => Ok(Contents {
                rows: rows as u64,
                keys: (rows > 0).then_some((low as u64, high as u64)),
                key_sum: Some(key_sum),
                number_sum: Some(number_sum),
                ..Contents::default()
            }),
            _ => Err(Failure::Lost(format!("{statement}: {rows:?}"))),
        }
    }

    /// The differences to the real contents, one line each.
    pub fn complaints(&self, table: &str, found: &Contents) -> Vec<String> {
        let mut complaints = Vec::new();
        let wrong = |what: &str, wanted: String, found: String| {
            format!("{table}: {what} must be {wanted} by what was acknowledged, is {found}")
        };
        if found.rows + self.uncertainly_gone < self.rows || found.rows > self.rows + self.uncertain {
            complaints.push(wrong("the number of rows", self.rows.to_string(), found.rows.to_string()));
        }
        if self.uncertain > 0 || self.uncertainly_gone > 0 {
            return complaints;
        }
        match (self.keys, found.keys) {
            // After deletes the least key is known as a bound only.
            (Some((low, high)), Some((found_low, found_high))) => {
                let low_fits = if self.number_sum.is_some() { found_low == low } else { found_low >= low };
                let high_fits = if self.interleaved { found_high >= high } else { found_high == high };
                if !low_fits || !high_fits {
                    complaints.push(wrong(
                        "the range of keys",
                        format!("{low} to {high}"),
                        format!("{found_low} to {found_high}"),
                    ));
                }
            }
            (wanted, found) if wanted.is_some() != found.is_some() => {
                complaints.push(wrong("the range of keys", format!("{wanted:?}"), format!("{found:?}")));
            }
            _ => {}
        }
        for (what, wanted, found) in [
            ("the sum of keys", self.key_sum, found.key_sum),
            ("the sum of numbers", self.number_sum, found.number_sum),
        ] {
            if let (Some(wanted), Some(found)) = (wanted, found) {
                if wanted != found {
                    complaints.push(wrong(what, wanted.to_string(), found.to_string()));
                }
            }
        }
        complaints
    }
}

/// The faults of a table with `wanted` as its expected contents: its rows, and each index against them.
pub fn examine(
    session: &mut Session,
    table: &str,
    shape: &Shape,
    wanted: &Contents,
) -> Result<Vec<String>, Failure> {
    let mut complaints = wanted.complaints(table, &Contents::read(session, table)?);
    let indexes: Vec<(&str, Index)> = INDEXES[..shape.secondary_indexes as usize]
        .iter()
        .map(|(name, columns, all_rows)| (*columns, Index { name, all_rows }))
        .collect();
    complaints.extend(agreement::complaints_of_large(session, &format!("`{table}`"), &indexes)?);
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_and_deletes_add_up() {
        let mut contents = Contents::empty();
        contents.inserted(1, 100, 5000);
        contents.inserted(201, 100, 7000);
        let mut other = Contents::empty();
        other.inserted(101, 100, 6000);
        contents.add(&other);
        assert_eq!((contents.rows, contents.keys), (300, Some((1, 300))));
        assert_eq!((contents.key_sum, contents.number_sum), (Some(300 * 301 / 2), Some(18_000)));
        let mut deleted = Deleted::default();
        deleted.range(1, 51, 50);
        let before = contents.clone();
        contents.without(&deleted);
        assert_eq!((contents.rows, contents.keys), (250, Some((51, 300))));
        assert_eq!((contents.key_sum, contents.number_sum), (Some(300 * 301 / 2 - 50 * 51 / 2), None));
        deleted.range(51, 101, 49);
        let mut contents = before.clone();
        contents.without(&deleted);
        assert_eq!((contents.rows, contents.keys), (201, Some((101, 300))));
        assert_eq!(contents.key_sum, None, "which one was not there is not known");
        deleted.range(101, 302, 201);
        let mut contents = before.clone();
        contents.without(&deleted);
        assert_eq!((contents.rows, contents.keys), (0, None));
        let mut untouched = before.clone();
        untouched.without(&Deleted::default());
        assert_eq!(untouched, before);
    }

    #[test]
    fn each_difference_is_told() {
        let mut wanted = Contents::empty();
        wanted.inserted(11, 10, 500);
        let complaints = |found: Contents| wanted.complaints("t", &found).join("; ");
        assert_eq!(complaints(wanted.clone()), "");
        let lost = Contents { rows: 9, ..wanted.clone() };
        assert!(complaints(lost).contains("number of rows must be 10 by what was acknowledged, is 9"));
        let other = Contents { keys: Some((11, 21)), ..wanted.clone() };
        assert!(complaints(other).contains("11 to 20"));
        let swapped = Contents { key_sum: wanted.key_sum.map(|s| s + 1), ..wanted.clone() };
        assert!(complaints(swapped).contains("the sum of keys"));
        let changed = Contents { number_sum: Some(499), ..wanted.clone() };
        assert!(complaints(changed).contains("the sum of numbers"));
        assert!(complaints(Contents::empty()).contains("range of keys"));
    }

    #[test]
    fn keys_that_others_may_get_are_bounds() {
        let mut wanted = Contents { interleaved: true, ..Contents::empty() };
        wanted.inserted(1, 10, 500);
        let mut client = wanted.nothing_more();
        client.inserted(2, 10, 500);
        wanted.add(&client);
        assert_eq!((wanted.keys, wanted.key_sum, wanted.number_sum), (Some((1, 11)), None, Some(1000)));
        let found = |high| Contents { keys: Some((1, high)), key_sum: Some(210), ..wanted.clone() };
        assert!(wanted.complaints("t", &found(20)).is_empty());
        assert!(!wanted.complaints("t", &found(10)).is_empty());
    }

    #[test]
    fn a_statement_without_an_answer_leaves_both_open() {
        let mut wanted = Contents::empty();
        wanted.inserted(1, 10, 5);
        wanted.uncertain = 10;
        let with = |rows| Contents { rows, ..wanted.clone() };
        assert!(wanted.complaints("t", &with(10)).is_empty() && wanted.complaints("t", &with(20)).is_empty());
        assert!(
            !wanted.complaints("t", &with(9)).is_empty() && !wanted.complaints("t", &with(21)).is_empty()
        );
        let mut gone = wanted.clone();
        gone.without(&Deleted { uncertain: 5, ..Deleted::default() });
        assert!(gone.complaints("t", &with(5)).is_empty() && !gone.complaints("t", &with(4)).is_empty());
    }

    #[test]
    fn after_deletes_the_least_key_is_a_bound() {
        let mut wanted = Contents::empty();
        wanted.inserted(1, 100, 5);
        let mut deleted = Deleted::default();
        deleted.range(1, 11, 10);
        wanted.without(&deleted);
        let found =
            |low| Contents { rows: 90, keys: Some((low, 100)), key_sum: wanted.key_sum, ..wanted.clone() };
        assert!(wanted.complaints("t", &found(11)).is_empty());
        assert!(wanted.complaints("t", &found(13)).is_empty(), "a gap");
        assert!(!wanted.complaints("t", &found(10)).is_empty());
    }
}
