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
    let section = format!("\n.SH EXIT STATUS\n{}\n", STATUSES.replace('\n', "\n.br\n"));
    for page in pages(&program, "") {
        let mut file = OpenOptions::new().append(true).open(directory.join(page)).map_err(failed)?;
        file.write_all(section.as_bytes()).map_err(failed)?;
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
