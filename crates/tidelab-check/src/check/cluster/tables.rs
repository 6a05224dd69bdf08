//! The tables of the check: each once in TidesDB, its name's end `_t`, and once in InnoDB, `_i`.

use tidelab_server::error::Result;
use tidelab_server::server::engine::Engine;

use super::super::session::Session;
use super::super::set_up;

/// The engines of the tables.
pub(super) const ENGINES: [Engine; 2] = [Engine::TidesDb, Engine::InnoDb];
/// Rows of `hot` and of `twin`: few, for writers on all nodes to meet.
pub(super) const HOT: i64 = 12;
/// Rows of `parent`, and ids after them of rows that come and go.
pub(super) const PARENTS: i64 = 25;
pub(super) const GUESTS: i64 = 4;
/// Slots of `claim`, one row each, and groups: few, for writers to meet.
pub(super) const SLOTS: i64 = 8;
pub(super) const CLAIM_GROUPS: i64 = 6;
/// Groups of `item`, and of the table without a key.
pub(super) const GROUPS: i64 = 40;

/// A table's name in an engine.
pub(super) fn name(table: &str, engine: Engine) -> String {
    format!("torture.{table}_{}", if engine == Engine::TidesDb { "t" } else { "i" })
}

/// Makes all tables, with their first rows.
pub(super) fn make(session: &mut Session) -> Result<()> {
    set_up(session, &["CREATE DATABASE torture"])?;
    for engine in ENGINES {
        let of = |table: &str| name(table, engine);
        let last = |rows: i64| format!("SELECT seq, 0 FROM torture.seq_0_to_{}", rows - 1);
        let statements = [
            // Its own key is the counter's: a token that comes twice is seen.
            format!(
                "CREATE TABLE {} (n BIGINT AUTO_INCREMENT PRIMARY KEY, token BIGINT NOT NULL, hot INT,
                   amount BIGINT NOT NULL, KEY by_token (token))",
                of("token")
            ),
            format!("CREATE TABLE {} (id INT PRIMARY KEY, n BIGINT NOT NULL)", of("hot")),
            format!("CREATE TABLE {} (id INT PRIMARY KEY, n BIGINT NOT NULL)", of("twin")),
            format!(
                "CREATE TABLE {} (id BIGINT PRIMARY KEY, grp INT, name VARCHAR(40) NOT NULL, token BIGINT NOT NULL,
                   pad TEXT NOT NULL, KEY by_grp (grp, token), UNIQUE KEY by_name (name))",
                of("item")
            ),
            format!("CREATE TABLE {} (id INT PRIMARY KEY, children BIGINT NOT NULL)", of("parent")),
            format!(
                "CREATE TABLE {} (n BIGINT AUTO_INCREMENT PRIMARY KEY, parent INT NOT NULL, token BIGINT NOT NULL,
                   FOREIGN KEY (parent) REFERENCES {} (id) ON DELETE CASCADE)",
                of("child"),
                of("parent")
            ),
            format!(
                "CREATE TABLE {} (n BIGINT AUTO_INCREMENT PRIMARY KEY, parent INT, token BIGINT NOT NULL,
                   FOREIGN KEY (parent) REFERENCES {} (id) ON DELETE SET NULL)",
                of("ward"),
                of("parent")
            ),
            format!("CREATE TABLE {} (a INT NOT NULL, b BIGINT NOT NULL, KEY (a))", of("bare")),
            // Rows without a value in the only unique key have none. There is no other key: a server that applies a change
            // searches by the one of fewest rows a value, and takes the first row found for the changed one where its
            // first key is unique and that row has a value in it (Rows_log_event::find_row).
            format!(
                "CREATE TABLE {} (slot INT, grp INT NOT NULL, token BIGINT NOT NULL, UNIQUE KEY by_slot (slot))",
                of("claim")
            ),
        ];
        for statement in statements {
            set_up(session, &[&format!("{statement} ENGINE={engine}")])?;
        }
        for (table, rows) in [("hot", HOT), ("twin", HOT), ("parent", PARENTS)] {
            set_up(session, &[&format!("INSERT INTO {} {}", of(table), last(rows))])?;
        }
    }
    Ok(())
}
