//! Grammar of boolean mode, as it is documented:
//!
//! ```text
//! query: (prefix? (word '*'? | '"' text '"' ('@' number)? | '(' query ')'))*      prefix: one of + - ~ < >
//! ```
//!
//! Spaces, newlines, `%` and zero bytes separate; a `*` before a word is nothing; a phrase without its end goes to that of
//! the query; groups nest at most 64 deep. A blend character is part of a word if a word's character stands on both of its sides.

/// Deepest nesting of groups.
const DEEPEST: usize = 64;

/// How a part bears on its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Helps,
    Required,
    Excluded,
    Lowers,
}

/// A part of a group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) sign: Sign,
    /// Factor of its score.
    pub(super) boost: f64,
    pub(super) body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Body {
    Group(Vec<Part>),
    Text(String),
    /// Words that begin so.
    Start(String),
    /// Words in this order, or within a distance if it is above 0.
    Phrase(String, u64),
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Phrase(String),
    Sign(char),
}

/// The parts of a query; none if the grammar refuses it.
pub(super) fn read(query: &str, blend: &[char]) -> Option<Vec<Part>> {
    let tokens = tokens(query, blend);
    let mut at = 0;
    let parts = group(&tokens, &mut at, 0)?;
    (at == tokens.len()).then_some(parts)
}

/// Adds the texts of a query's parts.
pub(super) fn texts(parts: &[Part], all: &mut Vec<String>) {
    for part in parts {
        match &part.body {
            Body::Group(parts) => texts(parts, all),
            Body::Text(text) | Body::Start(text) | Body::Phrase(text, _) => all.push(text.clone()),
        }
    }
}

fn is_separator(c: char) -> bool {
    matches!(c, ' ' | '\n' | '%' | '\0')
}

fn is_operator(c: char) -> bool {
    "+-~<>\"()*@".contains(c)
}

fn tokens(query: &str, blend: &[char]) -> Vec<Token> {
    let all: Vec<char> = query.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let c = all[at];
        at += 1;
        if is_separator(c) {
            continue;
        }
        if c == '"' {
            let end = all[at..].iter().position(|c| *c == '"').map_or(all.len(), |length| at + length);
            found.push(Token::Phrase(all[at..end].iter().collect()));
            at = (end + 1).min(all.len());
            continue;
        }
        if is_operator(c) {
            found.push(Token::Sign(c));
            continue;
        }
        let mut word = String::from(c);
        while let Some(&c) = all.get(at) {
            let joins = || {
                blend.contains(&c) && all.get(at + 1).is_some_and(|c| !is_separator(*c) && !is_operator(*c))
            };
            if is_separator(c) || (is_operator(c) && !joins()) {
                break;
            }
            word.push(c);
            at += 1;
        }
        found.push(Token::Word(word));
    }
    found
}

fn group(tokens: &[Token], at: &mut usize, depth: usize) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    loop {
        let (mut sign, mut boost) = (Sign::Helps, 1.0);
        match tokens.get(*at) {
            None | Some(Token::Sign(')')) => return Some(parts),
            Some(Token::Sign(c)) if "+-~<>".contains(*c) => {
                match c {
                    '+' => sign = Sign::Required,
                    '-' => sign = Sign::Excluded,
                    '~' => sign = Sign::Lowers,
                    '>' => boost = 2.0,
                    _ => boost = 0.5,
                }
                *at += 1;
            }
            Some(_) => {}
        }
        parts.push(Part { sign, boost, body: body(tokens, at, depth)? });
    }
}

fn body(tokens: &[Token], at: &mut usize, depth: usize) -> Option<Body> {
    let mut next = || {
        *at += 1;
        tokens.get(*at - 1)
    };
    match next()? {
        Token::Sign('(') => {
            let parts = group(tokens, at, depth + 1)?;
            let ends = tokens.get(*at) == Some(&Token::Sign(')'));
            *at += 1;
            (ends && depth < DEEPEST).then_some(Body::Group(parts))
        }
        Token::Phrase(text) => {
            if tokens.get(*at) != Some(&Token::Sign('@')) {
                return Some(Body::Phrase(text.clone(), 0));
            }
            *at += 2;
            let Some(Token::Word(number)) = tokens.get(*at - 1) else { return None };
            let digits = number.bytes().all(|digit| digit.is_ascii_digit());
            digits.then(|| Body::Phrase(text.clone(), number.parse().unwrap_or(u64::MAX)))
        }
        token @ (Token::Word(_) | Token::Sign('*')) => {
            let word = if let Token::Word(word) = token { word } else { word_of(next()?)? };
            if tokens.get(*at) != Some(&Token::Sign('*')) {
                return Some(Body::Text(word.clone()));
            }
            *at += 1;
            Some(Body::Start(word.clone()))
        }
        Token::Sign(_) => None,
    }
}

fn word_of(token: &Token) -> Option<&String> {
    match token {
        Token::Word(word) => Some(word),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_outside_the_grammar_are_refused() {
        for query in [
            "",
            " % ",
            "a",
            "+a -b",
            "+ a",
            "*a",
            "a**b",
            "\"a b\" @ 3",
            "\"\"",
            "(a (b))",
            "'a",
            "a;b",
            "()",
            "\"a",
            "\"a\nb\"",
        ] {
            assert!(read(query, &[]).is_some(), "{query}");
        }
        for query in ["+", "+-a", "(", ")", "(a", "a)", "*", "\"a\" *", "a @b", "\"a\"@", "\"a\"@x"] {
            assert!(read(query, &[]).is_none(), "{query}");
        }
        let nested = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
        assert!(read(&nested(64), &[]).is_some());
        assert!(read(&nested(65), &[]).is_none());
    }

    #[test]
    fn a_blend_character_joins_between_characters_of_words() {
        let text = |query, blend: &[char]| match read(query, blend).as_deref() {
            Some([Part { body: Body::Text(text), .. }]) => text.clone(),
            other => format!("{other:?}"),
        };
        assert_eq!(text("e-mail", &['-']), "e-mail");
        assert!(read("e-mail", &[]).is_some_and(|parts| parts.len() == 2 && parts[1].sign == Sign::Excluded));
        assert!(read("e-", &['-']).is_none());
    }
}
