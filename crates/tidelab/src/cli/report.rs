//! `tidelab report`: the page of kept runs, and their figures for other programs.

use std::path::PathBuf;

use clap::Args;

use crate::error::Result;
use crate::report::page::Kept;
use crate::report::{html, run_csv};

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// Folders of runs; several make one page with a choice of the run.
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<PathBuf>,
    /// The page [default: report.html in the folder; of several, in the current directory].
    #[arg(long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// Write summary.csv, cells.csv and seconds.csv into each folder too.
    #[arg(long)]
    csv: bool,
    /// Write summary.json into each folder too.
    #[arg(long)]
    json: bool,
}

/// Does it. Figures that failed are no failure of the report.
pub(super) fn run(options: &Options) -> Result<bool> {
    let runs: Vec<Kept> = options.folders.iter().map(|path| Kept::read(path)).collect::<Result<_>>()?;
    for kept in &runs {
        if options.csv {
            for path in run_csv::write_csv(kept)? {
                println!("{}", path.display());
            }
        }
        if options.json {
            println!("{}", run_csv::write_json(kept)?.display());
        }
    }
    let out = options.out.clone().unwrap_or_else(|| match options.folders.as_slice() {
        [one] => one.join("report.html"),
        _ => PathBuf::from("report.html"),
    });
    html::write(&runs, &out)?;
    println!("{}", out.display());
    Ok(true)
}
