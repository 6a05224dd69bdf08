//! Compares the binary log's transactions with the tables.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::server::settings::BINARY_LOG;
use tidelab_server::server::{program, Server};

use super::Lab;

/// The files of the binary log from number `from` on, in their order, with their numbers.
pub(super) fn files(server: &Server, from: u32) -> Result<Vec<(u32, PathBuf)>> {
    let data = server.directory().join("data");
    let mut files: Vec<(u32, PathBuf)> = fs::read_dir(&data)
        .map_err(io_error("cannot read", &data))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.file_stem().is_some_and(|stem| stem == BINARY_LOG))
        .filter_map(|path| Some((path.extension()?.to_str()?.parse().ok()?, path)))
        .filter(|(number, _)| *number >= from)
        .collect();
    files.sort();
    Ok(files)
}

/// Tokens of the complete transactions in the files from number `from` on, from the table of tokens of
/// [`super::accounts`].
pub(super) fn tokens(lab: &Lab<'_>, server: &Server, from: u32) -> Result<BTreeSet<i64>> {
    let reader = program(lab.prefix, "mariadb-binlog")?;
    let mut tokens = BTreeSet::new();
    // One by one: a group that a kill cut off at the end of a file has the GTID of the next file's first.
    for (_, file) in files(server, from)? {
        let output = Command::new(&reader)
            .args(["--no-defaults", "--base64-output=decode-rows", "--verbose"])
            .arg(&file)
            .stdin(Stdio::null())
            .output()
            .map_err(io_error("cannot run", &reader))?;
        if !output.status.success() {
            return Err(Error::Load {
                what: format!("mariadb-binlog on {}", file.display()),
                message: String::from_utf8_lossy(&output.stderr).trim().to_string(),
            });
        }
        tokens.extend(tokens_of_text(&String::from_utf8_lossy(&output.stdout)));
    }
    Ok(tokens)
}

/// Compares the tokens in the binary log with those added to the table since the log began.
pub(super) fn compare(log: &BTreeSet<i64>, table: &BTreeSet<i64>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (what, tokens) in [
        ("in the binary log and not in the table", log.difference(table).collect::<Vec<_>>()),
        ("in the table and not in the binary log", table.difference(log).collect()),
    ] {
        if let Some(first) = tokens.first() {
            complaints.push(format!("{} transactions are {what}, the first {first}", tokens.len()));
        }
    }
    complaints
}

/// The first column of each row inserted into the table of tokens by the decoded log's complete transactions.
/// A group cut off by the kill has rows and no end: recovery rolls it back, replicas never apply it.
fn tokens_of_text(text: &str) -> BTreeSet<i64> {
    let mut of_token = false;
    let mut of_group = Vec::new();
    let mut tokens = BTreeSet::new();
    for line in text.lines() {
        let Some(line) = line.strip_prefix("### ") else {
            if line.starts_with("COMMIT") {
                tokens.extend(of_group.drain(..));
            } else if line.starts_with("START TRANSACTION") || line.starts_with("BEGIN") {
                of_group.clear();
            }
            continue;
        };
        if !line.starts_with(' ') && line != "SET" {
            of_token = line == "INSERT INTO `torture`.`token`";
        } else if let Some(value) = line.trim_start().strip_prefix("@1=").filter(|_| of_token) {
            of_group.extend(value.split(' ').next().and_then(|v| v.parse::<i64>().ok()));
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_from_a_decoded_log() {
        let text =
            "START TRANSACTION\n### UPDATE `torture`.`shared`\n### WHERE\n###   @1=3\n### SET\n###   @1=3\n\
                    ### INSERT INTO `torture`.`token`\n### SET\n###   @1=2000000017\n###   @2=2\n\
                    ### INSERT INTO `torture`.`account`\n### SET\n###   @1=5\n\
                    #700101  0:00:00 server id 1  end_log_pos 7221 \tXid = 9\nCOMMIT/*!*/;\n";
        assert_eq!(tokens_of_text(text), BTreeSet::from([2_000_000_017]));
    }

    #[test]
    fn a_group_without_its_end_was_not_committed() {
        let rows = |token| {
            format!(
                "START TRANSACTION\n/*!*/;\n### INSERT INTO `torture`.`token`\n### SET\n###   @1={token}\n"
            )
        };
        // As at a kill: cut off; the next file goes on with another transaction.
        let text = format!(
            "{}DELIMITER ;\n{}COMMIT/*!*/;\n{}ROLLBACK /* added by mysqlbinlog */;\n",
            rows(1),
            rows(2),
            rows(3)
        );
        assert_eq!(tokens_of_text(&text), BTreeSet::from([2]));
    }
}
