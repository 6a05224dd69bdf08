//! Planted faults: rows that change between the scan and the search, a model with other rules, and entries that the store
//! loses or changes. Each must be noticed, the rows in every form of a search.

use tidelab_server::error::Result;
use tidelab_server::server::Server;
use tidesdb::internal::db::Db;
use tidesdb::internal::txn::cursor::{Scan, Start};
use tidesdb::TransactionOptions;

use super::super::session::Session;
use super::super::sql::Dice;
use super::super::{change_store, connect, must, set_up, Lab};
use super::forms::{self, Asked};
use super::snapshot::{Oracle, Question, Snapshot};
use super::table::{Table, TABLE};
use super::{by_match, server_settings};

/// Rows of the table.
const ROWS: usize = 40;
/// Tries of each form: some have random bounds.
const TRIES: usize = 40;
/// Changes after the scan.
const CHANGES: [(&str, &str); 3] = [
    ("a changed text", "UPDATE search.t SET c0 = 'nothing' WHERE k = 5"),
    ("a row that goes", "DELETE FROM search.t WHERE k IN (5, 6)"),
    (
        "a row that comes",
        "INSERT INTO search.t VALUES (900, 900, 50, 0, 'another rare5'), (901, 901, 50, 0, 'other')",
    ),
];

/// An entry's fate in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Gone,
    /// Its last position is another one.
    Moved,
    /// It is another row's.
    Redirected,
}

/// Plants each fault; the complaints name those that nobody noticed.
pub(super) fn complaints(lab: &Lab<'_>, server: &mut Server, oracle: &mut Oracle) -> Result<Vec<String>> {
    let mut session = connect(server)?;
    let table = make(&mut session)?;
    let mut missed = rows(&mut session, oracle, &table)?;
    missed.extend(rules(&mut session, oracle, &table)?);
    drop(session);
    for fate in [Fate::Gone, Fate::Moved, Fate::Redirected] {
        let mut session = connect(server)?;
        let table = make(&mut session)?;
        drop(session);
        let store = server.directory().join("tidesdb_data");
        server.shut_down()?;
        change_store(&store, |db| plant(db, fate))?;
        server.restart(&server_settings(), lab.interrupt)?;
        *oracle = must("open", Oracle::open(connect(server)?))?;
        let mut session = connect(server)?;
        set_up(&mut session, &["SET NAMES utf8mb4", "USE search"])?;
        let statement = format!("CHECK TABLE {TABLE} EXTENDED");
        let said = must(&statement, session.rows(&statement))?;
        if said.iter().all(|row| row.get(3).map(String::as_str) == Some("OK")) {
            missed.push(format!("{statement} missed {fate:?}"));
        }
        if !is_noticed(&mut session, oracle, &table)? {
            missed.push(format!("searches missed an entry that is {fate:?}"));
        }
    }
    Ok(missed)
}

/// A table whose row `i` has the words `common`, `rare{i}`, `alpha` and `beta`.
fn make(session: &mut Session) -> Result<Table> {
    let table = Table::plain();
    let opening = ["SET NAMES utf8mb4", "CREATE OR REPLACE DATABASE search", "USE search"];
    let mut statements = opening.map(str::to_string).to_vec();
    statements.extend(table.definition());
    let rows: Vec<String> =
        (0..ROWS).map(|i| format!("({i}, {i}, 50, 0, 'common rare{i} alpha beta')")).collect();
    statements.push(format!("INSERT INTO {TABLE} VALUES {}", rows.join(", ")));
    set_up(session, &statements.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok(table)
}

fn read(session: &mut Session, oracle: &mut Oracle, table: &Table) -> Result<Snapshot> {
    let mut snapshot = must("read", Snapshot::read(session, oracle, table, &table.read_all()))?;
    must("figures", snapshot.read_figures(session, table))?;
    Ok(snapshot)
}

/// True if one of some tries of a form differs.
fn differs(
    dice: &mut Dice,
    session: &mut Session,
    form: usize,
    snapshot: &Snapshot,
    question: &Question,
) -> bool {
    let questions = [question.clone(), question.clone()];
    (0..TRIES).any(|_| !matches!(forms::ask(dice, session, form, snapshot, &questions, "", true), Ok(None)))
}

/// Rows that change after the scan.
fn rows(session: &mut Session, oracle: &mut Oracle, table: &Table) -> Result<Vec<String>> {
    let mut missed = Vec::new();
    let mut dice = Dice::new(1);
    let snapshot = read(session, oracle, table)?;
    let question = must("ask", snapshot.question_of(oracle, table, 0, true, "+rare5"))?;
    for form in 0..forms::FORMS {
        if differs(&mut dice, session, form, &snapshot, &question) {
            missed.push(format!("form {form} finds a fault where none is"));
        }
    }
    for (name, statement) in CHANGES {
        set_up(session, &["BEGIN", statement])?;
        for form in 0..forms::FORMS {
            if !differs(&mut dice, session, form, &snapshot, &question) {
                missed.push(format!("form {form} missed {name}"));
            }
        }
        let mut by_match = || {
            set_up(session, &["SAVEPOINT by_match"])?;
            let found = by_match::change(&mut dice, session, &snapshot, &question);
            set_up(session, &["ROLLBACK TO by_match"])?;
            Result::Ok(!matches!(found, Ok(None)))
        };
        let mut found = false;
        for _ in 0..TRIES {
            found |= by_match()?;
        }
        if !found {
            missed.push(format!("UPDATE and DELETE missed {name}"));
        }
        set_up(session, &["ROLLBACK"])?;
    }
    Ok(missed)
}

/// A model with other rules than the index has.
fn rules(session: &mut Session, oracle: &mut Oracle, table: &Table) -> Result<Vec<String>> {
    let mut missed = Vec::new();
    let mut dice = Dice::new(2);
    let mut expect = |session: &mut Session, name: &str, snapshot: &Snapshot, question: &Question| {
        if !differs(&mut dice, session, 1, snapshot, question) {
            missed.push(format!("{name} was missed"));
        }
    };
    let mut longer = table.clone();
    longer.rules.least = 6;
    let snapshot = read(session, oracle, &longer)?;
    let question = must("ask", snapshot.question_of(oracle, &longer, 0, false, "alpha"))?;
    expect(session, "another shortest word", &snapshot, &question);
    let mut snapshot = read(session, oracle, table)?;
    let fine = must("ask", snapshot.question_of(oracle, table, 0, true, "+rare5"))?;
    let mut wrong = fine.clone();
    wrong.answer = None;
    expect(session, "a query that the grammar takes", &snapshot, &wrong);
    let mut wrong = fine;
    wrong.text = "+(".to_string();
    expect(session, "a query that the grammar refuses", &snapshot, &wrong);
    snapshot.double_figures();
    let question = must("ask", snapshot.question_of(oracle, table, 0, false, "rare5"))?;
    expect(session, "another score", &snapshot, &question);
    Ok(missed)
}

/// True if the words of some row are not found as they should be.
fn is_noticed(session: &mut Session, oracle: &mut Oracle, table: &Table) -> Result<bool> {
    let mut dice = Dice::new(3);
    let snapshot = read(session, oracle, table)?;
    for number in 0..ROWS {
        for text in [format!("\"common rare{number} alpha beta\""), format!("+rare{number} +alpha")] {
            let question = must("ask", snapshot.question_of(oracle, table, 0, true, &text))?;
            let questions = [question.clone(), question];
            match forms::ask(&mut dice, session, 0, &snapshot, &questions, "", true) {
                Ok(None) => {}
                Ok(Some(_)) | Err(Asked { .. }) => return Ok(true),
            }
        }
    }
    Ok(false)
}

/// Changes the entry of one word of a row.
fn plant(db: &Db, fate: Fate) -> tidesdb::Result<()> {
    let names = db.family_names(b"search/t\0i");
    let name = names.first().ok_or_else(|| tidesdb::Error::NoSuchFamily("index of search.t".to_string()))?;
    let family = &db.family(name)?;
    let mut txn = db.transaction();
    txn.begin(TransactionOptions::default())?;
    let mut cursor = db.cursor(family);
    cursor.seek(&mut txn, &Scan { start: Start::First, ..Scan::default() })?;
    let (mut key, mut value) = (cursor.row(0).0.to_vec(), cursor.row(0).1.to_vec());
    txn.delete(family, &key)?;
    match fate {
        Fate::Gone => {}
        Fate::Moved => {
            if let Some(last) = value.last_mut() {
                *last ^= 1;
            }
            txn.put(family, &key, &value)?;
        }
        Fate::Redirected => {
            if let Some(last) = key.last_mut() {
                *last ^= 0x40;
            }
            txn.put(family, &key, &value)?;
        }
    }
    txn.commit()
}
