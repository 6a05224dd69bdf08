//! The report in a few lines: how many tables can move, which cannot and why, what changes for how many.

use super::table::{Sort, State, Table, Verdict};

/// Tables that are named where a list is cut.
const NAMED: usize = 20;
/// Tables that are named with a note.
const NAMED_WITH_NOTE: usize = 3;

/// Bytes, rounded up to megabytes.
pub fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// A note without the names and numbers in it, so that notes of one kind are equal.
fn kind(note: &str) -> String {
    let mut kind = String::new();
    // Every second part stands in quotes.
    for (at, part) in note.split('`').enumerate() {
        match at % 2 {
            0 if matches!(part, "." | ", " | "") && kind.ends_with("...") => {}
            0 => kind.push_str(&part.replace(|c: char| c.is_ascii_digit(), "")),
            _ if kind.ends_with("...") => {}
            _ => kind.push_str("..."),
        }
    }
    kind.replace("  ", " ")
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn names(tables: &[&Table], limit: usize) -> String {
    let mut text: Vec<String> = tables.iter().take(limit).map(|table| table.quoted()).collect();
    if tables.len() > limit {
        text.push(format!("{} more", tables.len() - limit));
    }
    text.join(", ")
}

/// The lines. `by_dump` are the same tables, judged for a move by dump.
pub fn lines(tables: &[(Table, Verdict)], by_dump: &[(Table, Verdict)]) -> Vec<String> {
    let of = |state: State| -> Vec<&(Table, Verdict)> {
        tables.iter().filter(|(_, verdict)| verdict.state == state).collect()
    };
    let own = tables.iter().filter(|(table, _)| table.sort != Sort::View).count();
    let (can, cannot) = (of(State::Can), of(State::Cannot));
    let bytes: u64 = can.iter().map(|(table, _)| table.bytes).sum();
    let mut lines = vec![format!(
        "{} of {} can become TidesDB, {} MB; {} TidesDB already; {}",
        can.len(),
        count(own, "table", "tables"),
        megabytes(bytes),
        match of(State::Already).len() {
            1 => "1 is".to_string(),
            number => format!("{number} are"),
        },
        count(of(State::View).len(), "view follows its tables", "views follow their tables")
    )];
    if !cannot.is_empty() {
        lines.push(format!("{} cannot as they are (--full tells what each takes):", cannot.len()));
        for (table, verdict) in cannot.iter().take(NAMED) {
            lines.push(format!("  {}: {}", table.quoted(), verdict.against.join("; ")));
        }
        if cannot.len() > NAMED {
            lines.push(format!("  and {} more", cannot.len() - NAMED));
        }
        let freed: Vec<&Table> = by_dump
            .iter()
            .filter(|(table, verdict)| {
                verdict.state == State::Can
                    && cannot
                        .iter()
                        .any(|(other, _)| other.schema == table.schema && other.name == table.name)
            })
            .map(|(table, _)| table)
            .collect();
        if !freed.is_empty() {
            lines.push(format!("  of them a move by dump (--dump) takes {}", names(&freed, NAMED)));
        }
    }
    let mut kinds: Vec<(String, Vec<&Table>)> = Vec::new();
    for (table, verdict) in tables {
        for note in &verdict.notes {
            let kind = kind(note);
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, members)) => members.push(table),
                None => kinds.push((kind, vec![table])),
            }
        }
    }
    for (kind, members) in kinds {
        lines.push(format!("{}: {kind}", names(&members, NAMED_WITH_NOTE)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::facts::Facts;
    use crate::advise::family::judged;
    use crate::advise::table::tests::{key_to, table};

    #[test]
    fn notes_of_one_kind_are_one_line() {
        let a = kind("foreign keys link it with `shop`.`a`, `shop`.`b`: they convert together");
        assert_eq!(a, "foreign keys link it with ...: they convert together");
        assert_eq!(a, kind("foreign keys link it with `shop`.`a`: they convert together"));
        assert_eq!(kind("all of its 12 partitions"), kind("all of its 3 partitions"));
    }

    #[test]
    fn a_hundred_tables_are_a_few_lines() {
        let mut tables = Vec::new();
        for number in 0..100 {
            tables.push(table(|table| {
                table.name = format!("t{number}");
                match number % 4 {
                    0 => table.indexes.push(("p".into(), "SPATIAL".into())),
                    1 => table.engine = Some("MyISAM".into()),
                    2 => table.foreign_keys = vec![key_to("t3")],
                    _ => {}
                }
            }));
        }
        tables.push(table(|table| (table.name, table.sort) = ("old".into(), Sort::Versioned)));
        let by_dump = judged(tables.clone(), &Facts { by_dump: true, ..Facts::default() });
        let lines = lines(&judged(tables, &Facts::default()), &by_dump);
        assert!(lines.len() < 30, "{lines:#?}");
        assert!(lines[0].starts_with("75 of 101 tables can become TidesDB, 1 MB; 0 are"), "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("and 6 more")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("(--dump) takes `shop`.`old`")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("22 more: it becomes transactional")), "{lines:#?}");
    }
}
