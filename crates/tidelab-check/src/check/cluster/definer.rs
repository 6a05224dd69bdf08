//! A client with definitions beside the writers: by total order, each on a node drawn anew. The writers' tables get
//! columns and indexes and lose them; tables of its own come, are filled, changed, and go.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::RngExt;

use super::super::session::Failure;
use super::tables::{name, ENGINES};
use super::writer::{is_detached, rest, session_of, Scene};

/// Tables of its own.
const OWN: i64 = 4;
/// Its longest rest, in milliseconds.
const REST: u64 = 250;

/// Its answers, across the rounds.
#[derive(Default)]
pub(super) struct Definer {
    /// Answered statements by kind.
    pub(super) done: BTreeMap<&'static str, u64>,
    pub(super) refused: u64,
    pub(super) complaints: Vec<String>,
}

impl Definer {
    /// Works until the round is over.
    pub(super) fn work(&mut self, scene: &Scene, mut random: StdRng) {
        while !scene.is_over() {
            let node = random.random_range(0..scene.sockets.len());
            // The node may be down: another one is asked then.
            let Some(mut session) = session_of(&scene.sockets[node], scene) else { return };
            for _ in 0..random.random_range(1..=4) {
                rest(scene, &mut random, REST);
                let _one = scene.no_definitions();
                if scene.is_over() {
                    return;
                }
                let (kind, statement) = draw(&mut random);
                match session.run(&statement) {
                    Ok(_) => *self.done.entry(kind).or_default() += 1,
                    Err(Failure::Lost(_)) => break,
                    Err(failure) if failure.is_conflict() || is_expected(&failure) => {
                        self.refused += 1;
                        if is_detached(&failure) {
                            break;
                        }
                    }
                    Err(failure) => {
                        self.complaints.push(format!("node {}: {statement}: {failure}", node + 1));
                        return;
                    }
                }
            }
        }
    }
}

/// 1047: detached. 1146, 1050, 1054, 1060, 1061, 1091: an earlier statement was not answered, or the table is not there
/// now. 1180: the commit of a filled table. 1317: the node left the cluster meanwhile. 4165 without a reason: it left before the
/// statement's begin on all nodes.
fn is_expected(failure: &Failure) -> bool {
    match failure {
        Failure::Sql { code: 4165, message } => !message.contains("TidesDB"),
        Failure::Sql { code, .. } => {
            matches!(code, 1047 | 1050 | 1054 | 1060 | 1061 | 1091 | 1146 | 1180 | 1317 | 1412)
        }
        Failure::Lost(_) => false,
    }
}

fn draw(random: &mut StdRng) -> (&'static str, String) {
    let engine = ENGINES[random.random_range(0..ENGINES.len())];
    let shared = name(["item", "token", "ward"][random.random_range(0..3)], engine);
    let own = format!("torture.own_{}", random.random_range(0..OWN));
    let (number, rows) = (random.random_range(0..3), random.random_range(1..300));
    match random.random_range(0..14) {
        0 => ("ADD COLUMN", format!("ALTER TABLE {shared} ADD COLUMN IF NOT EXISTS x{number} INT DEFAULT {rows}")),
        1 => ("DROP COLUMN", format!("ALTER TABLE {shared} DROP COLUMN IF EXISTS x{number}")),
        2 => ("ADD INDEX", format!("ALTER TABLE {shared} ADD INDEX IF NOT EXISTS y{number} (token)")),
        3 => ("DROP INDEX", format!("ALTER TABLE {shared} DROP INDEX IF EXISTS y{number}")),
        4 => ("COPY", format!("ALTER TABLE {shared} FORCE, ALGORITHM=COPY")),
        5 | 6 => (
            "CREATE",
            format!("CREATE TABLE IF NOT EXISTS {own} (id INT PRIMARY KEY, a INT, KEY (a)) ENGINE={engine}"),
        ),
        7 => (
            "CREATE SELECT",
            format!(
                "CREATE TABLE IF NOT EXISTS {own} (PRIMARY KEY (id)) ENGINE={engine} SELECT seq AS id, seq % 7 AS a \
                 FROM torture.seq_1_to_{rows}"
            ),
        ),
        8 | 9 => {
            ("FILL", format!("INSERT IGNORE INTO {own} (id, a) SELECT seq, {number} FROM torture.seq_1_to_{rows}"))
        }
        10 => ("TRUNCATE", format!("TRUNCATE {own}")),
        11 => ("ENGINE", format!("ALTER TABLE {own} ENGINE={engine}")),
        12 => ("RENAME", format!("RENAME TABLE IF EXISTS {own} TO torture.own_{}", random.random_range(0..OWN))),
        _ => ("DROP", format!("DROP TABLE IF EXISTS {own}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_the_product_is_a_fault() {
        let refusal = |message: &str| Failure::Sql { code: 4165, message: message.to_string() };
        assert!(is_expected(&refusal("Galera replication not supported")));
        assert!(!is_expected(&refusal("TidesDB: Galera cannot replicate the change of torture.own_1")));
    }
}
