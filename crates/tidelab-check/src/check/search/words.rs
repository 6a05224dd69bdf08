//! Words of a text by the documented rules: maximal runs of letters, digits, marks and `_`. A character of `blend` joins
//! the words on its sides: they stand alone and as one word.
//!
//! Positions count all words, also those without an entry. A joined word has the position of its first part.

/// InnoDB's stopwords.
pub(super) const STOPWORDS: [&str; 35] = [
    "a", "about", "an", "are", "as", "at", "be", "by", "com", "de", "en", "for", "from", "how", "i", "in",
    "is", "it", "la", "of", "on", "or", "that", "the", "this", "to", "was", "what", "when", "where", "who",
    "will", "with", "und", "www",
];

/// Rules for the words of an index, as they were when it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// Characters of the shortest word.
    pub(super) least: usize,
    /// Characters of the longest word.
    pub(super) most: usize,
    /// Characters that join words.
    pub(super) blend: Vec<char>,
}

/// A word in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    /// Words before it in the text.
    pub(super) position: u64,
    /// True if the word ends where the text does.
    pub(super) is_last: bool,
}

impl Rules {
    /// True for the length of a word with an entry.
    pub(super) fn keeps_length(&self, word: &str) -> bool {
        (self.least..=self.most).contains(&word.chars().count())
    }

    /// The words of a text, parts before the words they are parts of.
    pub(super) fn cut<'a>(&self, text: &'a str) -> Vec<Word<'a>> {
        let mut words = Vec::new();
        let mut position = 0;
        let word = |begin: usize, end: usize, position: u64| Word {
            text: &text[begin..end],
            position,
            is_last: end == text.len(),
        };
        for (begin, run) in self.runs(text) {
            let parts = pieces(run, is_of_word);
            for (at, part) in &parts {
                words.push(word(begin + at, begin + at + part.len(), position));
                position += 1;
            }
            if let ([_, .., (at, part)], count) = (parts.as_slice(), parts.len() as u64) {
                words.push(word(begin, begin + at + part.len(), position - count));
            }
        }
        words
    }

    /// Runs of characters of words and of `blend`, from a character of a word on.
    fn runs<'a>(&self, text: &'a str) -> Vec<(usize, &'a str)> {
        pieces(text, |c| is_of_word(c) || self.blend.contains(&c))
            .into_iter()
            .filter_map(|(at, run)| {
                let from = run.find(is_of_word)?;
                Some((at + from, &run[from..]))
            })
            .collect()
    }
}

/// Letters, digits, marks and `_`.
pub(super) fn is_of_word(c: char) -> bool {
    c == '_' || (c.is_alphanumeric() && c <= '\u{ffff}') || ('\u{300}'..='\u{36f}').contains(&c)
}

/// Maximal runs of such characters, with their places.
fn pieces(text: &str, belongs: impl Fn(char) -> bool) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut begin = None;
    for (at, c) in text.char_indices().chain([(text.len(), '\0')]) {
        let inside = at < text.len() && belongs(c);
        match begin {
            None if inside => begin = Some(at),
            Some(from) if !inside => {
                found.push((from, &text[from..at]));
                begin = None;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(blend: &str, text: &str) -> Vec<(String, u64)> {
        let rules = Rules { least: 1, most: 84, blend: blend.chars().collect() };
        rules.cut(text).iter().map(|word| (word.text.to_string(), word.position)).collect()
    }

    #[test]
    fn words_are_runs_of_letters_digits_marks_and_underscores() {
        let words = cut("", "Don't a_1 e\u{301}t\u{e9}-9!");
        let wanted = [("Don", 0), ("t", 1), ("a_1", 2), ("e\u{301}t\u{e9}", 3), ("9", 4)];
        assert_eq!(words, wanted.map(|(word, position)| (word.to_string(), position)));
    }

    #[test]
    fn a_blended_word_stands_after_its_parts_without_loose_ends() {
        let words = cut("-.", "--e-mail.- now");
        let wanted = [("e", 0), ("mail", 1), ("e-mail", 0), ("now", 2)];
        assert_eq!(words, wanted.map(|(word, position)| (word.to_string(), position)));
        assert_eq!(cut("-", "-- a- -").len(), 1);
    }
}
