//! UPDATE and DELETE of the rows that match: they are those of the model, and no others.

use std::collections::BTreeSet;

use super::super::session::Session;
use super::super::sql::Dice;
use super::forms::Asked;
use super::snapshot::{Question, Snapshot};
use super::table::{quote, TABLE};
use super::{run_one, Done};

/// Changes matching rows in the open transaction. The complaint, if others were changed.
pub(super) fn change(
    dice: &mut Dice,
    session: &mut Session,
    snapshot: &Snapshot,
    question: &Question,
) -> Done<Option<String>> {
    let Some(answer) = &question.answer else { return Ok(None) };
    let bound = dice.number(0, 150);
    let m = question.expression("");
    let of_b = question.expression("b");
    let joined = format!("{TABLE} a JOIN {TABLE} b ON a.tag = b.tag");
    let texts = question.columns();
    let (statement, deletes, any_n) = match dice.number(0, 7) {
        0 => (format!("UPDATE {TABLE} SET m = 1 WHERE {m}"), false, true),
        1 => (format!("UPDATE {TABLE} SET m = 1 WHERE {m} AND n < {bound}"), false, false),
        2 => (format!("UPDATE {joined} SET a.m = 1 WHERE {of_b} AND a.n < {bound}"), false, false),
        3 => (format!("DELETE FROM {TABLE} WHERE {m}"), true, true),
        // The rows that the statement makes match are not met again.
        4 => {
            let text = format!("CONCAT_WS(' ', {}, {})", texts[0], quote(&question.text));
            (format!("UPDATE {TABLE} SET m = m + 1, {} = LEFT({text}, 300) WHERE {m}", texts[0]), false, true)
        }
        5 => (format!("DELETE FROM {TABLE} WHERE n < {bound} AND 0 < {m}"), true, false),
        6 => (format!("UPDATE {TABLE} SET m = 1 WHERE m = 0 AND {m} > 0"), false, true),
        _ => (format!("DELETE a FROM {joined} WHERE {of_b} AND b.n < {bound}"), true, false),
    };
    let (mut hit, mut other) = (BTreeSet::new(), BTreeSet::new());
    for (row, outcome) in snapshot.zip(answer) {
        let takes = outcome.matches && (any_n || row.n < bound);
        (if takes { &mut hit } else { &mut other }).insert(row.tag);
    }
    let affected = run_one(session, &statement)?;
    let look = if deletes {
        format!("SELECT tag FROM {TABLE}")
    } else {
        format!("SELECT tag FROM {TABLE} WHERE m = 1")
    };
    let rows = session.numbers(&look).map_err(|failure| Asked { statement: look.clone(), failure })?;
    let found: BTreeSet<i64> = rows.iter().map(|row| row[0]).collect();
    let expected = if deletes { &other } else { &hit };
    let wrong: Vec<i64> = found.symmetric_difference(expected).copied().take(8).collect();
    if affected == hit.len() as u64 && wrong.is_empty() {
        return Ok(None);
    }
    Ok(Some(format!("{statement}: {affected} rows instead of {}; wrong: {wrong:?}", hit.len())))
}
