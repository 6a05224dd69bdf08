//! The types of columns: their definitions, stored values and compared values.
//!
//! Values come from few, for rows to meet each other, and from the edges of the type. [`Kind::stored`] now
//! and then gives a value beyond the type: an error or a warning, by sql_mode. [`Kind::compared`] gives only
//! values stored unchanged by the type: the number of warnings of a comparison depends on the plan.

use super::dice::Dice;

/// Collations: with and without padding, case and accents, contractions (ch, ll, aa, dz), expansions (ß), several
/// levels, characters of one to four bytes.
pub(super) const COLLATIONS: [&str; 26] = [
    "latin1_swedish_ci",
    "latin1_bin",
    "latin1_swedish_nopad_ci",
    "latin1_german2_ci",
    "utf8mb4_general_ci",
    "utf8mb4_bin",
    "utf8mb4_nopad_bin",
    "utf8mb4_general_nopad_ci",
    "utf8mb4_unicode_ci",
    "utf8mb4_unicode_nopad_ci",
    "utf8mb4_uca1400_ai_ci",
    "utf8mb4_uca1400_as_cs",
    "utf8mb4_uca1400_nopad_ai_ci",
    "utf8mb4_uca1400_nopad_as_cs",
    "utf8mb4_czech_ci",
    "utf8mb4_danish_ci",
    "utf8mb4_hungarian_ci",
    "utf8mb4_spanish2_ci",
    "utf8mb4_uca1400_czech_as_cs",
    "utf8mb4_german2_ci",
    "utf8mb3_general_ci",
    "ucs2_general_ci",
    "utf16_unicode_ci",
    "utf32_nopad_bin",
    "cp1250_czech_cs",
    "latin2_czech_cs",
];

const WORDS: [&str; 34] = [
    "", " ", "  ", "a", "A", "a ", "ab", "aB", "b", "B ", "abc", "z", "a b", "Ab ", "zz", "10", "9", "é",
    "e", "ß", "ss", "c", "ch", "CH", "cz", "h", "ll", "l", "lm", "aa", "dzs", "dz", "ä", "ae",
];

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Name, bytes, and the words after it (UNSIGNED, ZEROFILL).
    Integer(&'static str, u32, &'static str),
    Decimal(u8, u8, &'static str),
    Float,
    Double,
    Bit(u8),
    Char(u16, &'static str),
    Varchar(u16, &'static str),
    Text(&'static str, &'static str),
    Json,
    Binary(u16),
    Varbinary(u16),
    Blob(&'static str),
    Date,
    Time(u8),
    DateTime(u8),
    Timestamp(u8),
    Year,
    Enum,
    Set,
    Uuid,
    Inet4,
    Inet6,
    Point,
    Vector,
}

/// Classes of types: comparison and assignment within a class convert without a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Number,
    Text,
    Bytes,
    Temporal,
    Other,
}

impl Kind {
    pub(super) fn random(dice: &mut Dice) -> Kind {
        let collation = *dice.pick(&COLLATIONS);
        let fraction = u8::try_from(dice.number(0, 6)).unwrap_or(0);
        match dice.number(0, 43) {
            0..=9 => {
                let (name, bytes) = *dice.pick(&[
                    ("TINYINT", 1),
                    ("SMALLINT", 2),
                    ("MEDIUMINT", 3),
                    ("INT", 4),
                    ("INT", 4),
                    ("BIGINT", 8),
                ]);
                Kind::Integer(name, bytes, dice.word(&["", "", " UNSIGNED", " UNSIGNED ZEROFILL"]))
            }
            10 | 11 => Kind::Decimal(
                *dice.pick(&[5, 9, 20]),
                *dice.pick(&[0, 2, 3]),
                dice.word(&["", "", " UNSIGNED"]),
            ),
            12 => Kind::Float,
            13 => Kind::Double,
            14 | 15 => Kind::Bit(*dice.pick(&[1, 7, 11, 64])),
            16..=18 => Kind::Char(*dice.pick(&[1, 5, 12, 40]), collation),
            19..=24 => Kind::Varchar(*dice.pick(&[2, 8, 20, 20, 60, 100]), collation),
            25 | 26 => Kind::Text(dice.word(&["TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"]), collation),
            27 => Kind::Json,
            28 => Kind::Binary(*dice.pick(&[1, 6])),
            29 => Kind::Varbinary(*dice.pick(&[3, 12, 30])),
            30 => Kind::Blob(dice.word(&["TINYBLOB", "BLOB", "LONGBLOB"])),
            31 => Kind::Date,
            32 => Kind::Time(fraction),
            33 => Kind::DateTime(fraction),
            34 => Kind::Timestamp(fraction),
            35 => Kind::Year,
            36 | 37 => Kind::Enum,
            38 => Kind::Set,
            39 => Kind::Uuid,
            40 => Kind::Inet4,
            41 => Kind::Inet6,
            42 => Kind::Point,
            _ => Kind::Vector,
        }
    }

    /// The type in SQL; `compressed` counts where the type can be.
    pub(super) fn sql(&self, compressed: bool) -> String {
        let packed = if compressed && self.can_be_compressed() { " COMPRESSED" } else { "" };
        let text = |name: String, collation: &str| {
            let set = collation.split('_').next().unwrap_or_default();
            format!("{name}{packed} CHARACTER SET {set} COLLATE {collation}")
        };
        match self {
            Kind::Integer(name, _, attributes) => format!("{name}{attributes}"),
            Kind::Decimal(digits, scale, attributes) => format!("DECIMAL({digits},{scale}){attributes}"),
            Kind::Float => "FLOAT".to_string(),
            Kind::Double => "DOUBLE".to_string(),
            Kind::Bit(bits) => format!("BIT({bits})"),
            Kind::Char(n, collation) => text(format!("CHAR({n})"), collation),
            Kind::Varchar(n, collation) => text(format!("VARCHAR({n})"), collation),
            Kind::Text(name, collation) => text((*name).to_string(), collation),
            Kind::Json => "JSON".to_string(),
            Kind::Binary(n) => format!("BINARY({n})"),
            Kind::Varbinary(n) => format!("VARBINARY({n}){packed}"),
            Kind::Blob(name) => format!("{name}{packed}"),
            Kind::Date => "DATE".to_string(),
            Kind::Time(f) => format!("TIME({f})"),
            Kind::DateTime(f) => format!("DATETIME({f})"),
            Kind::Timestamp(f) => format!("TIMESTAMP({f})"),
            Kind::Year => "YEAR".to_string(),
            Kind::Enum => "ENUM('x','y','z','b')".to_string(),
            Kind::Set => "SET('p','q','r')".to_string(),
            Kind::Uuid => "UUID".to_string(),
            Kind::Inet4 => "INET4".to_string(),
            Kind::Inet6 => "INET6".to_string(),
            Kind::Point => "POINT".to_string(),
            Kind::Vector => "VECTOR(3)".to_string(),
        }
    }

    /// Of VARCHAR only with one byte for a character. With more, the server lets a value be as long as
    /// its bytes allow and cuts it down in a temporary table, so the plan decides its length.
    pub(super) fn can_be_compressed(&self) -> bool {
        match self {
            Kind::Varchar(_, collation) => collation.starts_with("latin"),
            _ => matches!(self, Kind::Text(..) | Kind::Varbinary(_) | Kind::Blob(_)),
        }
    }

    pub(super) fn family(&self) -> Family {
        match self {
            Kind::Integer(..)
            | Kind::Decimal(..)
            | Kind::Float
            | Kind::Double
            | Kind::Bit(_)
            | Kind::Year => Family::Number,
            Kind::Char(..) | Kind::Varchar(..) | Kind::Text(..) => Family::Text,
            Kind::Binary(_) | Kind::Varbinary(_) | Kind::Blob(_) => Family::Bytes,
            Kind::Date | Kind::DateTime(_) | Kind::Timestamp(_) => Family::Temporal,
            _ => Family::Other,
        }
    }

    pub(super) fn is_text(&self) -> bool {
        self.family() == Family::Text
    }

    pub(super) fn is_integer(&self) -> bool {
        matches!(self, Kind::Integer(..))
    }

    /// Rows of equal values may hold different bytes: the one shown for a group depends on the plan.
    pub(super) fn equal_is_not_same(&self) -> bool {
        self.is_text() || *self == Kind::Json
    }

    /// Keys on it are on a prefix.
    pub(super) fn needs_prefix(&self) -> bool {
        matches!(self, Kind::Text(..) | Kind::Blob(_) | Kind::Json)
    }

    /// Keys on it can be on a prefix.
    pub(super) fn may_have_prefix(&self) -> bool {
        self.needs_prefix() || self.is_text() || matches!(self, Kind::Varbinary(_) | Kind::Binary(_))
    }

    /// True if a prefix of it sorts as the whole does. It does not where characters are compared together or
    /// level by level (ß = ss, ch, aa in Danish). A range on the prefix then misses rows, with every engine,
    /// depending on the plan.
    pub(super) fn prefix_sorts_alike(&self) -> bool {
        match self {
            Kind::Char(_, c) | Kind::Varchar(_, c) | Kind::Text(_, c) => {
                c.contains("general") || c.contains("swedish") || c.ends_with("_bin")
            }
            _ => true,
        }
    }

    /// Characters of the whole column, where a prefix can be.
    pub(super) fn characters(&self) -> u16 {
        match self {
            Kind::Char(n, _) | Kind::Varchar(n, _) | Kind::Binary(n) | Kind::Varbinary(n) => *n,
            _ => 20,
        }
    }

    pub(super) fn keyable(&self) -> bool {
        !matches!(self, Kind::Point | Kind::Vector)
    }

    /// It can be compared with a literal, sorted and grouped.
    pub(super) fn comparable(&self) -> bool {
        self.keyable()
    }

    /// A literal to store.
    pub(super) fn stored(&self, dice: &mut Dice) -> String {
        if dice.one_in(40) {
            return dice
                .word(&[
                    "'nonsense'",
                    "-1",
                    "99999999999",
                    "'2026-02-31'",
                    "''",
                    "'a very long text that many columns have no room for'",
                ])
                .to_string();
        }
        self.compared(dice)
    }

    /// A literal to compare with.
    pub(super) fn compared(&self, dice: &mut Dice) -> String {
        match self {
            Kind::Integer(_, bytes, attributes) => {
                let bits = bytes * 8;
                let (low, high) = if attributes.is_empty() {
                    (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
                } else {
                    (0, (1_i128 << bits) - 1)
                };
                let small = i128::from(dice.number(-8, 24));
                match dice.number(0, 15) {
                    0 => low + i128::from(dice.number(0, 2)),
                    1 => high - i128::from(dice.number(0, 2)),
                    _ => small,
                }
                .clamp(low, high)
                .to_string()
            }
            Kind::Decimal(_, scale, attributes) => {
                let low = if attributes.is_empty() { -20 } else { 0 };
                let whole = dice.number(low, 40);
                match scale {
                    0 => whole.to_string(),
                    _ => format!("{whole}.{}", dice.word(&["0", "5", "25", "75"])),
                }
            }
            // All of them are exact in a float: sums do not depend on the order. They have six digits at
            // most: a longer DEFAULT of a FLOAT differs after a copy of the table, and InnoDB's OPTIMIZE
            // is a copy.
            Kind::Float | Kind::Double => dice
                .word(&["0", "1", "-1.5", "2.25", "3", "-7", "1024.5", "131072", "-131072", "0.125"])
                .to_string(),
            Kind::Bit(bits) => {
                let high = if *bits >= 62 { 1 << 62 } else { (1_i64 << bits) - 1 };
                if dice.one_in(5) { high } else { dice.number(0, high.min(12)) }.to_string()
            }
            Kind::Char(n, _) | Kind::Varchar(n, _) => word(dice, *n),
            Kind::Text(..) => word(dice, 30),
            Kind::Json => {
                (dice.word(&["'[1]'", "'[1, 2]'", "'{\"a\": 1}'", "'{}'", "'\"x\"'", "'null'"])).to_string()
            }
            Kind::Binary(n) | Kind::Varbinary(n) => word(dice, (*n).min(8)),
            Kind::Blob(_) => match dice.number(0, 9) {
                0 => "x'00ff00'".to_string(),
                _ => word(dice, 30),
            },
            Kind::Date => date(dice),
            Kind::Time(f) => {
                let sign = dice.word(&["", "", "-"]);
                let hour = dice.word(&["00", "01", "12", "23", "101", "838"]);
                format!("'{sign}{hour}:00:0{}{}'", dice.number(0, 3), fraction(dice, *f))
            }
            Kind::DateTime(f) | Kind::Timestamp(f) => {
                let day = date(dice);
                format!("{} 00:00:0{}{}'", &day[..day.len() - 1], dice.number(0, 3), fraction(dice, *f))
            }
            Kind::Year => dice.word(&["1901", "1999", "2000", "2024", "2026", "2155"]).to_string(),
            Kind::Enum => dice.word(&["'x'", "'y'", "'z'", "'b'"]).to_string(),
            Kind::Set => dice.word(&["''", "'p'", "'q'", "'p,q'", "'p,q,r'"]).to_string(),
            Kind::Uuid => {
                let head = dice.word(&[
                    "123e4567-e89b-12d3-a456",
                    "00000000-0000-1000-8000",
                    "f23e4567-e89b-42d3-b456",
                ]);
                format!("'{head}-4266554400{:02}'", dice.number(0, 9))
            }
            Kind::Inet4 => format!("'{}.0.0.{}'", dice.word(&["10", "127", "192"]), dice.number(0, 5)),
            Kind::Inet6 => format!("'{}{}'", dice.word(&["::", "fe80::", "2001:db8::"]), dice.number(0, 9)),
            Kind::Point => format!("ST_GeomFromText('POINT({} {})')", dice.number(0, 3), dice.number(0, 3)),
            Kind::Vector => format!("VEC_FromText('[{},{}.5,0]')", dice.number(0, 3), dice.number(0, 3)),
        }
    }
}

/// A word of at most `limit` characters.
fn word(dice: &mut Dice, limit: u16) -> String {
    let mut text = dice.word(&WORDS).to_string();
    match dice.number(0, 5) {
        0 => text.push_str(dice.word(&WORDS)),
        1 => text.push_str(&dice.number(0, 9).to_string()),
        _ => {}
    }
    let cut: String = text.chars().take(usize::from(limit)).collect();
    format!("'{cut}'")
}

fn date(dice: &mut Dice) -> String {
    match dice.number(0, 11) {
        0 => "'2024-02-29'".to_string(),
        1 => "'2000-01-01'".to_string(),
        _ => format!("'2026-0{}-{:02}'", dice.number(1, 3), dice.number(1, 28)),
    }
}

/// Digits after the second, as many as the column has.
fn fraction(dice: &mut Dice, digits: u8) -> String {
    if digits == 0 || dice.one_in(3) {
        return String::new();
    }
    let digit = dice.number(0, 9).to_string();
    format!(".{}", digit.repeat(usize::from(digits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_in_the_bounds_of_their_type() {
        let mut dice = Dice::new(1);
        let tiny = Kind::Integer("TINYINT", 1, " UNSIGNED");
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            let value: i64 = tiny.compared(&mut dice).parse().unwrap();
            assert!((0..=255).contains(&value), "{value}");
            seen.insert(value);
            let narrow = Kind::Char(1, "utf8mb4_bin").compared(&mut dice);
            assert!(narrow.chars().count() <= 3, "{narrow}");
        }
        assert!(seen.contains(&255) && seen.contains(&0) && seen.len() < 40, "{seen:?}");
    }

    #[test]
    fn every_kind_comes_up() {
        let mut dice = Dice::new(1);
        let seen: std::collections::HashSet<_> =
            (0..3000).map(|_| std::mem::discriminant(&Kind::random(&mut dice))).collect();
        assert_eq!(seen.len(), 24);
    }

    #[test]
    fn types_are_written_with_what_belongs_to_them() {
        assert_eq!(
            Kind::Varchar(20, "latin1_bin").sql(true),
            "VARCHAR(20) COMPRESSED CHARACTER SET latin1 COLLATE latin1_bin"
        );
        assert_eq!(
            Kind::Varchar(20, "utf8mb4_bin").sql(true),
            "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        );
        assert_eq!(Kind::Date.sql(true), "DATE");
        assert_eq!(Kind::Integer("INT", 4, " UNSIGNED ZEROFILL").sql(false), "INT UNSIGNED ZEROFILL");
    }
}
