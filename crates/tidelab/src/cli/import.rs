//! `tidelab import`: results of other programs as runs to show and compare.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use tidelab_server::error::{io_error, Error, Result};

use crate::import::names::Pattern;
use crate::import::{self, Kind};

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The format, unless the files show it (percona, sysbench, hammerdb, iibench); then files, folders
    /// or archives (.tar, .tar.gz, .tar.xz, .tar.zst).
    #[arg(value_name = "[KIND] PATH", required = true)]
    named: Vec<PathBuf>,
    /// The directory that gets the run.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// The pattern of the files' names, as '{engine}_{workload}_{threads}th_r{round}'. The first field is
    /// the competitor [default: guessed from the differences between the names].
    #[arg(long, value_name = "PATTERN")]
    names: Option<Pattern>,
    /// The title of the run.
    #[arg(long)]
    title: Option<String>,
}

impl Options {
    /// The format, if one is named first, and the paths. With a `/` in it, a path called like a format is a
    /// path.
    fn parts(&self) -> Result<(Option<Kind>, Vec<PathBuf>)> {
        let kind = self.named[0].to_str().and_then(|name| name.parse::<Kind>().ok());
        let paths = if kind.is_some() { self.named[1..].to_vec() } else { self.named.clone() };
        if paths.is_empty() {
            return Err(Error::Usage(format!("tidelab import {}: of which files?", self.named[0].display())));
        }
        if let Some(missing) = paths.iter().find(|p| !p.exists()) {
            let known = "percona, sysbench, hammerdb, iibench";
            let what = format!("{} is neither a file nor a format ({known})", missing.display());
            return Err(Error::Usage(what));
        }
        Ok((kind, paths))
    }
}

pub(super) fn run(options: &Options) -> Result<bool> {
    let (kind, paths) = options.parts()?;
    let mut imported = import::import(kind, &paths, options.names.as_ref())?;
    if let Some(title) = &options.title {
        imported.run.title = title.clone();
    }
    let failed = imported.cells.iter().filter(|c| !c.cell.counts()).count();
    let (cells, notes) = (imported.cells.len(), imported.run.notes.clone());
    let tables = imported.tables.clone();
    let folder = import::store(imported, &options.out)?;
    let mut stdout = std::io::stdout();
    // A reader that went away (`| head`) is no failure.
    let _ = stdout.write_all(tables.as_bytes()).and_then(|()| stdout.flush());
    for note in &notes {
        eprintln!("note: {note}");
    }
    let path = std::fs::canonicalize(&folder).map_err(io_error("cannot find", &folder))?;
    eprintln!("{cells} measurements, {failed} of them do not count. Written: {}", path.display());
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::super::Command;
    use super::*;

    fn options(words: &str) -> Options {
        match parse(words).unwrap().command {
            Some(Command::Import(options)) => options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_format_may_stand_before_the_paths() {
        let parts = |words: &str| options(words).parts();
        let here = env!("CARGO_MANIFEST_DIR");
        let (kind, paths) = parts(&format!("tidelab import percona {here}")).unwrap();
        assert_eq!((kind, paths), (Some(Kind::Percona), vec![PathBuf::from(here)]));
        assert_eq!(parts(&format!("tidelab import {here} {here}")).unwrap().0, None);
        let error = parts("tidelab import tpch x").unwrap_err().to_string();
        assert!(error.contains("tpch is neither a file nor a format"), "{error}");
        assert!(parts("tidelab import sysbench").unwrap_err().to_string().contains("of which files"));
        assert!(parse("tidelab import x --names {engine").is_err());
    }

    #[test]
    fn our_own_logs_are_imported_and_can_be_read() {
        let out = tempfile::tempdir().unwrap();
        let logs = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/import/sysbench");
        let asked = options(&format!("tidelab import {logs} --title Ours --out {}", out.path().display()));
        assert!(run(&asked).unwrap());
        let (read, cells) = crate::run::folder::read(&out.path().join("latest")).unwrap();
        assert_eq!((read.title.as_str(), cells.len()), ("Ours", 2));
    }
}
