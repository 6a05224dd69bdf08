//! The comparison of the nodes at rest: each table has the same checksum everywhere.

use std::thread;

use tidelab_server::error::{Error, Result};
use tidelab_server::server::client::Client;

/// The checksums of a database's tables on one node, as the server lists them.
type Checksums = Vec<Vec<String>>;

/// A line for each table of a database that differs between nodes. No client may write meanwhile.
pub fn complaints(clients: &[&Client], database: &str) -> Result<Vec<String>> {
    let list = format!(
        "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{database}' \
         ORDER BY TABLE_NAME"
    );
    let names: Vec<String> = clients[0].query(&list)?.concat();
    if names.is_empty() {
        return Err(Error::Statement { statement: list, message: "there is no table".to_string() });
    }
    let statement = format!("CHECKSUM TABLE {}", names.join(", "));
    let by_node: Vec<Result<Checksums>> = thread::scope(|scope| {
        let statement = &statement;
        let nodes: Vec<_> =
            clients.iter().map(|client| scope.spawn(move || client.query(statement))).collect();
        nodes.into_iter().map(|node| node.join().expect("a client does not panic")).collect()
    });
    let by_node: Vec<Checksums> = by_node.into_iter().collect::<Result<_>>()?;
    Ok(differences(&names, &by_node))
}

fn differences(names: &[String], by_node: &[Checksums]) -> Vec<String> {
    let of = |node: &Checksums, name: &String| {
        let row = node.iter().find(|row| row.first() == Some(name));
        row.and_then(|row| row.get(1)).cloned().unwrap_or_else(|| "NULL".to_string())
    };
    let mut wrong = Vec::new();
    for name in names {
        let found: Vec<String> = by_node.iter().map(|node| of(node, name)).collect();
        if found.iter().any(|checksum| *checksum != found[0] || checksum == "NULL") {
            wrong.push(format!("{name}: the checksums on the nodes are {}", found.join(", ")));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_differs_or_is_missing_is_named() {
        let names = ["d.a", "d.b", "d.c"].map(str::to_string);
        let node = |b: &str, c: &str| -> Checksums {
            [("d.a", "1"), ("d.b", b), ("d.c", c)].map(|(n, s)| vec![n.to_string(), s.to_string()]).to_vec()
        };
        assert_eq!(differences(&names, &[node("2", "3"), node("2", "3")]), Vec::<String>::new());
        assert_eq!(
            differences(&names, &[node("2", "NULL"), node("2", "NULL"), node("5", "NULL")]),
            [
                "d.b: the checksums on the nodes are 2, 2, 5",
                "d.c: the checksums on the nodes are NULL, NULL, NULL"
            ]
        );
    }
}
