//! The documents: words drawn by Zipf's law from a made-up vocabulary, the same ones for every engine of a run.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The documents of a seed.
pub struct Documents {
    seed: u64,
    /// For each word, the sum of the weights up to it; the last one is 1.
    shares: Vec<f64>,
    /// Words of a document on average; it has three fifths of them to seven.
    length: u32,
}

impl Documents {
    /// Of about `length` words, of `vocabulary` different ones.
    pub fn new(seed: u64, vocabulary: u32, length: u32) -> Documents {
        let weights = (1..=vocabulary.max(1)).map(|rank| 1.0 / f64::from(rank));
        let all: f64 = weights.clone().sum();
        let mut sum = 0.0;
        let shares = weights
            .map(|weight| {
                sum += weight / all;
                sum
            })
            .collect();
        Documents { seed, shares, length }
    }

    /// The text of document `number`.
    pub fn text(&self, number: u64) -> String {
        let mut random = StdRng::seed_from_u64(self.seed << 40 ^ number);
        let words = random.random_range(self.length * 3 / 5..=self.length * 7 / 5).max(1);
        let mut text = String::new();
        for _ in 0..words {
            let share: f64 = random.random();
            let rank = self.shares.partition_point(|sum| *sum < share).min(self.shares.len() - 1);
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&word(rank as u32));
        }
        text
    }
}

/// The word of a rank, from 0: three letters or more, so that every engine takes it. No stopword is among them: vowels stand
/// in the middle alone, twice.
pub fn word(rank: u32) -> String {
    const CONSONANTS: &[u8] = b"bcdfghjklmnpqrstvwxz";
    let mut letters = Vec::new();
    let mut left = rank;
    loop {
        letters.push(CONSONANTS[left as usize % CONSONANTS.len()]);
        left /= CONSONANTS.len() as u32;
        if left == 0 {
            break;
        }
    }
    letters.push(b'k');
    letters.reverse();
    let mut word: String = letters.iter().map(|letter| char::from(*letter)).collect();
    word.insert_str(1, "oo");
    word
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn documents_are_those_of_their_seed_and_number() {
        let of = |seed| Documents::new(seed, 1000, 50);
        assert_eq!(of(1).text(7), of(1).text(7));
        assert_ne!(of(1).text(7), of(1).text(8));
        assert_ne!(of(1).text(7), of(2).text(7));
        for number in 0..100 {
            let words = of(1).text(number).split(' ').count();
            assert!((30..=70).contains(&words), "{words}");
        }
    }

    #[test]
    fn the_first_word_is_in_many_documents_and_a_late_one_in_few() {
        let documents = Documents::new(1, 1000, 50);
        let with = |rank| {
            let word = word(rank);
            (0..500).filter(|number| documents.text(*number).split(' ').any(|other| other == word)).count()
        };
        assert!(with(0) > 480 && (1..25).contains(&with(900)), "{} {}", with(0), with(900));
    }

    #[test]
    fn words_differ_and_have_a_length_that_all_engines_take() {
        let words: HashSet<String> = (0..50_000).map(word).collect();
        assert_eq!(words.len(), 50_000);
        assert!(words.iter().all(|word| (4..=84).contains(&word.len())));
    }
}
