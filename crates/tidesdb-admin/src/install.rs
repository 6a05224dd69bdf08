//! Man pages and completions, made of the command line itself.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::json;

use crate::cli::Cli;
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
    clap_mangen::generate_to(Cli::command(), directory).map_err(failed)?;
    out.line(format_args!("man pages are in {}", directory.display()))?;
    out.document(&json!({ "directory": directory.to_string_lossy() }))?;
    Ok(DONE)
}
