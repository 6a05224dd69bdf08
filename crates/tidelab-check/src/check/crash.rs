//! `crash`: a server in FULL with the binary log on is killed with SIGKILL under TPC-C, several times on
//! the same data.
//!
//! Each transaction writes a row with a token from its client. After each restart these hold:
//!
//! - Every acknowledged token is there, none that was refused or rolled back, and of those in doubt any.
//! - The tables hold exactly the changes of the tokens.
//! - Conditions 1 to 12 hold, and the stock.
//! - Each index agrees with its table.
//! - The binary log, replayed into InnoDB copies of the tables, gives the same rows.
//!
//! At the end violations of each condition are planted and must be found.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tidelab_server::error::Result;
use tidelab_server::server::agreement::{self, Index};
use tidelab_server::server::engine::Engine;
use tidelab_server::server::settings;
use tidelab_server::server::Server;
use tidelab_server::workload::tpcc::client::{Outcome, User};
use tidelab_server::workload::tpcc::loader::Load;
use tidelab_server::workload::tpcc::make_tables;
use tidelab_server::workload::tpcc::schema::{self, TABLES, TOKEN};
use tidelab_server::workload::tpcc::{readout, Scale, Transaction};

use super::killing::{load_until_killed, Killed};
use super::session::{Address, Failure, Session};
use super::{conclude, connect, must, planted, progress, replay, set_up, Check, Lab, Verdict};

const USERS: u32 = 8;
/// Tokens of user u lie above u times this.
const TOKENS: i64 = 1_000_000_000;

/// A user's knowledge of its transactions, across the rounds.
#[derive(Default)]
struct Client {
    number: u32,
    next: i64,
    /// Tokens of acknowledged transactions.
    acknowledged: BTreeSet<i64>,
    /// Tokens of transactions refused or rolled back since the last look.
    undone: BTreeSet<i64>,
    /// The token of one whose answer did not come.
    in_doubt: Option<i64>,
    refused: u64,
    complaint: Option<String>,
}

/// Runs the check.
pub fn run(lab: &Lab<'_>) -> Result<Verdict> {
    let rounds = lab.rounds.unwrap_or(if lab.short { 2 } else { 5 });
    let scale = if lab.short { Scale::tenth(1) } else { Scale::full(2) };
    let settings = settings::checks(true);
    let mut random = StdRng::seed_from_u64(lab.seed);
    let mut server = lab.start(&settings)?;
    let (ours, theirs) = (Engine::TidesDb.database(), Engine::InnoDb.database());
    let address = Address::root(server.socket());
    load(lab, &server, &address, scale)?;
    let (_, mut next_file) = replay::complete_files(&server, 0)?;
    let mut clients: Vec<Client> = (1..=USERS).map(|number| Client { number, ..Client::default() }).collect();
    let mut complaints = Vec::new();
    let (mut in_doubt, mut happened) = (0, 0);
    for round in 1..=rounds {
        lab.interrupt.check()?;
        // Both lock modes in turn, before the users begin.
        let pessimistic = format!("SET GLOBAL tidesdb_pessimistic_locking = {}", round % 2);
        set_up(&mut connect(&server)?, &[&pessimistic])?;
        let before: usize = clients.iter().map(|c| c.acknowledged.len()).sum();
        let longest = if lab.short { 1500 } else { 4000 };
        let delay = Duration::from_millis(random.random_range(300..longest));
        run_users(&mut server, &mut clients, scale, delay, random.random())?;
        if round % 2 == 0 {
            let delay = Duration::from_millis(random.random_range(100..700));
            server.crash_while_starting(&settings, delay)?;
        }
        let took = server.restart(&settings, lab.interrupt)?;
        let mut session = connect(&server)?;
        let mut wrong: Vec<String> = clients.iter_mut().filter_map(|c| c.complaint.take()).collect();
        let (doubtful, of_them) = settle(&mut session, &mut clients, &mut wrong)?;
        in_doubt += doubtful;
        happened += of_them;
        let found = readout::check(&address, ours, scale, 2)?;
        wrong.extend(found.complaints());
        wrong.extend(compare_tokens(&mut session, &found)?);
        wrong.extend(indexes_disagree(&mut session, ours)?);
        let (files, current) = replay::complete_files(&server, next_file)?;
        next_file = current;
        replay::replay(lab, &server, &files, ours, theirs)?;
        wrong.extend(replay_differs(&mut session, ours, theirs)?);
        let acknowledged: usize = clients.iter().map(|c| c.acknowledged.len()).sum();
        progress(
            Check::Crash,
            &format!(
                "round {round} of {rounds}: {} transactions, killed after {} ms, up again in {:.1} s, {} orders, {} payments, {} deliveries in all, {} wrong",
                acknowledged - before,
                delay.as_millis(),
                took.as_secs_f64(),
                found.new_orders,
                found.payments,
                found.deliveries,
                wrong.len()
            ),
        );
        complaints.extend(wrong.into_iter().map(|complaint| format!("round {round}: {complaint}")));
        if !complaints.is_empty() {
            // The rest would fail for the same reason, and the evidence is fresh.
            break;
        }
    }
    let acknowledged: usize = clients.iter().map(|c| c.acknowledged.len()).sum();
    let refused: u64 = clients.iter().map(|c| c.refused).sum();
    if acknowledged == 0 {
        complaints.push("no transaction was acknowledged".to_string());
    }
    if complaints.is_empty() {
        let mut session = connect(&server)?;
        complaints.extend(planted::complaints(&mut session, &address, ours, scale)?);
        complaints.extend(misses_a_planted_difference(&mut session, ours, theirs)?);
    }
    let summary = format!(
        "{rounds} kills under TPC-C, {acknowledged} acknowledged transactions, {refused} refused, {in_doubt} in doubt of which {happened} happened; binary log replayed into InnoDB after each"
    );
    conclude(server, summary, complaints)
}

/// Indexes that do not agree with their rows.
fn indexes_disagree(session: &mut Session, ours: &str) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for table in TABLES.iter().chain([&TOKEN]) {
        let indexes: Vec<Index> =
            table.indexes.iter().map(|(name, all_rows)| Index { name, all_rows }).collect();
        let name = format!("{ours}.{}", table.name);
        wrong.extend(must("agree", agreement::complaints(session, &name, table.columns, &indexes))?);
    }
    Ok(wrong)
}

/// Differences between the tables and the binary log's replay.
fn replay_differs(session: &mut Session, ours: &str, theirs: &str) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for table in TABLES.iter().chain([&TOKEN]) {
        let differences = replay::differences(session, table, ours, theirs)?;
        wrong.extend(differences.into_iter().map(|c| format!("the binary log replayed: {c}")));
    }
    Ok(wrong)
}

/// The comparison with the replay must find a row that differs.
fn misses_a_planted_difference(session: &mut Session, ours: &str, theirs: &str) -> Result<Option<String>> {
    let plant =
        format!("UPDATE {theirs}.stock SET s_quantity = s_quantity + 1 WHERE s_w_id = 1 AND s_i_id = 7");
    set_up(session, &[&plant])?;
    let found =
        TABLES.iter().any(|t| replay::differences(session, t, ours, theirs).is_ok_and(|d| d.len() == 3));
    Ok((!found).then(|| "a row that differs from the replay was planted and not found".to_string()))
}

/// Fills TidesDB's tables and InnoDB's copies of them, outside of the binary log, and begins a
/// new file of it.
fn load(lab: &Lab<'_>, server: &Server, address: &Address, scale: Scale) -> Result<()> {
    let (ours, theirs) = (Engine::TidesDb.database(), Engine::InnoDb.database());
    make_tables(address, ours, Engine::TidesDb, scale, true)?;
    let rows = Load {
        address,
        database: ours,
        scale,
        // Each statement is more than half of this server's write buffer.
        users: 2,
        seed: lab.seed,
        session: &["SET sql_log_bin = 0"],
        interrupt: lab.interrupt,
    }
    .run(|_, _| {})?;
    let mut session = connect(server)?;
    set_up(&mut session, &["SET sql_log_bin = 0"])?;
    must("make the copies", schema::make(&mut session, theirs, Engine::InnoDb, true))?;
    for table in TABLES {
        let copy = format!("INSERT INTO {theirs}.{0} SELECT * FROM {ours}.{0}", table.name);
        set_up(&mut session, &[&copy])?;
    }
    set_up(&mut session, &["FLUSH BINARY LOGS"])?;
    progress(Check::Crash, &format!("{rows} rows loaded and copied into InnoDB"));
    Ok(())
}

/// Puts all users on the server and kills it after a while.
fn run_users(
    server: &mut Server,
    clients: &mut [Client],
    scale: Scale,
    delay: Duration,
    seed: u64,
) -> Result<()> {
    let address = Address::root(server.socket());
    let clients = clients.iter_mut().map(|client| {
        let address = &address;
        move |killed: &Killed| {
            if let Some(failure) = killed.unexplained(client.work(address, scale, seed)) {
                client.complaint = Some(format!("user {}: {failure}", client.number));
            }
        }
    });
    load_until_killed(server, delay, clients)
}

impl Client {
    /// Runs transactions until the server is gone.
    fn work(&mut self, address: &Address, scale: Scale, seed: u64) -> std::result::Result<(), Failure> {
        let database = Engine::TidesDb.database();
        let mut user = User::connect(address, database, scale, seed, self.number)?;
        loop {
            let transaction = user.draw();
            self.next += 1;
            let token = i64::from(self.number) * TOKENS + self.next;
            let changes = !matches!(transaction, Transaction::StockLevel | Transaction::OrderStatus);
            if changes {
                user.set_token(token)?;
                self.in_doubt = Some(token);
            }
            match user.run(transaction) {
                Ok(Outcome::Committed) if changes => {
                    self.acknowledged.insert(token);
                }
                Ok(Outcome::Committed) => {}
                Ok(Outcome::RolledBack) => {
                    self.undone.insert(token);
                }
                Err(failure) if failure.is_conflict() => {
                    // Not in doubt: an error says that it did not happen.
                    self.in_doubt = None;
                    self.refused += 1;
                    if changes {
                        self.undone.insert(token);
                    }
                    user.roll_back()?;
                }
                Err(failure) => return Err(failure),
            }
            self.in_doubt = None;
        }
    }
}

/// Compares the stored tokens with those of the clients. Counts those in doubt, and of these the committed
/// ones.
fn settle(session: &mut Session, clients: &mut [Client], wrong: &mut Vec<String>) -> Result<(usize, usize)> {
    let database = Engine::TidesDb.database();
    let select = format!("SELECT token FROM {database}.token");
    let there: BTreeSet<i64> = must(&select, session.numbers(&select))?.into_iter().flatten().collect();
    Ok(compare_with(&there, clients, wrong))
}

/// See [`settle`].
fn compare_with(there: &BTreeSet<i64>, clients: &mut [Client], wrong: &mut Vec<String>) -> (usize, usize) {
    let (mut in_doubt, mut happened) = (0, 0);
    let mut known = 0;
    for client in clients.iter_mut() {
        if let Some(token) = client.in_doubt.take() {
            in_doubt += 1;
            if there.contains(&token) {
                happened += 1;
                client.acknowledged.insert(token);
            }
        }
        let lost: Vec<i64> = client.acknowledged.difference(there).copied().collect();
        if let Some(first) = lost.first() {
            wrong.push(format!(
                "user {}: {} acknowledged transactions are lost, the first {}, of {}",
                client.number,
                lost.len(),
                first % TOKENS,
                client.next
            ));
        }
        for token in client.undone.intersection(there) {
            wrong.push(format!(
                "user {}: transaction {} was undone and is there",
                client.number,
                token % TOKENS
            ));
        }
        client.undone.clear();
        known += client.acknowledged.intersection(there).count();
    }
    if known != there.len() {
        wrong.push(format!("{} tokens are there that no user committed", there.len() - known));
    }
    (in_doubt, happened)
}

/// Compares the changes of the tokens with the contents of the tables: no half of a transaction is there
/// without the other.
fn compare_tokens(session: &mut Session, found: &readout::Readout) -> Result<Vec<String>> {
    let database = Engine::TidesDb.database();
    let select = format!(
        "SELECT kind, COUNT(*), COALESCE(SUM(n), 0) FROM {database}.token FORCE INDEX (PRIMARY) GROUP BY kind"
    );
    let sums: BTreeMap<i64, (i64, i64)> =
        must(&select, session.numbers(&select))?.into_iter().map(|row| (row[0], (row[1], row[2]))).collect();
    let of = |t: Transaction| sums.get(&(t.index() as i64)).copied().unwrap_or((0, 0));
    let mut complaints = Vec::new();
    for (what, tokens, tables) in [
        ("new orders", of(Transaction::NewOrder).0, found.new_orders),
        ("payments", of(Transaction::Payment).0, found.payments),
        ("delivered orders", of(Transaction::Delivery).1, found.deliveries),
    ] {
        if tokens != tables {
            complaints.push(format!("the tokens tell of {tokens} {what}, the tables of {tables}"));
        }
    }
    let (new_order, payment) = (Transaction::NewOrder.index(), Transaction::Payment.index());
    for (what, query) in [
        (
            "new orders whose token is there and whose order is not",
            format!(
                "SELECT COUNT(*) FROM {database}.token LEFT JOIN {database}.orders
                 ON o_w_id = w AND o_d_id = d AND o_id = n WHERE kind = {new_order} AND o_id IS NULL"
            ),
        ),
        (
            "hundredths between what the payments' tokens and what history say",
            format!(
                "SELECT (SELECT COALESCE(SUM(n), 0) FROM {database}.token WHERE kind = {payment})
                 - (SELECT ROUND(100 * SUM(h_amount)) FROM {database}.history)
                 + (SELECT 1000 * COUNT(*) FROM {database}.customer)"
            ),
        ),
    ] {
        let count = must(&query, session.number(&query))?;
        if count != 0 {
            complaints.push(format!("{count} {what}"));
        }
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        let token = |n: i64| TOKENS + n;
        Client {
            number: 1,
            next: 6,
            acknowledged: [token(1), token(2)].into(),
            undone: [token(3)].into(),
            in_doubt: Some(token(4)),
            ..Client::default()
        }
    }

    fn look(there: &[i64]) -> ((usize, usize), Vec<String>, Client) {
        let mut clients = [client()];
        let mut wrong = Vec::new();
        let there = there.iter().map(|n| TOKENS + n).collect();
        let counts = compare_with(&there, &mut clients, &mut wrong);
        let [client] = clients;
        (counts, wrong, client)
    }

    #[test]
    fn what_was_in_doubt_may_or_may_not_be_there() {
        let (counts, wrong, client) = look(&[1, 2]);
        assert_eq!((counts, wrong.len(), client.acknowledged.len()), ((1, 0), 0, 2));
        let (counts, wrong, client) = look(&[1, 2, 4]);
        assert_eq!((counts, wrong.len(), client.acknowledged.len()), ((1, 1), 0, 3));
        assert!(client.in_doubt.is_none() && client.undone.is_empty());
    }

    #[test]
    fn lost_undone_and_strange_transactions_are_found() {
        assert!(look(&[2]).1[0].contains("1 acknowledged transactions are lost, the first 1"));
        assert!(look(&[1, 2, 3]).1[0].contains("transaction 3 was undone and is there"));
        assert!(look(&[1, 2, 5]).1[0].contains("1 tokens are there that no user committed"));
    }
}
