//! A random transaction: its statements, and its effects on the writer's own rows.
//!
//! A third of the transactions changes TidesDB tables alone, a third InnoDB tables, a third both: the token tells. Each
//! writes its token into the table `token` of each of its engines, with the amount added to a hot row.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::RngExt;
use tidelab_server::server::engine::Engine;

use super::tables::{name, CLAIM_GROUPS, GROUPS, GUESTS, HOT, PARENTS, SLOTS};

/// Tokens of writer w lie above w times this.
pub(super) const TOKENS: i64 = 1_000_000_000;
/// Ids of each writer in `item`.
const ITEMS: i64 = 30;

/// The engines of a token's transaction.
pub(super) fn engines_of(token: i64) -> &'static [Engine] {
    match token % 3 {
        0 => &[Engine::TidesDb],
        1 => &[Engine::InnoDb],
        _ => &[Engine::TidesDb, Engine::InnoDb],
    }
}

/// A part of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A statement.
    Run(String),
    /// Reads the row's `n` FOR UPDATE, and writes the literal of the sum.
    AddLiteral { table: String, id: i64, amount: i64 },
}

/// A change of a row of the writer's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// There with this token afterwards.
    Put,
    /// The same, if it was there.
    Update,
    /// Gone.
    Delete,
}

/// A change in `item`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) engine: Engine,
    pub(super) id: i64,
    pub(super) change: Change,
}

/// See the module's comment.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) token: i64,
    /// READ COMMITTED, say.
    pub(super) level: &'static str,
    pub(super) steps: Vec<Step>,
    pub(super) effects: Vec<Effect>,
    /// One statement without BEGIN.
    pub(super) autocommit: bool,
    /// Ends with ROLLBACK.
    pub(super) rolls_back: bool,
}

/// The columns of a row of `item` but its id, by the token that wrote it.
pub(super) fn item_columns(id: i64, token: i64) -> [String; 4] {
    let group = token % GROUPS;
    let letter = char::from(b'a' + u8::try_from(token % 26).unwrap_or(0));
    let pad = String::from(letter).repeat(usize::try_from(token % 500).unwrap_or(0));
    let group = if group == 0 { "NULL".to_string() } else { group.to_string() };
    [group, format!("n{id}-{}", token % 3), token.to_string(), pad]
}

impl Transaction {
    /// True for one with a child of a parent that may go meanwhile.
    pub(super) fn has_guest(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step, Step::Run(statement) if statement.contains("(parent, token) SELECT")))
    }

    /// Draws writer `number`'s transaction with this token.
    pub(super) fn draw(token: i64, number: i64, random: &mut StdRng) -> Transaction {
        let engines = engines_of(token);
        let level = ["READ COMMITTED", "REPEATABLE READ", "REPEATABLE READ", "SERIALIZABLE"]
            [random.random_range(0..4)];
        let mut drawn = Transaction {
            token,
            level,
            steps: Vec::new(),
            effects: Vec::new(),
            autocommit: engines.len() == 1 && random.random_bool(0.15),
            rolls_back: random.random_bool(0.04),
        };
        if drawn.autocommit {
            drawn.rolls_back = false;
            drawn.steps.push(Step::Run(token_row(engines[0], token, "NULL", 0)));
            return drawn;
        }
        let (hot, amount) = (random.random_range(0..HOT), 1 + token % 7);
        let mut groups: Vec<Group> = Vec::new();
        for engine in engines {
            groups.push(vec![Step::Run(token_row(*engine, token, &hot.to_string(), amount))].into());
            groups.push(vec![add(name("hot", *engine), hot, amount, random)].into());
        }
        if let [first, second] = engines {
            if random.random_bool(0.5) {
                let twin = random.random_range(0..HOT);
                let both = [first, second].map(|engine| add(name("twin", *engine), twin, amount, random));
                groups.push(both.to_vec().into());
            }
        }
        for _ in 0..random.random_range(0..=3) {
            let engine = engines[random.random_range(0..engines.len())];
            groups.push(extra(token, engine, number, random));
        }
        groups.shuffle(random);
        // A savepoint that is given up undoes nothing else.
        if random.random_bool(0.1) {
            let engine = engines[random.random_range(0..engines.len())];
            let at = random.random_range(0..=groups.len());
            let statements = [
                "SAVEPOINT s".to_string(),
                format!("INSERT INTO {} VALUES (0, {token})", name("bare", engine)),
                "ROLLBACK TO SAVEPOINT s".to_string(),
            ];
            groups.insert(at, statements.map(Step::Run).to_vec().into());
        }
        drawn.effects = groups.iter().filter_map(|group| group.effect).collect();
        drawn.steps = groups.into_iter().flat_map(|group| group.steps).collect();
        drawn
    }
}

/// Steps that stay together.
struct Group {
    steps: Vec<Step>,
    effect: Option<Effect>,
}

impl From<Vec<Step>> for Group {
    fn from(steps: Vec<Step>) -> Group {
        Group { steps, effect: None }
    }
}

/// A change of other rows, in one of its engines.
fn extra(token: i64, engine: Engine, number: i64, random: &mut StdRng) -> Group {
    let parent = random.random_range(0..PARENTS);
    let (parents, children, wards) = (name("parent", engine), name("child", engine), name("ward", engine));
    let group = random.random_range(1..GROUPS);
    let bare = name("bare", engine);
    let statements = match random.random_range(0..23) {
        0..=3 => return item(token, engine, number, random),
        4 | 5 => vec![
            format!("INSERT INTO {children} (parent, token) VALUES ({parent}, {token}), ({parent}, {token})"),
            format!("UPDATE {parents} SET children = children + 2 WHERE id = {parent}"),
        ],
        // No change of the parent: its key alone keeps the two apart.
        6 | 7 => vec![format!("INSERT INTO {wards} (parent, token) VALUES ({parent}, {token})")],
        8 => vec![
            format!("DELETE FROM {parents} WHERE id = {parent}"),
            format!("INSERT INTO {parents} VALUES ({parent}, 0)"),
        ],
        9 => vec![
            format!("DELETE FROM {children} WHERE parent = {parent}"),
            format!("UPDATE {parents} SET children = 0 WHERE id = {parent}"),
        ],
        10 => vec![format!("INSERT INTO {bare} VALUES ({group}, {token}), ({group}, {token})")],
        11 if token % 2 == 0 => vec![format!("UPDATE {bare} SET b = b + 1 WHERE a = {group}")],
        12..=14 => vec![guest(token, engine, random)],
        // Others delete these rows by an action.
        15 | 16 => vec![format!("UPDATE {children} SET token = {token} WHERE parent = {parent}")],
        17.. => vec![claim(token, engine, random)],
        _ => vec![format!("DELETE FROM {bare} WHERE a = {group}")],
    };
    statements.into_iter().map(Step::Run).collect::<Vec<_>>().into()
}

/// A parent that comes or goes, or a child of it.
fn guest(token: i64, engine: Engine, random: &mut StdRng) -> String {
    let (parents, wards) = (name("parent", engine), name("ward", engine));
    let id = PARENTS + random.random_range(0..GUESTS);
    match random.random_range(0..4) {
        0 => format!("INSERT IGNORE INTO {parents} VALUES ({id}, 0)"),
        1 => format!("DELETE FROM {parents} WHERE id = {id}"),
        _ => format!("INSERT INTO {wards} (parent, token) SELECT id, {token} FROM {parents} WHERE id = {id}"),
    }
}

/// A change of rows that all writers share: one of them has a slot, and rows without a slot are any number.
fn claim(token: i64, engine: Engine, random: &mut StdRng) -> String {
    let (table, slot) = (name("claim", engine), random.random_range(0..SLOTS));
    let group = random.random_range(0..CLAIM_GROUPS);
    match random.random_range(0..6) {
        0 | 1 => format!("INSERT IGNORE INTO {table} VALUES ({slot}, {group}, {token})"),
        2 => format!("INSERT INTO {table} VALUES (NULL, {group}, {token})"),
        3 | 4 => format!("UPDATE {table} SET token = {token} WHERE grp = {group}"),
        _ => format!("DELETE FROM {table} WHERE grp = {group}"),
    }
}

/// A change of a row of the writer's own.
fn item(token: i64, engine: Engine, number: i64, random: &mut StdRng) -> Group {
    let id = number * ITEMS + random.random_range(0..ITEMS);
    let table = name("item", engine);
    let [group, name, token, pad] = item_columns(id, token);
    let values = format!("{id}, {group}, '{name}', {token}, '{pad}'");
    let set = format!("grp = {group}, name = '{name}', token = {token}, pad = '{pad}'");
    let columns = "(id, grp, name, token, pad)";
    let (change, statement) = match random.random_range(0..10) {
        0..=2 => (Change::Put, format!("REPLACE INTO {table} {columns} VALUES ({values})")),
        3..=5 => (
            Change::Put,
            format!("INSERT INTO {table} {columns} VALUES ({values}) ON DUPLICATE KEY UPDATE {set}"),
        ),
        6..=7 => (Change::Update, format!("UPDATE {table} SET {set} WHERE id = {id}")),
        _ => (Change::Delete, format!("DELETE FROM {table} WHERE id = {id}")),
    };
    Group { steps: vec![Step::Run(statement)], effect: Some(Effect { engine, id, change }) }
}

fn token_row(engine: Engine, token: i64, hot: &str, amount: i64) -> String {
    format!("INSERT INTO {} (token, hot, amount) VALUES ({token}, {hot}, {amount})", name("token", engine))
}

/// Adds to a row shared with others: by an expression, or by a literal.
fn add(table: String, id: i64, amount: i64, random: &mut StdRng) -> Step {
    match random.random_bool(0.5) {
        true => Step::Run(format!("UPDATE {table} SET n = n + {amount} WHERE id = {id}")),
        false => Step::AddLiteral { table, id, amount },
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn text(step: &Step) -> &str {
        match step {
            Step::Run(statement) => statement,
            Step::AddLiteral { table, .. } => table,
        }
    }

    #[test]
    fn a_transaction_changes_its_engines_tables_alone_and_writes_its_token_once_in_each() {
        let mut random = StdRng::seed_from_u64(1);
        let mut seen = [0; 3];
        for token in TOKENS + 1..TOKENS + 1_000 {
            let drawn = Transaction::draw(token, 1, &mut random);
            let engines = engines_of(token);
            for (engine, end) in [(Engine::TidesDb, "_t"), (Engine::InnoDb, "_i")] {
                let mut tokens = 0;
                for step in &drawn.steps {
                    let words: Vec<&str> =
                        text(step).split(' ').filter(|w| w.starts_with("torture.")).collect();
                    if words.iter().any(|word| word.ends_with(end)) {
                        assert!(engines.contains(&engine), "{step:?}");
                    }
                    tokens += usize::from(words.iter().any(|w| *w == name("token", engine)));
                }
                assert_eq!(tokens, usize::from(engines.contains(&engine)), "{drawn:?}");
            }
            seen[0] += usize::from(drawn.autocommit);
            seen[1] += usize::from(drawn.rolls_back);
            seen[2] += drawn.effects.len();
            assert!(!drawn.autocommit || drawn.steps.len() == 1);
        }
        assert!(seen.iter().all(|times| *times > 10), "{seen:?}");
    }

    #[test]
    fn names_of_items_differ_between_rows_whatever_their_tokens() {
        let mut names: Vec<String> =
            (0..3).flat_map(|id| (0..3).map(move |t| item_columns(id, t)[1].clone())).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 9);
    }
}
