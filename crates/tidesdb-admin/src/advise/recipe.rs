//! A move by dump: a shell script that writes a dump in which the tables have the other engine. It moves what no ALTER TABLE
//! moves: histories of InnoDB's system-versioned tables, and all tables to another server.

use crate::cli::{Advise, AnyServer};
use crate::output::{Failure, Out};

use super::table::{quoted, Sort, State, Table, Verdict};

/// Engines as definitions have them. Others' tables stay.
const ENGINES: &str = "InnoDB|MyISAM|Aria|ROCKSDB|MEMORY|ARCHIVE|CSV";

/// The program of sed. A definition's engine stands at the begin of its last line or at the end of a partition's; rows
/// have no such lines, as a dump writes a line feed in a text as `\n`. Unknown options of tables (PAGE_COMPRESSED) become
/// comments, and a server without the plugin refuses the dump.
const CONVERSION: [&str; 4] = [
    "s/^(.*SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO)'\
     /\\1,NO_ENGINE_SUBSTITUTION,IGNORE_BAD_TABLE_OPTIONS'/",
    "s/^\\) ENGINE=(ENGINES)( |;|$)/) ENGINE=TidesDB\\2/",
    "/^[ (]+(SUB)?PARTITION `/s/ ENGINE = (ENGINES)([,);]*)$/ ENGINE = TidesDB\\2/",
    "s/^(CREATE SEQUENCE `([^`]|``)*` [^']*) ENGINE=(ENGINES)/\\1 ENGINE=TidesDB/",
];

/// A word for the shell.
fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Text for a regular expression of `sed -E` with the delimiter /.
fn literal(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if "\\.[]*^$+?(){}|/".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// Options of a client that lead to the server.
fn connection(server: &AnyServer) -> String {
    let mut words = vec![format!("--user={}", word(&server.user))];
    match (&server.socket, &server.host) {
        (Some(socket), _) => words.push(format!("--socket={}", word(&socket.display().to_string()))),
        (None, Some(host)) => {
            words.push(format!("--protocol=tcp --host={} --port={}", word(host), server.port));
        }
        (None, None) => {}
    }
    words.join(" ")
}

/// The program of sed, line by line: first the definitions that stay, each within its database.
fn program(databases: &[&str], staying: &[&Table]) -> Vec<String> {
    let mut lines = vec![CONVERSION[0].to_string()];
    for database in databases {
        let own: Vec<_> = staying.iter().filter(|table| table.schema == *database).collect();
        if own.is_empty() {
            continue;
        }
        lines.push(format!("/^USE {};$/,/^USE `/{{", literal(&quoted(database))));
        for table in own {
            lines.push(format!("  /^CREATE TABLE {} \\($/,/;$/b", literal(&quoted(&table.name))));
        }
        lines.push("}".into());
    }
    lines.extend(CONVERSION[1..].iter().map(|line| line.replace("ENGINES", ENGINES)));
    lines
}

/// The script. `tables` are judged for a dump.
pub fn script(options: &Advise, tables: &[(Table, Verdict)]) -> Result<Vec<String>, Failure> {
    let mut databases: Vec<&str> = tables.iter().map(|(table, _)| table.schema.as_str()).collect();
    databases.dedup();
    if databases.is_empty() {
        return Err(Failure::Other("there are no tables to dump".into()));
    }
    let of = |state: State| tables.iter().filter(move |(_, verdict)| verdict.state == state);
    let staying: Vec<&Table> = of(State::Cannot).map(|(table, _)| table).collect();
    // Their history has no times: the present rows alone go into a dump, and mariadb-dump refuses the rest.
    let by_id: Vec<&&Table> = staying.iter().filter(|table| table.by_transaction_id).collect();
    let broken: Vec<&&Table> = staying.iter().filter(|table| table.engine.is_none()).collect();
    let mut lines = vec![
        "#!/bin/bash".to_string(),
        format!(
            "# Written by tidesdb-admin advise --dump: a dump in which {} tables are TidesDB. It reads; the load drops and makes",
            of(State::Can).count()
        ),
        "# the tables of the dump. Let nobody write from the begin of the dump to the end of the load:".into(),
        "#   bash THIS > moved.sql && mariadb < moved.sql      (into this server, or another one; the plugin is there)".into(),
        "# Users are not in it: mariadb-dump --system=users.".into(),
    ];
    if !staying.is_empty() {
        lines.push("# These keep their engine:".into());
    }
    for (table, verdict) in of(State::Cannot) {
        lines.push(format!("#   {}: {}", table.quoted(), verdict.against.join("; ")).replace('\n', " "));
    }
    for table in &by_id {
        lines.push(format!("#   {}: without its history", table.quoted()).replace('\n', " "));
    }
    for table in &broken {
        lines.push(format!("#   {}: not in the dump", table.quoted()).replace('\n', " "));
    }
    lines.extend(["set -euo pipefail".to_string(), "export LC_ALL=C".into()]);
    if let Some(file) = &options.server.password_file {
        lines.push(format!("MYSQL_PWD=$(sed -n 1p {})", word(&file.display().to_string())));
        lines.push("export MYSQL_PWD".into());
    }
    let history = match tables.iter().any(|(table, _)| table.sort == Sort::Versioned) {
        true => " --dump-history",
        false => "",
    };
    lines.push(format!(
        "dump=(mariadb-dump {} --default-character-set=utf8mb4 --single-transaction --routines --events)",
        connection(&options.server)
    ));
    // Views come last in a dump, so tables of a dump of their own go before.
    for table in &by_id {
        lines.push(format!(
            "\"${{dump[@]}}\" --no-data --no-create-info --skip-triggers --skip-routines --skip-events --databases {}",
            word(&table.schema)
        ));
        lines.push(format!(
            "\"${{dump[@]}}\" --skip-routines --skip-events {} {}",
            word(&table.schema),
            word(&table.name)
        ));
    }
    let ignored: String = by_id
        .iter()
        .chain(&broken)
        .map(|table| format!(" --ignore-table={}", word(&format!("{}.{}", table.schema, table.name))))
        .collect();
    let names: Vec<String> = databases.iter().map(|name| word(name)).collect();
    lines.push(format!("\"${{dump[@]}}\"{history}{ignored} --databases {} |", names.join(" ")));
    lines.push("  sed -E -f <(cat <<'END_OF_SED'".into());
    lines.extend(program(&databases, &staying));
    lines.push("END_OF_SED".into());
    lines.push("  )".into());
    Ok(lines)
}

/// Prints the script.
pub fn print(options: &Advise, tables: &[(Table, Verdict)], out: &mut Out<'_>) -> Result<(), Failure> {
    let lines = script(options, tables)?;
    out.document(&serde_json::json!(lines))?;
    lines.iter().try_for_each(|line| out.line(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::table::tests::table;

    #[test]
    fn names_are_literal_in_the_shell_and_in_sed() {
        assert_eq!(word("it's"), "'it'\\''s'");
        assert_eq!(literal("`a.b*[c]/d`"), "`a\\.b\\*\\[c\\]\\/d`");
    }

    #[test]
    fn a_table_that_stays_is_left_out_within_its_own_database() {
        let staying = table(|table| (table.schema, table.name) = ("b".into(), "w``".into()));
        let program = program(&["a", "b"], &[&staying]);
        let found: Vec<&str> = program[1..4].iter().map(String::as_str).collect();
        assert_eq!(found, ["/^USE `b`;$/,/^USE `/{", "  /^CREATE TABLE `w````` \\($/,/;$/b", "}"]);
        assert_eq!(program.len(), 7);
    }
}
