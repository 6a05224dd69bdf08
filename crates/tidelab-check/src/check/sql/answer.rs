//! A server's answer to a statement, and the comparison of two answers.

use std::collections::BTreeSet;
use std::fmt;

use super::super::session::{Failure, Reply, Session};
use super::program::{Sort, Step};

/// The most rows printed of an answer.
const ROWS_SHOWN: usize = 12;

/// A row: its columns as the server sent them, none for NULL.
pub(super) type Row = Vec<Option<Vec<u8>>>;

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Number and text of the error; none when the statement was done.
    pub(super) error: Option<(u16, String)>,
    pub(super) rows: Vec<Row>,
    pub(super) affected: u64,
    pub(super) last_insert_id: u64,
    /// "Rows matched: 1  Changed: 1  Warnings: 0".
    pub(super) info: String,
    /// Level and number of each warning.
    pub(super) warnings: Vec<(String, u16)>,
}

/// Runs a statement. An error is an answer; a lost connection is none.
pub(super) fn ask(session: &mut Session, statement: &str, sort: Sort) -> Result<Answer, Failure> {
    let mut answer = match session.ask(statement) {
        Ok(Reply { rows, affected, last_insert_id, warnings, info }) => {
            let mut answer =
                Answer { error: None, rows, affected, last_insert_id, info, warnings: Vec::new() };
            if warnings > 0 && sort != Sort::Look {
                answer.warnings = warnings_of(session)?;
            }
            answer
        }
        Err(Failure::Sql { code, message }) => {
            let warnings = if sort == Sort::Change { warnings_of(session)? } else { Vec::new() };
            Answer { error: Some((code, message)), warnings, ..Answer::default() }
        }
        Err(lost) => return Err(lost),
    };
    if sort == Sort::Look {
        mask(&mut answer.rows);
    }
    Ok(answer)
}

/// Sorted; without the mark of a sort in the plan (4202, values longer than max_sort_length).
fn warnings_of(session: &mut Session) -> Result<Vec<(String, u16)>, Failure> {
    let rows = session.rows("SHOW WARNINGS")?;
    let mut warnings: Vec<(String, u16)> = rows
        .into_iter()
        .filter_map(|row| {
            let mut columns = row.into_iter();
            Some((columns.next()?, columns.next()?.parse().ok()?))
        })
        .filter(|(_, code)| *code != 4202)
        .collect();
    warnings.sort();
    Ok(warnings)
}

/// Names of the databases and engines are no difference.
fn mask(rows: &mut [Row]) {
    for column in rows.iter_mut().flatten().flatten() {
        let text = String::from_utf8_lossy(column)
            .replace("sql_innodb.", "")
            .replace("sql_tidesdb.", "")
            .replace("ENGINE=InnoDB", "ENGINE")
            .replace("ENGINE=TidesDB", "ENGINE")
            .replace("ENGINE = InnoDB", "ENGINE")
            .replace("ENGINE = TidesDB", "ENGINE")
            // The mode of this check's server, which is not the plugin's default.
            .replace(" `SYNC_MODE`='NONE'", "");
        *column = text.into_bytes();
    }
}

/// The difference of two answers to the statement; none when they are the same.
pub(super) fn difference(step: &Step, one: &Answer, other: &Answer) -> Option<&'static str> {
    if step.sort == Sort::Quiet {
        return None;
    }
    match (&one.error, &other.error) {
        (Some((a, _)), Some((b, _))) => {
            let by_order = depends_on_order(step) && stops_at_a_row(*a) && stops_at_a_row(*b);
            let by_way = step.sort == Sort::Definition && needs_a_link(*a) && needs_a_link(*b);
            let same = constraint(*a) == constraint(*b);
            return (!same && !by_order && !by_way).then_some("the error");
        }
        (None, None) => {}
        _ => return Some("the error"),
    }
    if !same_rows(step.ordered, &one.rows, &other.rows) {
        return Some("the rows");
    }
    match step.sort {
        Sort::Change => {
            if one.affected != other.affected {
                return Some("the number of rows affected");
            }
            let counts = |info: &str| info.split("Warnings").next().map(str::to_string);
            if one.info != other.info && !(step.virtuals && counts(&one.info) == counts(&other.info)) {
                return Some("the information");
            }
            if one.last_insert_id != other.last_insert_id {
                return Some("LAST_INSERT_ID");
            }
            (!same_warnings(step, one, other)).then_some("the warnings")
        }
        Sort::Query => (!same_warnings(step, one, other)).then_some("the warnings"),
        Sort::Definition | Sort::Control | Sort::Look | Sort::Quiet => None,
    }
}

/// Such a statement stops at the first unchangeable row: the plan decides the row. For an ALTER it depends on
/// the method: rows copied, or keys built alongside them. All of it is undone.
fn depends_on_order(step: &Step) -> bool {
    step.sort == Sort::Definition || (step.sort == Sort::Change && !step.ordered)
}

/// Errors of single rows.
fn stops_at_a_row(code: u16) -> bool {
    matches!(
        code,
        1048 | 1138 // NULL in a column that is NOT NULL
        | 1062 | 1761 | 1762 | 1834 // a key that is there
        | 1451 | 1452 // a parent or a child
        | 1264 | 1265 | 1292 | 1366 | 1406 | 1411 | 1690 // a value that does not fit
        | 1526 // a row for no partition
        | 1364 // no default
        | 4025 | 4078 | 4079 // a CHECK
        | 1416 // no geometry
        | 1918 | 1977 | 4161 | 1105 // a value that does not become the column's type
    )
}

/// For a row with a duplicate, no parent, and children, InnoDB reports the first unchangeable index. TidesDB
/// reports the parent first. It is one error here.
fn constraint(code: u16) -> u16 {
    match code {
        1062 | 1451 | 1452 | 1761 | 1762 => 1452,
        other => other,
    }
}

/// A foreign key forbids the definition: in place and by copy, with other numbers.
fn needs_a_link(code: u16) -> bool {
    matches!(code, 1005 | 1025 | 1215 | 1553 | 1821..=1826 | 1828..=1830 | 1832..=1834 | 1846)
}

/// The plan decides which virtual columns are computed for which rows. The number of their warnings is
/// therefore no promise, nor is the warning about a text in place of a number (1292).
fn same_warnings(step: &Step, one: &Answer, other: &Answer) -> bool {
    let alike = |answer: &Answer| -> Vec<(String, u16)> {
        let mut all: Vec<_> =
            answer.warnings.iter().map(|(level, code)| (level.clone(), constraint(*code))).collect();
        all.sort();
        all
    };
    if !step.virtuals {
        return alike(one) == alike(other);
    }
    let kinds = |answer: &Answer| {
        alike(answer).into_iter().filter(|(_, code)| *code != 1292).collect::<BTreeSet<_>>()
    };
    kinds(one) == kinds(other)
}

pub(super) fn same_rows(ordered: bool, one: &[Row], other: &[Row]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    if ordered || one == other {
        return one == other;
    }
    let sorted = |rows: &[Row]| {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        rows
    };
    sorted(one) == sorted(other)
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((code, message)) = &self.error {
            writeln!(f, "error {code} ({message})")?;
        } else {
            writeln!(
                f,
                "{} rows, {} affected, last id {} {}",
                self.rows.len(),
                self.affected,
                self.last_insert_id,
                self.info
            )?;
        }
        for row in self.rows.iter().take(ROWS_SHOWN) {
            writeln!(f, "  {}", picture(row))?;
        }
        if self.rows.len() > ROWS_SHOWN {
            writeln!(f, "  ...")?;
        }
        for (level, code) in self.warnings.iter().take(ROWS_SHOWN) {
            writeln!(f, "  {level} {code}")?;
        }
        Ok(())
    }
}

/// The first one's rows missing in the second.
pub(super) fn only_in(one: &[Row], other: &[Row]) -> Vec<String> {
    let mut rest = other.to_vec();
    let mut only = Vec::new();
    for row in one {
        match rest.iter().position(|r| r == row) {
            Some(i) => {
                rest.swap_remove(i);
            }
            None => only.push(picture(row)),
        }
    }
    only
}

fn picture(row: &Row) -> String {
    let columns: Vec<String> = row
        .iter()
        .map(|column| match column {
            None => "NULL".to_string(),
            Some(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) if !text.chars().any(|c| c.is_control() && c != '\n') => format!("'{text}'"),
                _ => format!("x'{}'", bytes.iter().map(|b| format!("{b:02x}")).collect::<String>()),
            },
        })
        .collect();
    columns.join(" | ").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[&str]) -> Vec<Row> {
        values.iter().map(|v| vec![Some(v.as_bytes().to_vec()), None]).collect()
    }

    fn answer(values: &[&str]) -> Answer {
        Answer { rows: rows(values), ..Answer::default() }
    }

    fn error(code: u16) -> Answer {
        Answer { error: Some((code, String::new())), ..Answer::default() }
    }

    #[test]
    fn order_counts_where_it_is_total() {
        let query = Step::new(Sort::Query, "SELECT");
        let (a, b) = (answer(&["1", "2"]), answer(&["2", "1"]));
        assert_eq!(difference(&query, &a, &b), None);
        assert_eq!(difference(&query.ordered(true), &a, &b), Some("the rows"));
        let query = Step::new(Sort::Query, "SELECT");
        assert_eq!(
            difference(&query, &answer(&["1", "1", "2"]), &answer(&["1", "2", "2"])),
            Some("the rows")
        );
    }

    #[test]
    fn a_change_that_stops_at_a_row_may_stop_at_another() {
        let change = Step::new(Sort::Change, "UPDATE");
        assert_eq!(difference(&change, &error(1062), &error(1264)), None);
        assert_eq!(difference(&change, &error(1062), &error(1213)), Some("the error"));
        assert_eq!(difference(&change, &error(1062), &answer(&[])), Some("the error"));
        let ordered = change.ordered(true);
        assert_eq!(difference(&ordered, &error(1062), &error(1264)), Some("the error"));
    }

    #[test]
    fn what_a_change_reports_is_compared() {
        let change = Step::new(Sort::Change, "UPDATE");
        let of = |affected, last_insert_id, code| Answer {
            affected,
            last_insert_id,
            warnings: vec![("Warning".to_string(), code)],
            ..Answer::default()
        };
        assert_eq!(difference(&change, &of(1, 2, 3), &of(1, 2, 3)), None);
        assert_eq!(difference(&change, &of(1, 2, 3), &of(2, 2, 3)), Some("the number of rows affected"));
        assert_eq!(difference(&change, &of(1, 2, 3), &of(1, 3, 3)), Some("LAST_INSERT_ID"));
        assert_eq!(difference(&change, &of(1, 2, 3), &of(1, 2, 4)), Some("the warnings"));
        let change = change.virtuals(true);
        assert_eq!(difference(&change, &of(1, 2, 1292), &of(1, 2, 4)), Some("the warnings"));
        let silent = Answer { warnings: Vec::new(), ..of(1, 2, 0) };
        assert_eq!(difference(&change, &of(1, 2, 1292), &silent), None, "computed for other rows");
        let quiet = Step::new(Sort::Quiet, "ANALYZE");
        assert_eq!(difference(&quiet, &of(1, 2, 3), &error(5)), None);
    }

    #[test]
    fn databases_and_engines_are_masked() {
        let mut all = rows(&["CREATE TABLE t () ENGINE=TidesDB CHARSET", "sql_innodb.t"]);
        mask(&mut all);
        assert_eq!(all, rows(&["CREATE TABLE t () ENGINE CHARSET", "t"]));
        assert_eq!(only_in(&rows(&["1", "2", "2"]), &rows(&["2"])), ["'1' | NULL", "'2' | NULL"]);
    }
}
