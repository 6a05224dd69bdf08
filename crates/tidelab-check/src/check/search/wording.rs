//! Random queries: words for natural mode, and trees of the whole grammar for boolean mode, some of them broken.

use super::super::sql::Dice;
use super::vocabulary::Vocabulary;

/// A query of natural mode.
pub(super) fn natural(dice: &mut Dice, vocabulary: &Vocabulary) -> String {
    let mut text = String::new();
    for number in 0..dice.count(0, 6) {
        if number > 0 {
            text.push_str(&vocabulary.separator(dice));
        }
        text.push_str(&word(dice, vocabulary));
    }
    text
}

/// A query of boolean mode.
pub(super) fn boolean(dice: &mut Dice, vocabulary: &Vocabulary) -> String {
    let parts = dice.count(1, 4);
    let mut text = group(dice, vocabulary, parts, 0);
    if dice.one_in(10) {
        breaks(dice, &mut text);
    }
    text
}

fn word(dice: &mut Dice, vocabulary: &Vocabulary) -> String {
    if dice.one_in(15) {
        return dice.word(&["absent", "the", "xx", "nowhere_else"]).to_string();
    }
    vocabulary.in_some_case(dice)
}

fn group(dice: &mut Dice, vocabulary: &Vocabulary, parts: usize, depth: usize) -> String {
    let mut all = Vec::new();
    for _ in 0..parts {
        let mut part = dice.word(&["", "", "", "+", "+", "+", "-", "-", "~", "<", ">"]).to_string();
        if dice.one_in(12) {
            part.push(' ');
        }
        part.push_str(&match dice.number(0, 11) {
            0 | 1 if depth < 4 => {
                let parts = dice.count(1, 3);
                format!("({})", group(dice, vocabulary, parts, depth + 1))
            }
            2 | 3 => phrase(dice, vocabulary),
            4 | 5 => format!("{}*", vocabulary.beginning(dice)),
            6 => {
                format!("{}{}{}", word(dice, vocabulary), vocabulary.separator(dice), word(dice, vocabulary))
            }
            7 if dice.one_in(3) => format!("*{}", word(dice, vocabulary)),
            8 if dice.one_in(3) => format!("{}*", word(dice, vocabulary)),
            _ => word(dice, vocabulary),
        });
        all.push(part);
    }
    all.join(dice.word(&[" ", " ", " ", "  ", "\n", "%"]))
}

fn phrase(dice: &mut Dice, vocabulary: &Vocabulary) -> String {
    let mut text = String::from("\"");
    for number in 0..dice.count(1, 3) {
        if number > 0 {
            text.push(' ');
        }
        text.push_str(&word(dice, vocabulary));
    }
    text.push('"');
    if dice.one_in(3) {
        let distance = *dice.pick(&[0, 1, 2, 3, 5, 8, 20, 100, 5000]);
        text.push_str(&format!("{}@{}{distance}", dice.word(&["", " "]), dice.word(&["", " "])));
    }
    text
}

/// Puts a character in, or takes one away.
fn breaks(dice: &mut Dice, text: &mut String) {
    let mut all: Vec<char> = text.chars().collect();
    let at = dice.count(0, all.len());
    if dice.one_in(3) && at < all.len() {
        all.remove(at);
    } else {
        let more: Vec<char> = "+-~<>()*\"@ \n%7ab'".chars().collect();
        all.insert(at, *dice.pick(&more));
    }
    *text = all.into_iter().collect();
}
