//! Differences without a fault of TidesDB, each with its reason. The list is short on purpose: a new line
//! needs a known cause, and names it.

use super::answer::{Answer, Row};
use super::program::{Sort, Step};

/// A known difference.
struct Known {
    /// The two tables are not the same any more: the program ends.
    ends: bool,
    reason: &'static str,
    applies: fn(&Case<'_>) -> bool,
}

/// Why a difference is none.
pub(super) struct Reason {
    pub(super) text: &'static str,
    /// The program cannot go on.
    pub(super) ends: bool,
}

/// The explanation of a difference.
struct Case<'a> {
    step: &'a Step,
    statement: &'a str,
    innodb: &'a Answer,
    tidesdb: &'a Answer,
}

const ALL: [Known; 13] = [
    Known {
    ends: false,
    reason: "a row that a join meets twice is set at once or collected first, as the plan says: it warns twice or once",
    applies: |case| {
        let quiet = |answer: &Answer| (answer.affected, answer.rows.clone(), matched_and_changed(&answer.info));
        case.step.sort == Sort::Change
            && case.statement.starts_with("UPDATE")
            && case.statement.contains(" JOIN ")
            && case.innodb.error.is_none()
            && case.tidesdb.error.is_none()
            && quiet(case.innodb) == quiet(case.tidesdb)
    },
},
    Known {
        ends: true,
        reason: "InnoDB refuses UPDATE IGNORE below REPEATABLE READ where a key is unique by a hash (1235)",
        applies: |case| case.innodb.error.as_ref().is_some_and(|(code, _)| *code == 1235),
    },
    Known {
        ends: true,
        reason: "InnoDB refuses to change a geometry to one of no bytes (1416), and takes it in a new row",
        applies: |case| {
            let refused = case.innodb.error.as_ref().is_some_and(|(code, _)| *code == 1416);
            // A prepared statement does not say here what it does.
            let changes = ["UPDATE", "REPLACE", "EXECUTE"].iter().any(|word| case.statement.starts_with(word));
            let changes = changes || case.statement.contains("ON DUPLICATE KEY UPDATE");
            changes && refused
        },
    },
    Known {
        ends: false,
        reason: "with optimize_join_buffer_size=off the server refuses a join for which it plans more buffer than \
                 join_buffer_size (1037); how much that is follows from the rows that it expects for a value",
        applies: |case| {
            let one = case.innodb.error.as_ref().xor(case.tidesdb.error.as_ref());
            case.step.sort != Sort::Change && one.is_some_and(|(code, _)| *code == 1037)
        },
    },
    Known {
        ends: false,
        reason: "InnoDB's CHECK TABLE computes virtual columns again, and warns as their expressions do",
        applies: |case| {
            let warns = |row: &Row| row.get(2).is_some_and(|kind| kind.as_deref() == Some(b"Warning"));
            let quiet = case.innodb.rows.iter().filter(|row| !warns(row));
            case.statement.starts_with("CHECK TABLE") && quiet.eq(&case.tidesdb.rows)
        },
    },
    Known {
        ends: false,
        reason: "TidesDB's CHECK TABLE EXTENDED tells of children without parents (and InnoDB's of virtual columns)",
        applies: |case| {
            let tells = |row: &Row| {
                let text = row.get(3).and_then(Option::as_deref).unwrap_or_default();
                row.get(2).is_some_and(|kind| kind.as_deref() == Some(b"warning")) && text.starts_with(b"foreign key ")
            };
            let warns = |row: &Row| row.get(2).is_some_and(|kind| kind.as_deref() == Some(b"Warning"));
            let quiet = case.tidesdb.rows.iter().filter(|row| !tells(row));
            case.statement.starts_with("CHECK TABLE") && quiet.eq(case.innodb.rows.iter().filter(|row| !warns(row)))
        },
    },
    Known {
        ends: true,
        reason: "an UPDATE damages InnoDB's index with a virtual column: its CHECK TABLE says Corrupt, or a read is refused (1712)",
        applies: |case| {
            let is = |row: &Row, at: usize, text: &[u8]| row.get(at).is_some_and(|c| c.as_deref() == Some(text));
            let corrupt = case.innodb.rows.iter().any(|row| is(row, 2, b"error") && is(row, 3, b"Corrupt"));
            let sound = case.tidesdb.rows.iter().all(|row| is(row, 2, b"status") && is(row, 3, b"OK"));
            let found = case.statement.starts_with("CHECK TABLE") && corrupt && sound;
            let refused = case.innodb.error.as_ref().is_some_and(|(code, _)| *code == 1712);
            case.step.virtuals && (found || refused)
        },
    },
    Known {
        ends: true,
        reason: "InnoDB, which is told to copy here, computes virtual columns of texts that are no numbers, and fails (1292)",
        applies: |case| {
            let refused = case.innodb.error.as_ref().is_some_and(|(code, _)| *code == 1292);
            refused && !case.step.innodb.is_empty() && case.tidesdb.error.is_none()
        },
    },
    Known {
        ends: true,
        reason: "a join that compares a virtual column in another collation leaves the table's expression changed in the \
                 server's cache; RENAME COLUMN of its base then fails there, with either engine",
        applies: |case| {
            let one = case.innodb.error.as_ref().xor(case.tidesdb.error.as_ref());
            case.statement.contains("RENAME COLUMN") && one.is_some_and(|(code, _)| *code == 1054)
        },
    },
    Known {
        ends: true,
        reason: "InnoDB acts on children before it meets a duplicate of a secondary key, and IGNORE does not pass over 1761",
        applies: |case| {
            let acted = case.innodb.error.as_ref().is_some_and(|(code, _)| *code == 1761);
            acted && case.tidesdb.error.is_none() && case.statement.starts_with("UPDATE IGNORE")
        },
    },
    Known {
        ends: true,
        reason: "InnoDB gives up actions that are more than 15 deep (152)",
        applies: |case| {
            let is_refused = case.innodb.error.as_ref().is_some_and(|(code, _)| *code == 152);
            is_refused || case.innodb.warnings.iter().any(|(_, code)| *code == 152)
        },
    },
    Known {
        ends: true,
        reason: "InnoDB lets an index of a foreign key go where a unique one, or one with columns of the primary key, \
                 serves together with the rest of that (TidesDB: 1553)",
        applies: |case| {
            let refused = case.tidesdb.error.as_ref().is_some_and(|(code, _)| *code == 1553);
            refused && case.innodb.error.is_none() && case.statement.contains(" DROP KEY ")
        },
    },
    Known {
        ends: true,
        reason: "InnoDB's copy of a table begins AUTO_INCREMENT after the largest number; TidesDB keeps what was given out",
        applies: |case| {
            let one = |answer: &Answer| numbered(answer.rows.first()?.get(1)?.as_deref()?);
            case.statement.starts_with("SHOW CREATE TABLE")
                && one(case.innodb)
                    .zip(one(case.tidesdb))
                    .is_some_and(|((a, less), (b, more))| a == b && less < more)
        },
    },
];

/// A table's definition without its AUTO_INCREMENT, and the AUTO_INCREMENT.
fn numbered(definition: &[u8]) -> Option<(String, u64)> {
    let text = String::from_utf8_lossy(definition);
    let (before, after) = text.split_once(" AUTO_INCREMENT=")?;
    let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    Some((format!("{before}{}", &after[end..]), after[..end].parse().ok()?))
}

/// The text before the number of warnings.
fn matched_and_changed(info: &str) -> String {
    info.split("Warnings").next().unwrap_or_default().to_string()
}

/// The reason for the answers' difference; none for an unknown difference.
pub(super) fn reason(step: &Step, statement: &str, innodb: &Answer, tidesdb: &Answer) -> Option<Reason> {
    let case = Case { step, statement, innodb, tidesdb };
    let known = ALL.iter().find(|known| (known.applies)(&case))?;
    Some(Reason { text: known.reason, ends: known.ends })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_a_join_are_known_and_its_rows_are_not() {
        let step = Step::new(Sort::Change, "");
        let of = |affected, info: &str| Answer { affected, info: info.to_string(), ..Answer::default() };
        let (one, two) = (of(1, "Changed: 1  Warnings: 1"), of(1, "Changed: 1  Warnings: 2"));
        assert!(reason(&step, "UPDATE t x JOIN u y ON 1 SET x.a = 1", &one, &two).is_some());
        assert!(reason(&step, "UPDATE t SET a = 1", &one, &two).is_none());
        assert!(reason(&step, "UPDATE t x JOIN u y ON 1 SET x.a = 1", &one, &of(2, &two.info)).is_none());
    }

    #[test]
    fn a_later_number_is_known_and_another_definition_is_not() {
        let step = Step::new(Sort::Look, "");
        let of = |text: &str| Answer {
            rows: vec![vec![Some(b"t".to_vec()), Some(text.as_bytes().to_vec())]],
            ..Answer::default()
        };
        let (two, three) = (of("(a) ENGINE AUTO_INCREMENT=2 X"), of("(a) ENGINE AUTO_INCREMENT=3 X"));
        assert!(reason(&step, "SHOW CREATE TABLE t", &two, &three).is_some());
        assert!(reason(&step, "SHOW CREATE TABLE t", &three, &two).is_none());
        assert!(reason(&step, "SHOW CREATE TABLE t", &two, &of("(b) ENGINE AUTO_INCREMENT=3 X")).is_none());
    }

    #[test]
    fn what_check_table_warns_of_is_known_and_what_it_finds_is_not() {
        let step = Step::new(Sort::Look, "");
        let row = |kind: &str| ["t", "check", kind, "x"].map(|text| Some(text.as_bytes().to_vec())).to_vec();
        let of = |kinds: &[&str]| Answer {
            rows: kinds.iter().map(|kind| row(kind)).collect(),
            ..Answer::default()
        };
        let (warned, quiet) = (of(&["Warning", "status"]), of(&["status"]));
        assert!(reason(&step, "CHECK TABLE t EXTENDED", &warned, &quiet).is_some());
        assert!(reason(&step, "CHECK TABLE t EXTENDED", &of(&["error", "status"]), &quiet).is_none());
        assert!(reason(&step, "CHECK TABLE t EXTENDED", &quiet, &warned).is_none());
    }

    #[test]
    fn children_without_parents_are_known_and_other_warnings_are_not() {
        let step = Step::new(Sort::Look, "");
        let says = |text: &str| Answer {
            rows: [("warning", text), ("status", "OK")]
                .map(|(kind, text)| {
                    ["t", "check", kind, text].map(|text| Some(text.as_bytes().to_vec())).to_vec()
                })
                .to_vec(),
            ..Answer::default()
        };
        let quiet = Answer { rows: says("").rows[1..].to_vec(), ..Answer::default() };
        let orphan = says("foreign key t_fk1: a row refers to (2), which `p` does not have");
        assert!(reason(&step, "CHECK TABLE t EXTENDED", &quiet, &orphan).is_some());
        assert!(reason(&step, "CHECK TABLE t EXTENDED", &quiet, &says("an entry without a row")).is_none());
        assert!(reason(&step, "CHECK TABLE t EXTENDED", &orphan, &quiet).is_none());
    }

    #[test]
    fn only_innodbs_own_damage_is_known() {
        let says = |kind: &str, text: &str| Answer {
            rows: vec![["t", "check", kind, text].map(|text| Some(text.as_bytes().to_vec())).to_vec()],
            ..Answer::default()
        };
        let (corrupt, sound) = (says("error", "Corrupt"), says("status", "OK"));
        let step = Step::new(Sort::Look, "").virtuals(true);
        assert!(reason(&step, "CHECK TABLE t EXTENDED", &corrupt, &sound).is_some());
        let ours = says("error", "an entry without a row");
        assert!(reason(&step, "CHECK TABLE t EXTENDED", &corrupt, &ours).is_none());
        assert!(reason(&step, "CHECK TABLE t EXTENDED", &sound, &corrupt).is_none());
        let plain = Step::new(Sort::Look, "");
        assert!(reason(&plain, "CHECK TABLE t EXTENDED", &corrupt, &sound).is_none());
    }
}
