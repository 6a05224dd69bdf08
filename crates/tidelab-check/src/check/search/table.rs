//! Table of a round: its columns, key, collation, partitions and full text indexes, and the rules of their words.

use super::super::sql::Dice;
use super::words::Rules;

/// Name of the table.
pub(super) const TABLE: &str = "search.t";

const COLLATIONS: [&str; 13] = [
    "utf8mb4_uca1400_ai_ci",
    "utf8mb4_uca1400_ai_ci",
    "utf8mb4_uca1400_as_cs",
    "utf8mb4_uca1400_as_ci",
    "utf8mb4_bin",
    "latin1_swedish_ci",
    "utf8mb4_general_ci",
    "utf8mb4_german2_ci",
    "utf8mb4_czech_ci",
    "utf8mb4_turkish_ci",
    "utf8mb4_uca1400_swedish_as_cs",
    "utf8mb4_unicode_nopad_ci",
    "latin1_german1_ci",
];
const BLENDS: [&str; 12] = ["", "", "", "", "-", "'", ".-", "@", "+'", "-*", "(", "/~<\""];

/// Words of tables of stopwords; the first ones are in latin1 too.
const OWN_STOPWORDS: [&str; 16] = [
    "the",
    "a",
    "I",
    "us",
    "ta",
    "Re",
    "\u{e9}",
    "tri",
    "lo",
    "42",
    "x",
    "_",
    "stra\u{df}e",
    "\u{6771}",
    "\u{6771}\u{4eac}",
    "\u{3b1}",
];
const OF_LATIN1: usize = 13;

/// Values of `k` lie below.
pub(super) const KEYS: i64 = 300;

/// A key of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Int,
    BigInt,
    Text,
    Composite,
    None,
}

/// A column of texts.
#[derive(Clone, Debug)]
pub(super) struct TextColumn {
    pub(super) name: String,
    /// As it is declared.
    kind: &'static str,
    /// Characters of its longest value.
    pub(super) most: usize,
    pub(super) nullable: bool,
}

/// A full text index over some of the text columns, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) name: &'static str,
    pub(super) columns: Vec<usize>,
}

/// The table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) key: Key,
    pub(super) collation: &'static str,
    pub(super) columns: Vec<TextColumn>,
    pub(super) indexes: Vec<Index>,
    pub(super) partitions: u32,
    /// An ordinary index on `n`.
    indexed: bool,
    pub(super) rules: Rules,
}

impl Table {
    pub(super) fn draw(dice: &mut Dice) -> Table {
        let count = dice.count(1, 3);
        let columns: Vec<TextColumn> = (0..count)
            .map(|number| {
                let (kind, most) = *dice.pick(&[
                    ("MEDIUMTEXT", usize::MAX),
                    ("MEDIUMTEXT", usize::MAX),
                    ("VARCHAR(300)", 300),
                ]);
                let (kind, most) = if dice.one_in(6) { ("VARCHAR(2000)", 2000) } else { (kind, most) };
                TextColumn { name: format!("c{number}"), kind, most, nullable: dice.one_in(2) }
            })
            .collect();
        let numbers: Vec<usize> = (0..count).collect();
        let mut indexes = Vec::new();
        for name in ["f", "g"].into_iter().take(dice.count(1, 2)) {
            let some = dice.count(1, count);
            let columns = dice.some(&numbers, some);
            let same = |index: &Index| {
                let (mut one, mut other) = (index.columns.clone(), columns.clone());
                one.sort_unstable();
                other.sort_unstable();
                one == other
            };
            if !indexes.iter().any(same) {
                indexes.push(Index { name, columns });
            }
        }
        let collation = dice.word(&COLLATIONS);
        Table {
            key: *dice.pick(&[Key::Int, Key::BigInt, Key::Text, Key::Composite, Key::None]),
            collation,
            columns,
            indexes,
            partitions: if dice.one_in(4) { 3 } else { 0 },
            indexed: dice.one_in(2),
            rules: rules(dice, collation.starts_with("utf8mb4")),
        }
    }

    /// A small one, for planted faults.
    pub(super) fn plain() -> Table {
        let column = TextColumn { name: "c0".to_string(), kind: "TEXT", most: 1_000, nullable: false };
        Table {
            key: Key::Int,
            collation: "utf8mb4_general_ci",
            columns: vec![column],
            indexes: vec![Index { name: "f", columns: vec![0] }],
            partitions: 0,
            indexed: false,
            rules: Rules { least: 3, most: 84, ..Rules::default() },
        }
    }

    /// True if its columns have characters beyond latin1.
    pub(super) fn is_unicode(&self) -> bool {
        self.collation.starts_with("utf8mb4")
    }

    /// Settings for new indexes, and the table.
    pub(super) fn definition(&self) -> Vec<String> {
        let key_columns = if self.key == Key::Composite { "k, l" } else { "k" };
        let mut parts = vec![format!("k {} NOT NULL", self.key_type())];
        if self.key == Key::Composite {
            parts.push("l VARCHAR(5) NOT NULL".to_string());
        }
        parts.push("tag INT NOT NULL, n INT NOT NULL, m INT NOT NULL DEFAULT 0".to_string());
        for column in &self.columns {
            let null = if column.nullable { "NULL" } else { "NOT NULL" };
            parts.push(format!("{} {} {null}", column.name, column.kind));
        }
        if self.key != Key::None {
            parts.push(format!("PRIMARY KEY ({key_columns})"));
        }
        if self.indexed {
            parts.push("KEY (n)".to_string());
        }
        parts.extend(
            self.indexes
                .iter()
                .map(|index| format!("FULLTEXT KEY {} ({}){}", index.name, self.list(index), self.parser())),
        );
        let partitions = match self.partitions {
            0 => String::new(),
            count => format!(" PARTITION BY KEY ({key_columns}) PARTITIONS {count}"),
        };
        let blend: String = self.rules.blend.iter().collect();
        let stopwords = match &self.rules.stopwords {
            None => vec!["SET GLOBAL tidesdb_ft_stopword_table = ''".to_string()],
            Some(words) => stopword_table(words),
        };
        let rules = [
            format!("SET GLOBAL tidesdb_fts_min_word_len = {}", self.rules.least),
            format!("SET GLOBAL tidesdb_fts_max_word_len = {}", self.rules.most),
            format!("SET GLOBAL tidesdb_fts_blend_chars = {}", quote(&blend)),
            format!("SET GLOBAL tidesdb_ngram_token_size = {}", self.rules.ngram.max(1)),
        ];
        let table = format!(
            "CREATE OR REPLACE TABLE {TABLE} ({}) ENGINE=TidesDB COLLATE {}{partitions}",
            parts.join(", "),
            self.collation
        );
        stopwords.into_iter().chain(rules).chain([table]).collect()
    }

    /// The parser of an index, as its definition has it.
    pub(super) fn parser(&self) -> &'static str {
        match self.rules.ngram {
            0 => "",
            _ => " WITH PARSER ngram",
        }
    }

    fn key_type(&self) -> &'static str {
        match self.key {
            Key::Int | Key::Composite | Key::None => "INT",
            Key::BigInt => "BIGINT",
            Key::Text => "VARCHAR(40)",
        }
    }

    /// Columns of an index, as a list.
    pub(super) fn list(&self, index: &Index) -> String {
        let names: Vec<&str> =
            index.columns.iter().map(|column| self.columns[*column].name.as_str()).collect();
        names.join(", ")
    }

    /// Values of the key's columns, by a number below [`KEYS`].
    pub(super) fn key_values(&self, number: i64) -> Vec<String> {
        match self.key {
            Key::Int | Key::None => vec![number.to_string()],
            Key::BigInt => vec![((number - 40) * 1_000_000_000_007).to_string()],
            Key::Text => vec![format!(
                "'{}'",
                "key é'z".repeat(usize::try_from(number % 4).unwrap_or(0)).replace('\'', "''")
                    + &number.to_string()
            )],
            Key::Composite => vec![(number % 7).to_string(), format!("'{}'", number / 7)],
        }
    }

    /// A condition on the key.
    pub(super) fn key_is(&self, number: i64) -> String {
        let values = self.key_values(number);
        match values.as_slice() {
            [k, l] => format!("k = {k} AND l = {l}"),
            _ => format!("k = {}", values[0]),
        }
    }

    /// The statement to read all rows: `tag`, `n`, and the texts.
    pub(super) fn read_all(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        format!("SELECT tag, n, {} FROM {TABLE}", names.join(", "))
    }
}

/// Rules of words, or of ngrams.
fn rules(dice: &mut Dice, unicode: bool) -> Rules {
    let known = if unicode { &OWN_STOPWORDS[..] } else { &OWN_STOPWORDS[..OF_LATIN1] };
    let count = dice.count(0, 8);
    let stopwords = dice.one_in(3).then(|| dice.some(known, count));
    if dice.one_in(4) {
        let ngram = *dice.pick(&[1, 2, 2, 2, 3]);
        return Rules { least: ngram, most: ngram, ngram, stopwords, blend: Vec::new() };
    }
    Rules {
        least: *dice.pick(&[3, 3, 3, 1, 2, 4]),
        most: *dice.pick(&[84, 84, 84, 20, 6]),
        blend: dice.word(&BLENDS).chars().collect(),
        ngram: 0,
        stopwords,
    }
}

/// A table with these words, and the variable that names it.
fn stopword_table(words: &[&str]) -> Vec<String> {
    let mut statements = vec![
        "CREATE OR REPLACE TABLE search.stopwords (value VARCHAR(50) COLLATE utf8mb4_bin)".to_string(),
        "SET GLOBAL tidesdb_ft_stopword_table = 'search/stopwords'".to_string(),
    ];
    if !words.is_empty() {
        let values: Vec<String> = words.iter().map(|word| format!("({})", quote(word))).collect();
        statements.insert(1, format!("INSERT INTO search.stopwords VALUES {}", values.join(", ")));
    }
    statements
}

/// A text as a literal.
pub(super) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
