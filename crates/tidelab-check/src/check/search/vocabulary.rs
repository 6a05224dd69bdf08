//! Vocabulary of a round: words of many kinds, the first ones far more frequent than the last (Zipf), and texts of them.

use super::super::sql::Dice;
use super::words::STOPWORDS;

const SYLLABLES: [&str; 16] =
    ["ba", "lo", "mir", "te", "ku", "sen", "dra", "ol", "pi", "an", "es", "tum", "ve", "ri", "cha", "ss"];
/// Letters of latin1 beyond ASCII; all of the others' character sets have them.
const LATIN: [&str; 14] = ["é", "è", "E", "ñ", "ö", "oe", "Å", "å", "ø", "ß", "æ", "Ü", "ç", "Z"];
const LATIN_WORDS: [&str; 8] = ["straße", "strasse", "STRASSE", "café", "cafe", "CAFÉ", "naïve", "Ærø"];
/// Words that Unicode has beyond them.
const UNICODE_WORDS: [&str; 18] = [
    "cafe\u{301}",
    "Привет",
    "привет",
    "ΣΊΣΥΦΟΣ",
    "σίσυφος",
    "日本語",
    "日本語話",
    "İstanbul",
    "istanbul",
    "ıstanbul",
    "chata",
    "Čas",
    "cas",
    "łódź",
    "lodz",
    "ǆungla",
    "東京都",
    "na\u{308}ive",
];
const SEPARATORS: [&str; 14] = [" ", " ", " ", " ", " ", ", ", ". ", "\n", "\t", "-", "/", " - ", "; ", "'"];
const UNICODE_SEPARATORS: [&str; 5] = [" ", " — ", "…", " 😀 ", "、"];
/// Bytes of a long text.
const LONG: usize = 100_000;

/// A round's words.
pub(super) struct Vocabulary {
    words: Vec<String>,
    separators: Vec<&'static str>,
    /// Characters that join words in its indexes.
    blend: Vec<char>,
}

impl Vocabulary {
    /// With words that latin1 lacks only if the columns have more.
    pub(super) fn draw(dice: &mut Dice, unicode: bool, blend: &[char]) -> Vocabulary {
        let mut words: Vec<String> = Vec::new();
        let count = dice.count(20, 120);
        while words.len() < count {
            let word = one(dice, unicode, &words);
            words.push(word);
        }
        let mut separators = SEPARATORS.to_vec();
        if unicode {
            separators.extend(UNICODE_SEPARATORS);
        }
        Vocabulary { words, separators, blend: blend.to_vec() }
    }

    /// A word, the first ones more often.
    pub(super) fn word(&self, dice: &mut Dice) -> &str {
        // Evenly over the logarithms of ranks, which is Zipf's law.
        let top = f64::from(u32::try_from(self.words.len()).unwrap_or(u32::MAX)).ln();
        let rank = (top * dice.number(0, 999_999) as f64 / 1e6).exp() as usize;
        &self.words[rank.saturating_sub(1).min(self.words.len() - 1)]
    }

    /// The beginning of a word, or one with more.
    pub(super) fn beginning(&self, dice: &mut Dice) -> String {
        let word: Vec<char> = self.word(dice).chars().collect();
        let length = dice.count(1, word.len().min(6));
        word[..length].iter().collect()
    }

    /// A separator, some of which join words.
    pub(super) fn separator(&self, dice: &mut Dice) -> String {
        if !self.blend.is_empty() && dice.one_in(4) {
            return dice.pick(&self.blend).to_string();
        }
        (*dice.pick(&self.separators)).to_string()
    }

    /// A text of at most so many characters.
    pub(super) fn text(&self, dice: &mut Dice, most: usize) -> String {
        let words = match dice.number(0, 19) {
            0 => return String::new(),
            1 => dice.count(100, 400),
            2..=6 => dice.count(1, 3),
            _ => dice.count(4, 40),
        };
        self.text_of(dice, words, most)
    }

    /// A text of about 100 KB.
    pub(super) fn long_text(&self, dice: &mut Dice) -> String {
        let mut text = String::new();
        while text.len() < LONG {
            text.push_str(&self.text_of(dice, 200, usize::MAX));
            text.push(' ');
        }
        text
    }

    fn text_of(&self, dice: &mut Dice, words: usize, most: usize) -> String {
        let mut text = String::new();
        for number in 0..words {
            if number > 0 || dice.one_in(8) {
                text.push_str(&self.separator(dice));
            }
            text.push_str(&self.in_some_case(dice));
        }
        if dice.one_in(4) {
            text.push_str(&self.separator(dice));
        }
        text.chars().take(most).collect()
    }

    /// A word as it is, or in the other case.
    pub(super) fn in_some_case(&self, dice: &mut Dice) -> String {
        let word = self.word(dice);
        // (Rust's rules for `ß` and `İ` are others than a collation's: letters of ASCII alone.)
        match dice.number(0, 5) {
            0 => word.to_ascii_uppercase(),
            1 => word.to_ascii_lowercase(),
            _ => word.to_string(),
        }
    }
}

/// A new word.
fn one(dice: &mut Dice, unicode: bool, known: &[String]) -> String {
    let syllables =
        |dice: &mut Dice, count: usize| (0..count).map(|_| dice.word(&SYLLABLES)).collect::<String>();
    match dice.number(0, 19) {
        0 | 1 => dice.word(&STOPWORDS).to_string(),
        2 => dice.word(&["x", "Q", "7", "_", "zz", "42", "A1", "é"]).to_string(),
        // At the bound of 84 characters.
        3 => {
            let length = *dice.pick(&[83, 84, 84, 85, 86, 200]);
            let mut word = syllables(dice, 3);
            word.push_str(&"long".repeat(60));
            word.truncate(length);
            word
        }
        4 => format!("{}{}", syllables(dice, 1), dice.number(0, 1_999)),
        5 => format!("{}_{}", syllables(dice, 1), dice.word(&["", "x", "val", "_"])),
        6 => format!("{}'{}", dice.word(&["o", "d", "rock"]), dice.word(&["neil", "s", "accord"])),
        7 | 8 => dice.word(&LATIN_WORDS).to_string(),
        9..=11 if unicode => dice.word(&UNICODE_WORDS).to_string(),
        // A relative of another one.
        12..=14 if !known.is_empty() => {
            let base = dice.pick(known).clone();
            match dice.number(0, 2) {
                0 => format!("{base}{}", dice.word(&SYLLABLES)),
                1 => base.replacen(['e', 'a', 'o'], dice.word(&LATIN), 1),
                _ => base.to_ascii_uppercase(),
            }
        }
        _ => {
            let count = dice.count(1, 3);
            let mut word = syllables(dice, count);
            if dice.one_in(4) {
                word.push_str(dice.word(&LATIN));
            }
            word
        }
    }
}
