//! `tidesdb-admin`: work on stores and backups without a server: show, verify and restore a backup; verify a store, copy
//! what is left of a damaged one, give up a log that lost files.
//!
//! Exit status: 0 when it is done, 1 when it failed or a backup is not whole, 2 for a wrong command line, 3 when a store
//! is damaged or a repair left something out.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tidesdb::internal::backup::{repair, restore, verify, verify_store, BackupInfo, StoreCheck, Watch};
use tidesdb::internal::db::Db;
use tidesdb::internal::io::RealDisk;
use tidesdb::{Error, Result};

const USAGE: &str = "\
usage: tidesdb-admin verify STORE
       tidesdb-admin repair STORE --to NEWDIR
       tidesdb-admin backup show DIR
       tidesdb-admin backup verify DIR
       tidesdb-admin backup restore DIR --data-dir DATA [--store STORE]
       tidesdb-admin backup restore DIR --store STORE
       tidesdb-admin log give-up STORE

verify   (of a store) reads the whole store in the directory STORE, whose server is down, and lists what is damaged
repair   makes a store in NEWDIR of all that can be read of STORE, which it does not change; lists what it leaves out,
         and exits with 3 if that is anything
show     prints what a backup says of itself
verify   (of a backup) reads the whole backup and checks every checksum
restore  verifies, then makes a store of it and, with --data-dir, puts the definitions of its tables into a server's
         data directory, which exists. STORE is the directory of the store, by default the one that a server without
         tidesdb_data_home_dir uses: '#tidesdb' in DATA where that exists, else 'tidesdb_data' beside DATA
give-up  ends the log of a stopped server's store before its first missing file. Commits in the log after it are lost;
         later files are renamed. Without a missing file it changes nothing";

/// Exit status where a store is damaged, or a copy lacks something.
const LEFT_OUT: u8 = 3;

/// Name of a store's directory in a server's data directory, and next to one.
const INSIDE: &str = "#tidesdb";
const BESIDE: &str = "tidesdb_data";

#[derive(Debug, PartialEq, Eq)]
enum Command {
    VerifyStore(PathBuf),
    Repair { from: PathBuf, to: PathBuf },
    Show(PathBuf),
    Verify(PathBuf),
    Restore { from: PathBuf, store: Option<PathBuf>, data: Option<PathBuf> },
    GiveUpLog(PathBuf),
}

fn parse(words: &[String]) -> Option<Command> {
    let (what, rest) = match words {
        [room, what, rest @ ..] if room == "backup" => (what.as_str(), rest),
        [what, from] if what == "verify" => return Some(Command::VerifyStore(from.into())),
        [what, from, option, to] if what == "repair" && option == "--to" => {
            return Some(Command::Repair { from: from.into(), to: to.into() });
        }
        [room, what, store] if room == "log" && what == "give-up" && !store.starts_with("--") => {
            return Some(Command::GiveUpLog(store.into()));
        }
        _ => return None,
    };
    match (what, rest) {
        ("show", [from]) => Some(Command::Show(from.into())),
        ("verify", [from]) => Some(Command::Verify(from.into())),
        ("restore", [from, options @ ..]) if !options.is_empty() && !from.starts_with("--") => {
            let (mut store, mut data) = (None, None);
            for option in options.chunks(2) {
                match option {
                    [name, value] if name == "--store" => store = Some(value.into()),
                    [name, value] if name == "--data-dir" => data = Some(value.into()),
                    _ => return None,
                }
            }
            Some(Command::Restore { from: from.into(), store, data })
        }
        _ => None,
    }
}

/// Where a server on `data` without `tidesdb_data_home_dir` has its store.
fn store_of(data: &Path) -> Result<PathBuf> {
    let data = data.canonicalize().map_err(|e| Error::io("realpath", data, e))?;
    let inside = data.join(INSIDE);
    Ok(match (inside.is_dir(), data.parent()) {
        (false, Some(parent)) => parent.join(BESIDE),
        _ => inside,
    })
}

/// Date and time of a moment in seconds since 1970. Years are counted from 1 March of the year 0, in rounds of 400.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (round, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC", year + 400 * round)
}

fn describe(info: &BackupInfo) {
    println!("tables: {}", if info.links { "links" } else { "copies" });
    println!("sequence: {}", info.seq);
    println!("files: {}, {} bytes", info.files.len(), info.bytes());
    println!("begun: {}, finished: {}", utc(info.begun), utc(info.finished));
    for (name, value) in &info.notes {
        println!("{name}: {value}");
    }
}

/// Prints what was found, and how to go on.
fn tell(check: &StoreCheck, none: &str, some: &str) -> ExitCode {
    println!("tables: {}, {} bytes", check.tables, check.bytes);
    if check.damage.is_empty() {
        println!("{none}");
        return ExitCode::SUCCESS;
    }
    println!("{some}");
    check.damage.iter().for_each(|line| println!("  {line}"));
    ExitCode::from(LEFT_OUT)
}

fn run(command: Command) -> Result<ExitCode> {
    let disk = RealDisk::shared();
    match command {
        Command::VerifyStore(dir) => {
            let check = verify_store(&disk, &dir, Watch::NONE)?;
            let some = "damaged (`tidesdb-admin repair` copies the rest; a table can be dropped, or restored from a backup):";
            return Ok(tell(&check, "whole", some));
        }
        Command::Repair { from, to } => {
            let check = repair(&disk, &from, &to, Watch::NONE)?;
            println!("{}: copied into {}", from.display(), to.display());
            let some =
                "left out (rows in these places are missing, or as they were before their last changes):";
            return Ok(tell(&check, "nothing is left out", some));
        }
        Command::Show(from) => describe(&BackupInfo::read(&*disk, &from)?),
        Command::Verify(from) => {
            let info = verify(&disk, &from, Watch::NONE)?;
            println!("{}: whole", from.display());
            describe(&info);
        }
        Command::Restore { from, store, data } => {
            let store = match (store, &data) {
                (Some(store), _) => store,
                (None, Some(data)) => store_of(data)?,
                (None, None) => return Err(Error::InvalidArgument("neither --store nor --data-dir".into())),
            };
            let info = restore(&disk, &from, &store, data.as_deref(), Watch::NONE)?;
            println!("{}: restored into {}", from.display(), store.display());
            describe(&info);
        }
        Command::GiveUpLog(store) => {
            let lost = Db::give_up_log(disk, &store)?;
            for segment in &lost.missing {
                println!("missing: wal/{:06}.wal, segment {}", segment.file, segment.id);
            }
            for path in &lost.set_aside {
                println!("not read any more: {}", path.display());
            }
            match lost.kept_upto {
                Some(id) => println!("{}: the log ends with segment {id}", store.display()),
                None => println!("{}: nothing of the log is kept", store.display()),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(command) = parse(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tidesdb-admin: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_as_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_704_067_199, "2023-12-31 23:59:59 UTC"),
            (1_795_338_346, "2026-11-22 09:05:46 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), expected);
        }
    }

    #[test]
    fn command_lines_are_understood_or_refused_as_a_whole() {
        let words = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
        assert_eq!(parse(&words("verify /s")), Some(Command::VerifyStore("/s".into())));
        let copy = Command::Repair { from: "/s".into(), to: "/t".into() };
        assert_eq!(parse(&words("repair /s --to /t")), Some(copy));
        assert_eq!(parse(&words("backup verify /b")), Some(Command::Verify("/b".into())));
        assert_eq!(parse(&words("log give-up /s")), Some(Command::GiveUpLog("/s".into())));
        let both = parse(&words("backup restore /b --store /s --data-dir /d"));
        let expected =
            Command::Restore { from: "/b".into(), store: Some("/s".into()), data: Some("/d".into()) };
        assert_eq!(both, Some(expected));
        for line in [
            "backup",
            "verify",
            "verify /s /t",
            "repair /s",
            "repair /s --to",
            "repair /s /t",
            "backup verify",
            "backup verify /b /c",
            "backup restore /b",
            "backup restore /b --store",
            "backup restore /b --where /s",
            "backup restore --store /s",
        ] {
            assert_eq!(parse(&words(line)), None, "{line}");
        }
    }
}
