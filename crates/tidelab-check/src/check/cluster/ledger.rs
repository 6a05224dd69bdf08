//! The outcomes told to the writers, kept outside of the servers, and their comparison with the tables.

use std::collections::BTreeMap;

use tidelab_server::server::engine::Engine;

use super::tables::ENGINES;
use super::transaction::{engines_of, Change, Effect};

/// The answer to a transaction's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// OK.
    Acknowledged,
    /// An error at its COMMIT.
    Refused(String),
    /// None: the connection ended.
    None,
}

/// A transaction whose end was asked for.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub(super) token: i64,
    pub(super) answer: Answer,
    pub(super) effects: Vec<Effect>,
}

/// How often each token is in the tables: TidesDB's and InnoDB's.
pub(super) type Found = BTreeMap<i64, [u64; 2]>;

/// Tokens of the writer's own rows: by engine and id.
pub(super) type Items = BTreeMap<(Engine, i64), i64>;

/// What one writer knows.
#[derive(Default)]
pub(super) struct Ledger {
    /// Of this round, in their order.
    attempts: Vec<Attempt>,
    /// Of earlier rounds: the tokens in the tables.
    settled: Vec<i64>,
    /// Its rows after those.
    pub(super) items: Items,
    pub(super) acknowledged: u64,
    pub(super) refused: u64,
    /// Attempts with an unknown outcome, and those of them that happened.
    pub(super) in_doubt: u64,
    pub(super) happened: u64,
}

impl Ledger {
    /// Notes an answer.
    pub(super) fn note(&mut self, attempt: Attempt) {
        match attempt.answer {
            Answer::Acknowledged => self.acknowledged += 1,
            Answer::Refused(_) => self.refused += 1,
            Answer::None => {}
        }
        self.attempts.push(attempt);
    }

    /// Compares with the tables; takes its own tokens out of `found`, and takes over the round's outcomes.
    /// A refusal is no promise on a node cut off from the others: they may have got the transaction before, and
    /// then have it.
    pub(super) fn settle(&mut self, found: &mut Found, was_cut_off: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        for token in &self.settled {
            wrong.extend(fault(*token, found.remove(token).unwrap_or_default(), true));
        }
        for attempt in std::mem::take(&mut self.attempts) {
            let token = attempt.token;
            let counts = found.remove(&token).unwrap_or_default();
            let is_there = counts != [0, 0];
            wrong.extend(fault(token, counts, attempt.answer == Answer::Acknowledged));
            match attempt.answer {
                Answer::Refused(why) if is_there && !was_cut_off => {
                    wrong.push(format!("transaction {token} was refused ({why}) and is there"));
                }
                Answer::Refused(_) if !was_cut_off => {}
                Answer::Acknowledged => {}
                Answer::Refused(_) | Answer::None => {
                    self.in_doubt += 1;
                    self.happened += u64::from(is_there);
                }
            }
            if is_there {
                self.settled.push(token);
                apply(&mut self.items, token, &attempt.effects);
            }
        }
        wrong
    }

    /// The tables of tokens were emptied.
    pub(super) fn forget(&mut self) {
        self.settled.clear();
    }
}

/// The fault of a token with so many rows in the tables.
fn fault(token: i64, counts: [u64; 2], is_acknowledged: bool) -> Option<String> {
    let wanted = ENGINES.map(|engine| u64::from(engines_of(token).contains(&engine)));
    let text = format!("{} times in TidesDB's table and {} in InnoDB's", counts[0], counts[1]);
    if counts == [0, 0] {
        is_acknowledged.then(|| format!("the acknowledged transaction {token} is lost"))
    } else if counts == wanted {
        None
    } else if counts.iter().any(|count| *count > 1) {
        Some(format!("transaction {token} happened twice: {text}"))
    } else {
        Some(format!("transaction {token} is half there: {text}"))
    }
}

/// Makes a transaction's changes.
fn apply(items: &mut Items, token: i64, effects: &[Effect]) {
    for effect in effects {
        let key = (effect.engine, effect.id);
        match effect.change {
            Change::Put => {
                items.insert(key, token);
            }
            Change::Update => {
                items.entry(key).and_modify(|of| *of = token);
            }
            Change::Delete => {
                items.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens with both engines, TidesDB alone, InnoDB alone.
    const BOTH: i64 = 2;
    const TIDES: i64 = 3;
    const INNO: i64 = 4;

    fn judged(answer: Answer, token: i64, counts: [u64; 2], was_cut_off: bool) -> Vec<String> {
        let mut ledger = Ledger::default();
        ledger.note(Attempt { token, answer, effects: Vec::new() });
        let mut found = Found::from([(token, counts)]);
        let wrong = ledger.settle(&mut found, was_cut_off);
        assert!(found.is_empty());
        wrong
    }

    #[test]
    fn whole_transactions_are_right_and_others_are_told_apart() {
        let acknowledged = || Answer::Acknowledged;
        let refused = || Answer::Refused("1213".to_string());
        for (token, whole) in [(BOTH, [1, 1]), (TIDES, [1, 0]), (INNO, [0, 1])] {
            assert!(judged(acknowledged(), token, whole, false).is_empty());
            assert!(judged(Answer::None, token, whole, false).is_empty());
            assert!(judged(Answer::None, token, [0, 0], false).is_empty());
            assert!(judged(refused(), token, [0, 0], false).is_empty());
            assert!(judged(refused(), token, whole, true).is_empty(), "the others have it");
            assert!(judged(refused(), token, whole, false)[0].contains("was refused"));
            assert!(judged(acknowledged(), token, [0, 0], true)[0].contains("is lost"));
            assert!(judged(acknowledged(), token, [2, 2], true)[0].contains("twice"));
        }
        for half in [[1, 0], [0, 1]] {
            assert!(judged(acknowledged(), BOTH, half, false)[0].contains("half"));
            assert!(judged(Answer::None, BOTH, half, true)[0].contains("half"));
        }
        assert!(
            judged(Answer::None, TIDES, [1, 1], false)[0].contains("half"),
            "in a table of the other engine"
        );
    }

    #[test]
    fn a_settled_token_stays_until_the_tables_are_emptied() {
        let mut ledger = Ledger::default();
        ledger.note(Attempt { token: BOTH, answer: Answer::None, effects: Vec::new() });
        assert!(ledger.settle(&mut Found::from([(BOTH, [1, 1])]), false).is_empty());
        assert_eq!((ledger.in_doubt, ledger.happened), (1, 1));
        assert!(ledger.settle(&mut Found::new(), false)[0].contains("is lost"));
        ledger.forget();
        assert!(ledger.settle(&mut Found::new(), false).is_empty());
    }

    #[test]
    fn rows_are_those_of_the_transactions_that_are_there() {
        let mut ledger = Ledger::default();
        let effect = |id, change| Effect { engine: Engine::TidesDb, id, change };
        let mut found = Found::new();
        for (token, effects, is_there) in [
            (3, vec![effect(1, Change::Put), effect(2, Change::Put)], true),
            (6, vec![effect(1, Change::Update), effect(9, Change::Update)], true),
            (9, vec![effect(2, Change::Delete)], false),
            (12, vec![effect(1, Change::Delete), effect(3, Change::Put)], true),
        ] {
            ledger.note(Attempt { token, answer: Answer::None, effects });
            if is_there {
                found.insert(token, [1, 0]);
            }
        }
        assert!(ledger.settle(&mut found, false).is_empty());
        let key = |id| (Engine::TidesDb, id);
        assert_eq!(ledger.items, Items::from([(key(2), 3), (key(3), 12)]));
    }
}
