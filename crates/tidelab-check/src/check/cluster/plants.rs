//! Faults planted into the nodes of a sound cluster, each on its node alone: the looks must find every one.

use tidelab_server::error::Result;

use super::super::{must, set_up};
use super::judge;
use super::nodes::{Cluster, NODES};
use super::writer::Writer;

/// A change of one node's rows, the words of the complaint, and the change back.
const ON_ONE_NODE: [(&str, &str, &str); 4] = [
    (
        "UPDATE torture.hot_t SET n = n + 1 WHERE id = 3",
        "torture.hot_t of node 1",
        "UPDATE torture.hot_t SET n = n - 1 WHERE id = 3",
    ),
    (
        "UPDATE torture.hot_i SET n = n + 1 WHERE id = 3",
        "torture.hot_i of node 1",
        "UPDATE torture.hot_i SET n = n - 1 WHERE id = 3",
    ),
    (
        "CREATE TABLE torture.own_9 (a INT) ENGINE=TidesDB",
        "torture.own_9 is on node",
        "DROP TABLE torture.own_9",
    ),
    (
        "ALTER TABLE torture.twin_t ADD COLUMN z INT",
        "the definitions differ",
        "ALTER TABLE torture.twin_t DROP COLUMN z",
    ),
];

/// Plants each; returns a line for each that was not found.
pub(super) fn complaints(cluster: &Cluster<'_>, writers: &mut [Writer]) -> Result<Vec<String>> {
    let mut missed = Vec::new();
    for (number, (plant, expected, mend)) in ON_ONE_NODE.into_iter().enumerate() {
        let node = number % NODES;
        on_nodes(cluster, &[node], &[plant])?;
        let found = judge::look(cluster, writers, node)?;
        if !found.iter().any(|line| line.contains(expected)) {
            missed.push(format!("'{plant}' on node {} was not found: {found:?}", node + 1));
        }
        on_nodes(cluster, &[node], &[mend])?;
    }
    let found = judge::look(cluster, writers, 0)?;
    missed.extend(found.into_iter().map(|line| format!("after all plants were taken out: {line}")));
    if missed.is_empty() {
        missed.extend(on_all_nodes(cluster, writers)?);
    }
    Ok(missed)
}

/// The same changes on every node: no comparison of nodes finds them.
fn on_all_nodes(cluster: &Cluster<'_>, writers: &mut [Writer]) -> Result<Vec<String>> {
    let mut session = cluster.nodes[0].session()?;
    let mut token = |remainder: i64, offset: u32| -> Result<i64> {
        let select = format!(
            "SELECT token FROM torture.token_t WHERE token % 3 = {remainder} ORDER BY n DESC LIMIT 1 OFFSET {offset}"
        );
        must(&select, session.number(&select))
    };
    let (lost, lost_half, twice) = (token(0, 0)?, token(2, 0)?, token(0, 1)?);
    // Counters must not differ between nodes.
    let again = format!("INSERT INTO torture.token_t (n, token, amount) VALUES (-1, {twice}, 0)");
    let plants = [
        (format!("DELETE FROM torture.token_t WHERE token = {lost}"), format!("transaction {lost} is lost")),
        (
            format!("DELETE FROM torture.token_i WHERE token = {lost_half}"),
            format!("transaction {lost_half} is half there"),
        ),
        (again, format!("transaction {twice} happened twice")),
        (
            "INSERT INTO torture.token_i (n, token, amount) VALUES (-1, 1, 0)".to_string(),
            "1 transactions of nobody are there, 1 the first".to_string(),
        ),
        ("UPDATE torture.twin_t SET n = n + 1 WHERE id = 5".to_string(), "twins differ".to_string()),
        (
            "UPDATE torture.hot_t SET n = n + 1 WHERE id = 5".to_string(),
            "a hot row is not the sum".to_string(),
        ),
        (
            "INSERT INTO torture.child_t (n, parent, token) VALUES (-1, 9000, 1)".to_string(),
            "a child is without its parent: 1 rows of SELECT c.n, c.parent FROM torture.child_t".to_string(),
        ),
        (
            "INSERT INTO torture.ward_i (n, parent, token) VALUES (-1, 9000, 1)".to_string(),
            "a child is without its parent: 1 rows of SELECT c.n, c.parent FROM torture.ward_i".to_string(),
        ),
        (
            "UPDATE torture.parent_i SET children = children + 1 WHERE id = 5".to_string(),
            "a parent counts other".to_string(),
        ),
        (
            "INSERT INTO torture.item_t (id, name, token, pad) VALUES (-1, 'n', 1, '')".to_string(),
            "torture.item_t has (-1".to_string(),
        ),
    ];
    let statements: Vec<&str> = plants.iter().map(|(statement, _)| statement.as_str()).collect();
    on_nodes(cluster, &(0..NODES).collect::<Vec<_>>(), &statements)?;
    let found = judge::look(cluster, writers, NODES - 1)?;
    let is_found = |expected: &str| found.iter().any(|line| line.contains(expected));
    let mut missed: Vec<String> = plants
        .iter()
        .filter(|(_, expected)| !is_found(expected))
        .map(|(statement, _)| format!("'{statement}' on all nodes was not found: {found:?}"))
        .collect();
    if is_found(" of node 1 and of node ") {
        missed.push(format!("equal changes on all nodes are called a difference: {found:?}"));
    }
    Ok(missed)
}

/// Runs statements on some nodes, on each for itself.
fn on_nodes(cluster: &Cluster<'_>, nodes: &[usize], statements: &[&str]) -> Result<()> {
    for node in nodes {
        let mut session = cluster.nodes[*node].session()?;
        set_up(&mut session, &["SET SESSION wsrep_on = OFF, foreign_key_checks = OFF"])?;
        set_up(&mut session, statements)?;
    }
    Ok(())
}
