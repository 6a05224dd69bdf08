//! The program `tidesdb-admin`: stores and backups without a server, and advice to a server about its tables
//! (`docs/manual/tidesdb-admin.md`).
//!
//! - `cli`: the command line
//! - `output`: text and JSON, bytes in words, failures
//! - `home`: where a server has its store
//! - `stores`, `backups`: whether a store or a backup is whole, repair, restore
//! - `stats`, `compact`, `dump`: a store's figures, merging, its files record by record
//! - `connection`: to a running server
//! - `take`, `rest`: a backup of all engines of a running server
//! - `one_table`: one table of a backup, into a running server
//! - `programs`: those of the running server
//! - `advise`: a server's tables fit for TidesDB
//! - `metrics`: a server's figures for Prometheus
//! - `install`: man pages and completions

mod advise;
mod backups;
mod cli;
mod compact;
mod connection;
mod dump;
mod home;
mod install;
mod metrics;
mod moment;
mod names;
mod one_table;
mod output;
mod programs;
mod rest;
mod stats;
mod store_backup;
mod stores;
mod take;

use std::ffi::OsString;
use std::io::Write;

use clap::Parser;
use tidesdb::internal::io::RealDisk;
use tidesdb::Error;

use cli::{Cli, Command};
use home::store_at;
use output::{Failure, Out};

/// Done; nothing is damaged.
pub const DONE: u8 = 0;
/// Damage was found. Of `verify`, `repair`, `backup` and `log`: the command failed.
pub const DAMAGED: u8 = 1;
/// A wrong command line; an unreadable store or file, or a server out of reach; unwritable output.
pub const REFUSED: u8 = 2;
/// Of `verify` and `repair`: the store is damaged, or the copy lacks something.
pub const LEFT_OUT: u8 = 3;

/// Runs the program with the words of its command line, its name left out. On a terminal `err` gets lines of progress.
/// Returns the exit status.
pub fn run(
    words: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
    on_terminal: bool,
) -> u8 {
    let words = std::iter::once(OsString::from("tidesdb-admin")).chain(words);
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            let is_refused = error.use_stderr();
            // To a reader that went away nothing is said.
            let _ = match is_refused {
                true => write!(err, "{}", error.render()),
                false => write!(out, "{}", error.render()),
            };
            return if is_refused { REFUSED } else { DONE };
        }
    };
    let older = cli.command.has_older_statuses();
    let mut out = Out::new(out, cli.json, cli.command.only_prints());
    let executed = execute(cli.command, &mut out, err, on_terminal);
    // A full disk shows here at the latest. A reader that went away changes no status.
    let flushed = match out.flush() {
        Ok(()) | Err(Failure::ReaderGone) => Ok(()),
        failed => failed,
    };
    match executed.and_then(|status| flushed.map(|()| status)) {
        Ok(status) => status,
        Err(Failure::ReaderGone) => DONE,
        Err(failure) => {
            let _ = writeln!(err, "tidesdb-admin: {failure}");
            match failure {
                _ if older => DAMAGED,
                Failure::Engine(Error::Corruption { .. }) => DAMAGED,
                _ => REFUSED,
            }
        }
    }
}

fn execute(
    command: Command,
    out: &mut Out<'_>,
    err: &mut dyn Write,
    on_terminal: bool,
) -> Result<u8, Failure> {
    let disk = RealDisk::shared();
    match command {
        Command::Verify { store } => stores::verify(&disk, &store_at(store), out),
        Command::Repair { store, to } => stores::repair(&disk, &store_at(store), &to, out),
        Command::Log(cli::Log::GiveUp { store }) => stores::give_up_log(disk, &store_at(store), out),
        Command::Backup(cli::Backup::Take(wanted)) => take::run(&wanted, out, on_terminal.then_some(err)),
        Command::Backup(command) => backups::run(&disk, command, out),
        Command::Stats { store } => stats::run(&disk, &store_at(store), out),
        Command::Compact { store, family } => {
            let progress = on_terminal.then_some(err);
            compact::run(&store_at(store), family.as_deref(), out, progress)
        }
        Command::Dump(command) => dump::run(&disk, command, out, err),
        Command::Advise(options) => advise::run(&options, out),
        Command::Metrics(options) => metrics::run(&options, out),
        Command::Completions { shell } => install::completions(shell, out),
        Command::Man { directory } => install::man_pages(&directory, out),
    }
}
