//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, Parser, Subcommand};
use clap_complete::Shell;
use tidesdb::internal::types::{Lsn, Seq};

use crate::connection::Address;
use crate::one_table::TableName;
use crate::output::Key;

/// Exit statuses, a line each, without characters read as commands in a man page.
pub const STATUSES: &str = "\
0 done; 1 damage found; 2 a wrong command line, a store, file or server that cannot be opened, or output that \
cannot be written.
Of verify and repair: 3 the store is damaged or the copy lacks something, 1 it cannot be done.
Of backup and log: 1 it failed, or the backup is not whole.";

/// Work on stores and backups of TidesDB without a server, and advice to a server about its tables
#[derive(Debug, Parser)]
#[command(name = "tidesdb-admin", version, after_help = format!("Exit status:\n{STATUSES}"), arg_required_else_help = true)]
pub struct Cli {
    /// Print JSON: one document, or of `dump` a line for each record
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read the whole store in the directory STORE, whose server is down, and list what is damaged
    Verify {
        /// The store's directory, or the data directory of its server
        store: PathBuf,
    },
    /// Make a store of all that can be read of STORE, which it does not change; list what it leaves out
    Repair {
        /// The damaged store's directory, or the data directory of its server
        store: PathBuf,
        /// The new store's directory, empty or not there yet
        #[arg(long, value_name = "NEWDIR")]
        to: PathBuf,
    },
    /// Figures of a store that no server holds: files, entries, tombstones, key ranges and ages by family and level
    Stats {
        /// The store's directory, or the data directory of its server
        store: PathBuf,
    },
    /// Merge all runs of a family, or of every family, into its last level; the server is down
    Compact {
        /// The store's directory, or the data directory of its server
        store: PathBuf,
        /// A server's table as DATABASE/TABLE, or a family's name as `stats --json` has it; all families if left out
        family: Option<String>,
    },
    /// Show a file of a store record by record
    #[command(subcommand)]
    Dump(Dump),
    /// Take, show, verify and restore backups
    #[command(subcommand)]
    Backup(Backup),
    /// Work on a store's log
    #[command(subcommand)]
    Log(Log),
    /// List for each table of a running server whether it can become TidesDB, and print the statements
    Advise(Advise),
    /// Print a running server's figures for Prometheus, under the names that mysqld_exporter gives them; the user needs the
    /// PROCESS privilege
    Metrics(Metrics),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write man pages into a directory
    #[command(hide = true)]
    Man {
        /// The directory, which is made where it is missing
        directory: PathBuf,
    },
}

impl Command {
    /// True if the command only prints. Others go on when the reader of their output goes away.
    pub fn only_prints(&self) -> bool {
        matches!(
            self,
            Command::Stats { .. }
                | Command::Dump(_)
                | Command::Advise(_)
                | Command::Metrics(_)
                | Command::Completions { .. }
        )
    }

    /// True for the oldest commands: status 1 is a failure, 3 is damage.
    pub fn has_older_statuses(&self) -> bool {
        matches!(self, Command::Verify { .. } | Command::Repair { .. } | Command::Backup(_) | Command::Log(_))
    }
}

#[derive(Debug, Subcommand)]
pub enum Backup {
    /// Print what a backup says of itself
    Show {
        /// The backup's directory
        dir: PathBuf,
    },
    /// Read the whole backup and check every checksum
    Verify {
        /// The backup's directory
        dir: PathBuf,
    },
    /// Take a backup of a running server of this machine, all engines at one moment: TidesDB's tables, and the rest by
    /// mariadb-backup or as a dump
    Take(Box<Take>),
    /// Verify a backup, then make a store of it and put the definitions of its tables into a data directory. With --table
    /// load one table of it into the server that runs
    #[command(group = ArgGroup::new("place").required(true).multiple(true))]
    Restore {
        /// The backup's directory
        dir: PathBuf,
        /// The store's directory; by default where DATA says that its server has it, and in a new DATA where a server
        /// without `tidesdb_data_home_dir` makes it: '#tidesdb' in DATA where that exists, else 'tidesdb_data' next to DATA
        #[arg(long, group = "place")]
        store: Option<PathBuf>,
        /// Data directory of a server that is down
        #[arg(long = "data-dir", value_name = "DATA", group = "place")]
        data_dir: Option<PathBuf>,
        #[command(flatten)]
        one: Box<OneTable>,
    },
}

/// A running server of this machine.
#[derive(Args, Debug)]
pub struct Login {
    /// The server's socket; by default that of Debian's server
    #[arg(long, value_name = "FILE", requires = "table", conflicts_with_all = ["store", "data_dir"])]
    pub socket: Option<PathBuf>,
    /// The user there
    #[arg(long, value_name = "NAME", default_value = "root", requires = "table", conflicts_with_all = ["store", "data_dir"])]
    pub user: String,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE", requires = "table", conflicts_with_all = ["store", "data_dir"])]
    pub password_file: Option<PathBuf>,
}

impl Login {
    /// The server's address.
    pub fn address(&self) -> Address<'_> {
        Address {
            socket: self.socket.as_deref(),
            host: None,
            port: 0,
            user: &self.user,
            password_file: self.password_file.as_deref(),
        }
    }
}

/// How other engines' tables are backed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Rest {
    /// As files, prepared
    MariadbBackup,
    /// As SQL
    MariadbDump,
    /// Not at all
    Nothing,
}

/// A backup of a server that runs.
#[derive(Args, Debug)]
pub struct Take {
    /// The backup's directory, an absolute path, which is made
    pub dir: PathBuf,
    /// How the other engines' tables are backed up; by default mariadb-backup where the server has it, else mariadb-dump
    #[arg(long, value_name = "PROGRAM")]
    pub with: Option<Rest>,
    /// An earlier backup of this server, on the same file system: equal files of TidesDB become hard links to its files
    #[arg(long, value_name = "DIR")]
    pub base: Option<PathBuf>,
    /// TidesDB's files become hard links to those of the store, on whose file system DIR lies; they take no space of their own
    #[arg(long, conflicts_with = "base")]
    pub links: bool,
    /// Write the backup to standard output as a tar archive, and remove DIR
    #[arg(long)]
    pub stream: bool,
    /// Megabytes of TidesDB's files that are copied in a second at most
    #[arg(long, value_name = "MEGABYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: Option<u64>,
    /// Go on without damaged tables of TidesDB, and name them
    #[arg(long)]
    pub leave_out_damaged: bool,
    #[command(flatten)]
    pub login: Account,
}

/// A running server of this machine.
#[derive(Args, Debug)]
pub struct Account {
    /// The server's socket; by default that of Debian's server
    #[arg(long, value_name = "FILE")]
    pub socket: Option<PathBuf>,
    /// The user there, with SUPER, FILE, RELOAD, PROCESS and SELECT
    #[arg(long, value_name = "NAME", default_value = "root")]
    pub user: String,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

impl Account {
    /// The server's address.
    pub fn address(&self) -> Address<'_> {
        Address {
            socket: self.socket.as_deref(),
            host: None,
            port: 0,
            user: &self.user,
            password_file: self.password_file.as_deref(),
        }
    }
}

/// One table for a server that runs.
#[derive(Args, Debug)]
pub struct OneTable {
    /// Restore this table alone, into the running server of this machine. A table of its name is not written over
    #[arg(long, value_name = "DATABASE.TABLE", group = "place", conflicts_with_all = ["store", "data_dir"])]
    pub table: Option<TableName>,
    /// Its name there; without foreign keys and triggers then, whose names are taken
    #[arg(long = "as", value_name = "DATABASE.TABLE", requires = "table", conflicts_with_all = ["store", "data_dir"])]
    pub new_name: Option<TableName>,
    #[command(flatten)]
    pub login: Login,
    /// A directory for a private server's files, on the backup's file system; by default the one around the backup
    #[arg(long, value_name = "DIR", requires = "table", conflicts_with_all = ["store", "data_dir"])]
    pub scratch: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Log {
    /// End the log of a stopped server's store before its first missing file. Commits in the log after it are lost;
    /// later files are renamed. Without a missing file it changes nothing
    GiveUp {
        /// The store's directory, or the data directory of its server
        store: PathBuf,
    },
}

/// Options of every dump.
#[derive(Args, Debug)]
pub struct Shown {
    /// Most records
    #[arg(long, value_name = "NUMBER")]
    pub limit: Option<u64>,
    /// Show keys and values in hexadecimal digits always
    #[arg(long)]
    pub hex: bool,
    /// Most bytes of a key or value in text; 0: all
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    pub width: usize,
}

/// The beginning of a dump of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStart {
    /// With the first record of at least this sequence number.
    Sequence(Seq),
    /// With the first record at or after this position.
    Position(Lsn),
}

impl FromStr for LogStart {
    type Err = String;

    fn from_str(text: &str) -> Result<LogStart, String> {
        let parsed = match text.split_once(':') {
            Some((segment, offset)) => {
                let lsn = segment.parse().ok().zip(offset.parse().ok());
                lsn.map(|(segment, offset)| LogStart::Position(Lsn::new(segment, offset)))
            }
            None => text.parse().ok().map(LogStart::Sequence),
        };
        parsed.ok_or_else(|| format!("{text} is neither a sequence number nor SEGMENT:OFFSET"))
    }
}

#[derive(Debug, Subcommand)]
pub enum Dump {
    /// The edits of a manifest: a store's, or the file MANIFEST-...
    Manifest {
        /// A store, the data directory of its server, or a manifest
        path: PathBuf,
        /// Number of the first edit
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        from: u64,
        #[command(flatten)]
        shown: Shown,
    },
    /// The records of the write-ahead log: of a store those that recovery reads, of a file wal/... all of it
    Wal {
        /// A store, the data directory of its server, or a file of its log
        path: PathBuf,
        /// First sequence number, or first position as SEGMENT:OFFSET
        #[arg(long, value_name = "SEQUENCE|POSITION")]
        from: Option<LogStart>,
        #[command(flatten)]
        shown: Shown,
    },
    /// The tables in a file ...sst: footer, properties, index, and entries in order
    Table {
        /// A table's file
        file: PathBuf,
        /// First key: text, or 0x and hexadecimal digits
        #[arg(long, value_name = "KEY")]
        from: Option<Key>,
        /// Key after the last one
        #[arg(long, value_name = "KEY")]
        to: Option<Key>,
        /// Leave out the entries
        #[arg(long)]
        no_entries: bool,
        /// Leave out the index
        #[arg(long)]
        no_index: bool,
        #[command(flatten)]
        shown: Shown,
    },
}

/// A running server of this machine or of another one.
#[derive(Args, Debug)]
pub struct AnyServer {
    /// The server's socket; by default that of Debian's server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["host", "port"])]
    pub socket: Option<PathBuf>,
    /// The server's host, for TCP
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Its port
    #[arg(long, value_name = "NUMBER", default_value_t = 3306, requires = "host")]
    pub port: u16,
    /// The user there
    #[arg(long, value_name = "NAME", default_value = "root")]
    pub user: String,
    /// A file whose first line is the password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

impl AnyServer {
    /// Where it goes.
    pub fn address(&self) -> Address<'_> {
        Address {
            socket: self.socket.as_deref(),
            host: self.host.as_deref(),
            port: self.port,
            user: &self.user,
            password_file: self.password_file.as_deref(),
        }
    }
}

#[derive(Args, Debug)]
pub struct Advise {
    #[command(flatten)]
    pub server: AnyServer,
    /// Only tables of this database; may be given again
    #[arg(long, value_name = "NAME")]
    pub database: Vec<String>,
    /// Print the statements alone, ready for a client; with `back` those that undo them
    #[arg(long, value_name = "forth|back", num_args = 0..=1, default_missing_value = "forth", require_equals = true)]
    pub sql: Option<Direction>,
    /// Print a script that writes a dump in which the tables have the other engine
    #[arg(long, conflicts_with = "sql")]
    pub dump: bool,
    /// Print every table with its size, what each takes, and all statements
    #[arg(long, conflicts_with_all = ["sql", "dump"])]
    pub full: bool,
    /// Megabytes that the server copies in a second, for the time in the report
    #[arg(long, value_name = "MEGABYTES", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: u64,
}

#[derive(Args, Debug)]
pub struct Metrics {
    #[command(flatten)]
    pub server: AnyServer,
    /// Write them to FILE, which is replaced as a whole: a .prom file of node_exporter
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// Which statements `advise --sql` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Direction {
    Forth,
    Back,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(format!("tidesdb-admin {line}").split(' ')).map(|cli| cli.command)
    }

    #[test]
    fn the_commands_agree_with_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn command_lines_are_understood_or_refused_as_a_whole() {
        assert!(matches!(parse("verify /s"), Ok(Command::Verify { store }) if store == Path::new("/s")));
        assert!(
            matches!(parse("repair /s --to /t"), Ok(Command::Repair { to, .. }) if to == Path::new("/t"))
        );
        assert!(matches!(parse("backup show /b"), Ok(Command::Backup(Backup::Show { .. }))));
        assert!(matches!(parse("backup verify /b"), Ok(Command::Backup(Backup::Verify { .. }))));
        assert!(matches!(parse("log give-up /s"), Ok(Command::Log(Log::GiveUp { .. }))));
        let Ok(Command::Backup(Backup::Restore { dir, store, data_dir, .. })) =
            parse("backup restore /b --store /s --data-dir /d")
        else {
            panic!("restore is understood")
        };
        assert_eq!((dir, store, data_dir), ("/b".into(), Some("/s".into()), Some("/d".into())));
        let Ok(Command::Backup(Backup::Take(take))) =
            parse("backup take /b --with mariadb-dump --rate 5 --base /a")
        else {
            panic!("take is understood")
        };
        assert_eq!((take.with, take.rate, take.base), (Some(Rest::MariadbDump), Some(5), Some("/a".into())));
        assert!(parse("backup take /b --rate 0").is_err());
        assert!(parse("backup take /b --links --stream").is_ok());
        assert!(parse("backup take /b --links --base /a").is_err());
        assert!(parse("backup restore /b --data-dir /d").is_ok());
        assert!(parse("backup restore /b --table a.t --as a.u --socket /s --scratch /x").is_ok());
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
            "backup restore /b --table t",
            "backup restore /b --table a.t --data-dir /d",
            "backup restore /b --store /s --as a.t",
            "backup restore /b --store /s --socket /x",
            "backup restore /b --data-dir /s --user u",
            "log give-up --store",
            "dump",
            "dump wal",
            "dump wal /s --from x",
            "dump table /s --from 0xabc",
            "compact /s a b",
            "advise --socket /s --host h",
            "advise --port 3307",
            "advise --host h --port 70000",
            "advise --rate 0",
            "advise --sql=sideways",
        ] {
            let error = parse(line).expect_err(line);
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
