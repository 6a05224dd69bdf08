//! `tidelab publish`: a kept run as a small folder for a repository.

use std::path::PathBuf;

use clap::Args;
use tidelab_server::error::Result;

use super::report::pair;
use crate::report::page::Kept;
use crate::report::publish::publish;

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The run's folder.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Its name there.
    #[arg(value_name = "NAME")]
    name: String,
    /// The directory of published runs.
    #[arg(long, value_name = "DIR", default_value = "docs/results")]
    out: PathBuf,
    /// Combinations of the charts, and no others, as workload=insert. Several times.
    #[arg(long, value_name = "AXIS=VALUE", value_parser = pair)]
    only: Vec<(String, String)>,
}

/// Does it. False: figures failed; the published table shows them.
pub(super) fn run(options: &Options) -> Result<bool> {
    let kept = Kept::read(&options.folder)?;
    let done = publish(&kept, &options.out, &options.name, &options.only)?;
    for file in &done.files {
        println!("{}", file.display());
    }
    for note in &done.notes {
        eprintln!("{note}");
    }
    Ok(kept.cells.iter().all(|cell| cell.counts()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::super::Command;

    #[test]
    fn the_call_of_the_makefile_is_understood() {
        let words = "tidelab publish build/runs/latest tpcc --only threads=8";
        let Some(Command::Publish(options)) = parse(words).unwrap().command else { panic!("{words}") };
        assert_eq!((options.name.as_str(), options.out.to_str()), ("tpcc", Some("docs/results")));
        assert_eq!(options.only, [("threads".to_string(), "8".to_string())]);
        assert!(parse("tidelab publish build/runs/latest tpcc --only threads").is_err());
    }
}
