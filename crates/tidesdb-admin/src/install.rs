//! Man pages and completions, made of the command line itself.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use crate::cli::{Cli, STATUSES};
use crate::output::{Failure, Out};
use crate::DONE;

/// Examples of a page, without its number. Paths are Debian's.
fn examples(page: &str) -> &'static [&'static str] {
    match page {
        "tidesdb-admin" => &[
            "tidesdb-admin advise --database shop",
            "sudo -u mysql tidesdb-admin verify /var/lib/mysql",
            "tidesdb-admin backup verify /backups/monday",
        ],
        "tidesdb-admin-verify" => &["sudo -u mysql tidesdb-admin verify /var/lib/mysql"],
        "tidesdb-admin-repair" => &["sudo -u mysql tidesdb-admin repair /var/lib/mysql --to /backups/copy"],
        "tidesdb-admin-stats" => &[
            "sudo -u mysql tidesdb-admin stats /var/lib/mysql",
            "sudo -u mysql tidesdb-admin stats --json '/var/lib/mysql/#tidesdb'",
        ],
        "tidesdb-admin-compact" => &["sudo -u mysql tidesdb-admin compact /var/lib/mysql shop/stock"],
        "tidesdb-admin-dump" | "tidesdb-admin-dump-wal" => {
            &["tidesdb-admin dump wal /var/lib/mysql --limit 100"]
        }
        "tidesdb-admin-dump-manifest" => &["tidesdb-admin dump manifest /var/lib/mysql --limit 10"],
        "tidesdb-admin-dump-table" => {
            &["tidesdb-admin dump table '/var/lib/mysql/#tidesdb/000012.sst' --no-entries"]
        }
        "tidesdb-admin-backup" | "tidesdb-admin-backup-verify" => {
            &["tidesdb-admin backup verify /backups/monday"]
        }
        "tidesdb-admin-backup-take" => &[
            "sudo tidesdb-admin backup take /backups/monday",
            "sudo tidesdb-admin backup take /backups/tuesday --base /backups/monday",
            "sudo tidesdb-admin backup take /backups/today --stream | zstd | ssh db2 'cat > today.tar.zst'",
        ],
        "tidesdb-admin-metrics" => {
            &["tidesdb-admin metrics --to /var/lib/prometheus/node-exporter/tidesdb.prom"]
        }
        "tidesdb-admin-backup-show" => &["tidesdb-admin backup show /backups/monday"],
        "tidesdb-admin-backup-restore" => &[
            "sudo -u mysql tidesdb-admin backup restore /backups/monday --data-dir /var/lib/mysql",
            "tidesdb-admin backup restore /backups/monday --table shop.stock --as shop.stock_monday",
        ],
        "tidesdb-admin-log" | "tidesdb-admin-log-give-up" => {
            &["sudo -u mysql tidesdb-admin log give-up /var/lib/mysql"]
        }
        "tidesdb-admin-advise" => &[
            "tidesdb-admin advise",
            "tidesdb-admin advise --database shop --sql > forth.sql",
            "tidesdb-admin advise --database shop --dump > move.sh",
        ],
        "tidesdb-admin-completions" => {
            &["tidesdb-admin completions bash > ~/.local/share/bash-completion/completions/tidesdb-admin"]
        }
        _ => &[],
    }
}

/// Files that the commands look for, each with what it is.
const FILES: [(&str, &str); 5] = [
    ("/var/lib/mysql/#tidesdb", "the store of Debian's server"),
    ("DATA/tidesdb_store", "in a data directory: names its store"),
    ("STORE/CURRENT", "in a store: names its manifest"),
    ("BACKUP/tidesdb_backup_info", "in a backup: its files, and positions in the binary log"),
    ("/run/mysqld/mysqld.sock", "the socket of Debian's server"),
];

/// Text for a page: minus signs that can be copied, nothing that begins a command.
fn troff(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('~', "\\(ti")
}

/// Sections after the options.
fn sections(page: &str, pages: &[String]) -> String {
    let mut text = format!("\n.SH EXIT STATUS\n{}\n", STATUSES.replace('\n', "\n.br\n"));
    let examples = examples(page);
    if !examples.is_empty() {
        text += ".SH EXAMPLES\n.nf\n";
        examples.iter().for_each(|example| text += &format!("{}\n", troff(example)));
        text += ".fi\n";
    }
    text += ".SH FILES\n";
    for (file, what) in FILES {
        text += &format!(".TP\n\\fI{}\\fR\n{}\n", troff(file), troff(what));
    }
    let mut others: Vec<String> = pages
        .iter()
        .filter_map(|other| other.strip_suffix(".1"))
        .filter(|other| *other != page && is_near(page, other))
        .map(|other| format!("\\fB{}\\fR(1)", troff(other)))
        .collect();
    others.sort();
    others.extend(["mariadb", "mariadb-dump"].map(|name| format!("\\fB{}\\fR(1)", troff(name))));
    others.push("\\fBmariadbd\\fR(8)".into());
    text + ".SH SEE ALSO\n" + &others.join(", ") + "\n"
}

/// Whether pages are of one command: one holds the other, or both lie in the same one.
fn is_near(page: &str, other: &str) -> bool {
    let above = |page: &str| page.rsplit_once('-').map_or(String::new(), |(above, _)| above.to_string());
    above(page) == above(other) || above(other) == page || above(page) == other || other == "tidesdb-admin"
}

/// Prints the completions for a shell.
pub fn completions(shell: Shell, out: &mut Out<'_>) -> Result<u8, Failure> {
    if out.is_json() {
        let what = "completions are a script for the shell, in no other form: leave out --json";
        return Err(Failure::Other(what.into()));
    }
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tidesdb-admin", &mut script);
    out.raw(&script)?;
    Ok(DONE)
}

/// Writes a man page for the program and for each of its commands.
pub fn man_pages(directory: &Path, out: &mut Out<'_>) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| {
        Failure::Other(format!("cannot write man pages into {}: {error}", directory.display()))
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    // The statuses have a section of their own, in every page.
    let program = Cli::command().after_help(None::<&str>);
    clap_mangen::generate_to(program.clone(), directory).map_err(failed)?;
    let pages = pages(&program, "");
    for page in &pages {
        let mut file = OpenOptions::new().append(true).open(directory.join(page)).map_err(failed)?;
        let name = page.strip_suffix(".1").unwrap_or(page);
        file.write_all(sections(name, &pages).as_bytes()).map_err(failed)?;
    }
    out.line(format_args!("man pages are in {}", directory.display()))?;
    out.document(&json!({ "directory": directory.to_string_lossy() }))?;
    Ok(DONE)
}

/// Names of the pages of a command and of those below it.
fn pages(command: &Command, before: &str) -> Vec<String> {
    let name = format!("{before}{}", command.get_name());
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    let mut names: Vec<String> = shown.flat_map(|below| pages(below, &format!("{name}-"))).collect();
    names.push(format!("{name}.1"));
    names
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn pages_have_examples_that_the_command_line_takes() {
        let mut with_examples = 0;
        let pages = pages(&Cli::command().after_help(None::<&str>), "");
        for page in &pages {
            let name = page.strip_suffix(".1").expect("a page");
            let examples = examples(name);
            if examples.is_empty() {
                continue;
            }
            with_examples += 1;
            for example in examples {
                let words: Vec<String> = example
                    .trim_start_matches("sudo ")
                    .trim_start_matches("-u mysql ")
                    .split(' ')
                    .take_while(|word| !matches!(*word, ">" | "|"))
                    .map(|word| word.replace('\'', ""))
                    .collect();
                assert!(Cli::try_parse_from(&words).is_ok(), "{example}");
            }
            let text = sections(name, &pages);
            for part in [".SH EXAMPLES\n", ".SH FILES\n", ".SH SEE ALSO\n", "mariadb\\fR(1)"] {
                assert!(text.contains(part), "{name}: {text}");
            }
        }
        assert!(with_examples >= 18, "{with_examples}");
    }
}
