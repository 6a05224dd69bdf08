//! Words of a text by the documented rules: maximal runs of letters, digits, marks and `_`. A character of `blend` joins
//! the words on its sides: they stand alone and as one word.
//!
//! Positions count all words, also those without an entry. A joined word has the position of its first part.
//!
//! Ngrams are all parts of a run that have so many characters. Their positions count characters, and one between runs.

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
    /// Characters of an ngram, which are `least` and `most` too; 0 for words.
    pub(super) ngram: usize,
    /// Stopwords of a table; none for InnoDB's, which do not count for ngrams.
    pub(super) stopwords: Option<Vec<&'static str>>,
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

    /// Stopwords in force.
    pub(super) fn stopwords(&self) -> &[&'static str] {
        match &self.stopwords {
            Some(words) => words,
            None if self.ngram > 0 => &[],
            None => &STOPWORDS,
        }
    }

    /// The words whose terms a text's answers need.
    pub(super) fn asked<'a>(&self, text: &'a str, beginnings: bool) -> Vec<&'a str> {
        let words = self.cut(text).into_iter().map(|word| word.text);
        if self.ngram == 0 {
            return words.filter(|word| beginnings || self.keeps_length(word)).collect();
        }
        let mut asked: Vec<&str> = words.collect();
        if !self.stopwords().is_empty() {
            let inner: Vec<&str> = asked.iter().flat_map(|word| parts(word)).collect();
            asked.extend(inner);
        }
        if beginnings {
            asked
                .extend(runs_of_words(text).into_iter().map(|(_, run)| run).filter(|run| self.is_short(run)));
        }
        asked
    }

    /// True for a run without an ngram.
    pub(super) fn is_short(&self, run: &str) -> bool {
        run.chars().count() < self.ngram
    }

    fn ngrams<'a>(&self, text: &'a str) -> Vec<Word<'a>> {
        let mut words = Vec::new();
        let mut position = 0;
        for (begin, run) in runs_of_words(text) {
            let places: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
            for (first, window) in places.windows(self.ngram + 1).enumerate() {
                let (from, to) = (begin + window[0], begin + window[self.ngram]);
                let is_last = to == text.len();
                words.push(Word { text: &text[from..to], position: position + first as u64, is_last });
            }
            position += places.len() as u64;
        }
        words
    }

    /// The words of a text, parts before the words they are parts of.
    pub(super) fn cut<'a>(&self, text: &'a str) -> Vec<Word<'a>> {
        if self.ngram > 0 {
            return self.ngrams(text);
        }
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

/// All parts of a word, and the word.
pub(super) fn parts(word: &str) -> Vec<&str> {
    let places: Vec<usize> = word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
    let from_here = |(first, from): (usize, &usize)| {
        places[first + 1..].iter().map(|to| &word[*from..*to]).collect::<Vec<_>>()
    };
    places.iter().enumerate().flat_map(from_here).collect()
}

/// Maximal runs of characters of words.
pub(super) fn runs_of_words(text: &str) -> Vec<(usize, &str)> {
    pieces(text, is_of_word)
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
        let rules = Rules { least: 1, most: 84, blend: blend.chars().collect(), ..Rules::default() };
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

    #[test]
    fn ngrams_overlap_and_runs_stand_apart() {
        let rules = Rules { least: 2, most: 2, ngram: 2, ..Rules::default() };
        let words = rules.cut(" ab\u{e9}, c de");
        let found: Vec<(&str, u64, bool)> =
            words.iter().map(|word| (word.text, word.position, word.is_last)).collect();
        assert_eq!(found, [("ab", 0, false), ("b\u{e9}", 1, false), ("de", 6, true)]);
        assert_eq!(parts("ab\u{e9}"), ["a", "ab", "ab\u{e9}", "b", "b\u{e9}", "\u{e9}"]);
    }
}
