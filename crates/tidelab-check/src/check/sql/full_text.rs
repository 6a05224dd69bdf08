//! A table with FULLTEXT indexes, and statements with MATCH.
//!
//! Both engines find the same rows where no transaction is open: InnoDB's searches see committed rows alone. Scores
//! differ, so that only their signs are shown. Queries have words that both engines keep (three characters and more, no
//! stopwords), and no operator that changes scores alone. Collations are without those that InnoDB's words treat in
//! another way.

use super::dice::Dice;
use super::marks::{list, maybe};
use super::program::{Sort, Step};

/// Its name.
const TABLE: &str = "f";

const COLLATIONS: [&str; 7] = [
    "latin1_swedish_ci",
    "latin1_german1_ci",
    "utf8mb4_general_ci",
    "utf8mb4_unicode_ci",
    "utf8mb4_uca1400_ai_ci",
    "utf8mb4_bin",
    "utf8mb3_general_ci",
];

/// Words of texts and queries; some begin alike, some are equal in some collations.
const WORDS: [&str; 16] = [
    "apple",
    "Apple",
    "apples",
    "banana",
    "band",
    "bandage",
    "cherry",
    "cafe",
    "café",
    "elder",
    "lemon",
    "LEMON",
    "melon",
    "plum",
    "under_score",
    "x42",
];
/// Words of texts alone: in no index.
const LEFT_OUT: [&str; 4] = ["of", "the", "a", "zz"];
const BETWEEN: [&str; 6] = [" ", " ", " ", ", ", " - ", ". "];
const BEGINNINGS: [&str; 6] = ["app", "ban", "band", "lem", "mel", "und"];

/// The table as the program has left it.
#[derive(Debug)]
pub(super) struct Texts {
    dice: Dice,
    /// A program has it or not.
    wanted: bool,
    made: bool,
    /// The index over both columns is there.
    both: bool,
    /// InnoDB's ALTER may have made an index: it forgets places of words, and the case of letters in `_bin`.
    altered: bool,
    /// Changes before savepoints.
    saved: u32,
    /// The collation.
    collation: &'static str,
}

impl Texts {
    /// By a seed of its own: the rest of the program does not change.
    pub(super) fn new(seed: u64) -> Texts {
        let mut dice = Dice::new(seed.rotate_left(17) ^ 0x5eed_0f7e_5eed_0f7e);
        let wanted = dice.one_in(2);
        Texts { dice, wanted, made: false, both: false, altered: false, saved: 0, collation: "" }
    }

    /// Steps over the table instead of another statement; none in most cases. `settled`: no transaction is open.
    pub(super) fn steps(&mut self, settled: bool) -> Option<Vec<Step>> {
        if !self.wanted || !self.dice.one_in(3) {
            return None;
        }
        if !self.made {
            return settled.then(|| self.make());
        }
        let step = match self.dice.number(0, 19) {
            0..=8 if settled => self.query(),
            9..=12 if settled => self.change_by_match(),
            13 if settled && self.dice.one_in(3) && !self.collation.ends_with("_bin") => self.define(),
            _ => return Some(vec![self.change(settled)]),
        };
        // (A definition that was refused early has ended no transaction.)
        Some(vec![Step::new(Sort::Control, "COMMIT").stays(), step])
    }

    /// A change of a text, to one that the row never had. Without one InnoDB has no savepoint for words, and loses
    /// those of rows that ROLLBACK TO SAVEPOINT takes back.
    pub(super) fn before_savepoint(&mut self) -> Option<Step> {
        self.saved += 1;
        let text = format!("REPLACE INTO {TABLE} VALUES (0, NULL, 'saved{}', 0)", self.saved);
        self.made.then(|| Step::new(Sort::Change, text).ordered(true).stays())
    }

    /// Looks at the whole table.
    pub(super) fn looks(&self, settled: bool) -> Vec<Step> {
        if !self.made {
            return Vec::new();
        }
        let mut steps =
            vec![Step::new(Sort::Query, format!("SELECT id, title, body, n FROM {TABLE}")).look()];
        if settled {
            for text in [format!("CHECK TABLE {TABLE} EXTENDED"), format!("SHOW CREATE TABLE {TABLE}")] {
                steps.push(Step::new(Sort::Look, text).look());
            }
        }
        steps
    }

    fn make(&mut self) -> Vec<Step> {
        self.made = true;
        self.both = self.dice.one_in(2);
        let collation = self.dice.word(&COLLATIONS);
        self.collation = collation;
        let set = collation.split('_').next().unwrap_or_default();
        let kind = self.dice.word(&["TEXT", "VARCHAR(200)", "MEDIUMTEXT"]);
        let both = if self.both { ", FULLTEXT KEY g (title, body)" } else { "" };
        let text = format!(
            "CREATE TABLE {TABLE} (id INT PRIMARY KEY, title VARCHAR(60), body {kind}, n INT NOT NULL, KEY (n), \
             FULLTEXT KEY h (body){both}) CHARACTER SET {set} COLLATE {collation}"
        );
        let mut steps = vec![Step::new(Sort::Definition, text)];
        for _ in 0..self.dice.count(1, 4) {
            steps.push(self.insert("INSERT IGNORE", 20));
        }
        steps
    }

    fn text(&mut self, most: usize) -> String {
        let mut text = String::new();
        for _ in 0..self.dice.count(0, most) {
            if !text.is_empty() {
                text.push_str(self.dice.word(&BETWEEN));
            }
            let left_out = self.dice.one_in(6);
            text.push_str(if left_out { self.dice.word(&LEFT_OUT) } else { self.dice.word(&WORDS) });
        }
        text
    }

    fn value(&mut self, most: usize) -> String {
        if self.dice.one_in(12) {
            return "NULL".to_string();
        }
        format!("'{}'", self.text(most))
    }

    fn id(&mut self) -> i64 {
        self.dice.number(1, 90)
    }

    fn insert(&mut self, verb: &str, rows: usize) -> Step {
        let rows: Vec<String> = (0..rows)
            .map(|_| {
                let (id, n) = (self.id(), self.dice.number(0, 9));
                format!("({id}, {}, {}, {n})", self.value(3), self.value(9))
            })
            .collect();
        Step::new(Sort::Change, format!("{verb} INTO {TABLE} VALUES {}", list(", ", rows))).ordered(true)
    }

    /// MATCH over the columns of one index. InnoDB judges rows that others ways than the search brought by words that they
    /// have, whatever + and - ask for: such a place gets none of these, unless `by_search`.
    fn matches(&mut self, alias: &str, by_search: bool) -> String {
        let columns = if self.both && self.dice.one_in(2) {
            format!("{alias}title, {alias}body")
        } else {
            format!("{alias}body")
        };
        if self.dice.one_in(3) {
            let words: Vec<String> =
                (0..self.dice.count(1, 3)).map(|_| self.dice.word(&WORDS).to_string()).collect();
            return format!("MATCH ({columns}) AGAINST ('{}')", list(" ", words));
        }
        let query = match (by_search, self.dice.number(0, 7)) {
            // (In `_bin` InnoDB compares a phrase with the row's text in small letters.)
            (_, 0) if !self.altered && !self.collation.ends_with("_bin") => {
                let words = [self.dice.word(&WORDS), self.dice.word(&WORDS)].map(str::to_string);
                format!("\"{}\"", list(" ", words))
            }
            (_, 1) => format!("+{}", self.dice.word(&WORDS)),
            (false, _) => {
                let parts: Vec<String> = (0..self.dice.count(1, 3)).map(|_| self.part("")).collect();
                list(" ", parts)
            }
            (true, _) => {
                // A query of excluded words alone finds nothing.
                let mut parts = vec![self.dice.word(&["", "+"])];
                parts.extend((0..self.dice.count(0, 2)).map(|_| self.dice.word(&["", "+", "-"])));
                let parts: Vec<String> = parts.into_iter().map(|sign| self.part(sign)).collect();
                list(" ", parts)
            }
        };
        format!("MATCH ({columns}) AGAINST ('{query}' IN BOOLEAN MODE)")
    }

    /// A word or a beginning. (InnoDB takes the rows of each group in parentheses, whatever stands before it.)
    fn part(&mut self, sign: &str) -> String {
        match self.dice.number(0, 4) {
            0 => format!("{sign}{}*", self.dice.word(&BEGINNINGS)),
            _ => format!("{sign}{}", self.dice.word(&WORDS)),
        }
    }

    fn query(&mut self) -> Step {
        let k = self.dice.number(0, 9);
        let lock = maybe(self.dice.word(&["", "", "", " FOR UPDATE", " LOCK IN SHARE MODE"]));
        let form = self.dice.number(0, 11);
        let m = self.matches("", [0, 1, 3, 9, 10, 11].contains(&form));
        let text = match form {
            0 | 1 => format!("SELECT id, n FROM {TABLE} WHERE {m}{lock}"),
            2 => format!("SELECT id, {m} > 0 FROM {TABLE}{lock}"),
            3 => format!("SELECT COUNT(*) FROM {TABLE} WHERE {m} AND n < {k}"),
            4 => format!("SELECT id, title FROM {TABLE} WHERE {m} OR n = {k}{lock}"),
            5 => format!("SELECT id FROM {TABLE} WHERE NOT {m}"),
            6 => format!("SELECT id, body FROM {TABLE} WHERE {m} AND {}", self.matches("", false)),
            7 => {
                let (x, y) = (self.matches("x.", false), self.matches("y.", false));
                format!("SELECT x.id, y.id FROM {TABLE} x JOIN {TABLE} y ON x.n = y.n WHERE {x} AND {y}")
            }
            8 => format!("SELECT id FROM {TABLE} WHERE n = {k} AND id IN (SELECT id FROM {TABLE} WHERE {m})"),
            9 => {
                let text = format!("SELECT id, n FROM {TABLE} WHERE {m} ORDER BY id LIMIT {}", k + 1);
                return Step::new(Sort::Query, text).ordered(true);
            }
            10 => format!("SELECT n, COUNT(*) FROM {TABLE} WHERE {m} GROUP BY n"),
            _ => {
                let other = self.matches("", true);
                format!("SELECT id FROM {TABLE} WHERE {m} UNION SELECT id FROM {TABLE} WHERE {other}")
            }
        };
        Step::new(Sort::Query, text)
    }

    fn change_by_match(&mut self) -> Step {
        let m = self.matches("", false);
        let (k, modulus) = (self.dice.number(0, 9), self.dice.number(2, 5));
        let body = self.value(6);
        let text = match self.dice.number(0, 10) {
            0 | 1 => format!("UPDATE {TABLE} SET n = {k} WHERE {m}"),
            2 => format!("UPDATE {TABLE} SET body = {body} WHERE {m} AND id % {modulus} = 0"),
            3 => format!("UPDATE {TABLE} SET body = CONCAT(LEFT(body, 100), ' plum') WHERE {m} > 0"),
            4 => format!("UPDATE {TABLE} SET n = {k}, title = body WHERE {m} AND CHAR_LENGTH(body) < 60"),
            5 => format!("DELETE FROM {TABLE} WHERE {m} AND id % {modulus} = 1"),
            6 => format!("DELETE FROM {TABLE} WHERE {m} AND {} AND n <> {k}", self.matches("", false)),
            7 => {
                let text = format!("UPDATE {TABLE} SET body = {body} WHERE {m} ORDER BY id LIMIT {modulus}");
                return Step::new(Sort::Change, text).ordered(true);
            }
            8 => {
                let text = format!("UPDATE {TABLE} SET n = n + 1 WHERE {m} OR n = {k}");
                return Step::new(Sort::Change, text);
            }
            9 => {
                let m = self.matches("y.", false);
                format!("UPDATE {TABLE} x JOIN {TABLE} y ON x.id = y.id SET x.n = {k} WHERE {m}")
            }
            _ => format!("DELETE FROM {TABLE} WHERE {m} ORDER BY id LIMIT {modulus}"),
        };
        Step::new(Sort::Change, text)
    }

    /// A change that both engines make in a transaction, too. A row's key only grows there: InnoDB loses the words of a
    /// row that is new, or has a new text, and then gets a smaller key in the same transaction. At COMMIT it looks for
    /// the row by its number of the document, and takes the entry with the largest key, which is the old one.
    fn change(&mut self, settled: bool) -> Step {
        let (id, k) = (self.id(), self.dice.number(0, 9));
        let body = self.value(9);
        match self.dice.number(0, 9) {
            0 | 1 => {
                let rows = self.dice.count(1, 4);
                self.insert("INSERT IGNORE", rows)
            }
            2 | 3 => {
                let rows = self.dice.count(1, 3);
                self.insert("REPLACE", rows)
            }
            4 => {
                let mut step = self.insert("INSERT", 1);
                step.text.push_str(&format!(" ON DUPLICATE KEY UPDATE body = {body}, n = {k}"));
                step
            }
            5 | 6 => Step::new(
                Sort::Change,
                format!("UPDATE {TABLE} SET body = {body} WHERE id BETWEEN {id} AND {}", id + k),
            ),
            7 => Step::new(Sort::Change, format!("UPDATE {TABLE} SET n = {k} WHERE n = {}", (k + 3) % 10)),
            8 => Step::new(Sort::Change, format!("DELETE FROM {TABLE} WHERE id BETWEEN {id} AND {}", id + 2)),
            _ => {
                let to = self.id();
                let (id, to) = if settled { (id, to) } else { (id.min(to), id.max(to)) };
                Step::new(Sort::Change, format!("UPDATE {TABLE} SET id = {to} WHERE id = {id}"))
            }
        }
    }

    fn define(&mut self) -> Step {
        self.both = !self.both;
        self.altered = true;
        let what = if self.both { "ADD FULLTEXT KEY g (title, body)" } else { "DROP KEY g" };
        Step::new(Sort::Definition, format!("ALTER TABLE {TABLE} {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::marks::plain;
    use super::*;

    #[test]
    fn an_open_transaction_has_no_match() {
        let (mut inside, mut outside) = (0, 0);
        for seed in 0..40 {
            let mut texts = Texts::new(seed);
            for number in 0..300 {
                let settled = number % 2 == 0;
                for step in texts.steps(settled).unwrap_or_default() {
                    let text = plain(&step.text);
                    let matches = text.contains("AGAINST");
                    assert!(settled || !matches, "{text}");
                    assert_eq!(text.matches('(').count(), text.matches(')').count(), "{text}");
                    inside += u32::from(!settled);
                    outside += u32::from(matches);
                }
            }
        }
        assert!(inside > 500 && outside > 500, "{inside}, {outside}");
    }
}
