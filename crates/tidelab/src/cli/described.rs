//! `tidelab run`: its options.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use tidelab_server::error::{io_error, Error, Result};
use tidelab_server::interrupt::Interrupt;

use super::Installed;
use crate::experiment::{self, Described, Size};
use crate::report::page::Kept;
use crate::report::run_table;
use crate::run::folder;
use crate::run::Paths;

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The experiments' files.
    #[arg(value_name = "FILE", required_unless_present_any = ["all_small"], value_parser = super::absolute)]
    files: Vec<PathBuf>,
    /// All files of the folder `experiments`, small; those that are whole already are left out.
    #[arg(long, conflicts_with_all = ["files", "resume"])]
    all_small: bool,
    /// The size: the published one, or the one for two cores and 24 GiB.
    #[arg(long, value_enum, default_value = "full", conflicts_with = "all_small")]
    size: Size,
    /// Go on with the last run of each file at that size, where one was begun and is not whole.
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    installed: Installed,
    /// The directory of the servers; emptied at each start.
    #[arg(long, value_name = "DIR", default_value = "build/experiments", value_parser = super::absolute)]
    data: PathBuf,
    /// The directory that gets the folders of runs.
    #[arg(long, value_name = "DIR", default_value = "build/runs", value_parser = super::absolute)]
    out: PathBuf,
    /// The folder of the files that --all-small runs.
    #[arg(long, value_name = "DIR", default_value = "experiments", value_parser = super::absolute)]
    experiments: PathBuf,
}

pub(super) fn run(options: &Options) -> Result<bool> {
    let files = if options.all_small { files_of(&options.experiments)? } else { options.files.clone() };
    let size = if options.all_small { Size::Small } else { options.size };
    // All are read before the first is made: a mistake in the last shows at once.
    let described: Vec<(PathBuf, Described)> =
        files.into_iter().map(|file| Ok((file.clone(), experiment::read(&file)?))).collect::<Result<_>>()?;
    let interrupt = Interrupt::on_signals()?;
    let mut good = true;
    let mut told = Vec::new();
    for (file, described) in &described {
        let file_folder = file.parent().unwrap_or(Path::new("/"));
        let data = options.data.join(&described.name);
        let paths = Paths {
            prefix: &options.installed.prefix,
            plugin: &options.installed.plugin,
            data: &data,
            file_folder,
            interrupt: &interrupt,
        };
        let begun = match options.resume || options.all_small {
            true => last_run(&options.out, &format!("{}-{}", described.name, size.name()))?,
            false => None,
        };
        let resume = match &begun {
            Some((path, true)) if options.all_small => {
                eprintln!("{} is there: {}", described.name, path.display());
                continue;
            }
            Some((path, false)) => Some(path.as_path()),
            _ => None,
        };
        let made = experiment::carry_out(described, size, paths, &options.out, resume);
        match made {
            Ok((path, whole)) => {
                good &= whole;
                let text = run_table::render(&Kept::read(&path)?);
                let file = path.join("summary.txt");
                fs::write(&file, &text).map_err(io_error("cannot write", &file))?;
                super::put(&format!("\n{text}\n"));
                told.push(format!("{} {}", if whole { "ok    " } else { "FAILED" }, path.display()));
            }
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // The next one has a server of its own.
            Err(error) if described_are_many(&options.files, options.all_small) => {
                good = false;
                told.push(format!("FAILED {}: {error}", described.name));
            }
            Err(error) => return Err(error),
        }
    }
    for line in told {
        println!("{line}");
    }
    Ok(good)
}

fn described_are_many(files: &[PathBuf], all: bool) -> bool {
    all || files.len() > 1
}

/// The experiments of a folder, by name.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(io_error("cannot read", folder))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    Ok(files)
}

/// The last run of a name, and whether it is whole.
fn last_run(parent: &Path, name: &str) -> Result<Option<(PathBuf, bool)>> {
    let Ok(entries) = fs::read_dir(parent) else { return Ok(None) };
    let mut of_name: Vec<PathBuf> = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| !p.is_symlink() && p.join("run.json").exists())
        .filter(|p| {
            let file = p.file_name().unwrap_or_default().to_string_lossy().into_owned();
            file.strip_prefix(name).is_some_and(|rest| rest.starts_with("-2"))
        })
        .collect();
    of_name.sort();
    of_name
        .pop()
        .map(|path| {
            let whole = folder::read(&path)?.0.ended_unix_s.is_some();
            Ok((path, whole))
        })
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::super::Command;
    use super::*;
    use crate::run::{Folder, Run};

    #[test]
    fn a_file_or_all_must_be_named() {
        assert!(parse("tidelab run --prefix /p").is_err());
        assert!(parse("tidelab run x.toml --all-small --prefix /p").is_err());
        let Some(Command::Run(options)) =
            parse("tidelab run x.toml --size small --prefix /p").unwrap().command
        else {
            panic!()
        };
        assert_eq!((options.size, options.files.len()), (Size::Small, 1));
    }

    #[test]
    fn the_last_run_of_a_name_is_found() {
        let parent = tempfile::tempdir().unwrap();
        assert_eq!(last_run(&parent.path().join("none"), "t").unwrap(), None);
        let mut run = Run::new("t-small", "", "tpcc");
        run.started_unix_s = 1_795_311_909;
        drop(Folder::create(parent.path(), &run).unwrap());
        run.started_unix_s += 100;
        let folder = Folder::create(parent.path(), &run).unwrap();
        let newest = folder.path().to_path_buf();
        let other = Run::new("t-small-too", "", "tpcc");
        drop(Folder::create(parent.path(), &other).unwrap());
        assert_eq!(last_run(parent.path(), "t-small").unwrap(), Some((newest.clone(), false)));
        run.ended_unix_s = Some(1);
        folder.write_head(&run).unwrap();
        assert_eq!(last_run(parent.path(), "t-small").unwrap(), Some((newest, true)));
    }
}
