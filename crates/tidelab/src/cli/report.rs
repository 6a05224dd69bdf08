//! `tidelab report`: the page of kept runs, their figures for other programs, charts as files.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use tidelab_server::error::{io_error, Error, Result};

use crate::report::page::Kept;
use crate::report::svg::Chart;
use crate::report::{html, run_csv, run_table, svg};

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
    /// Write a chart as an SVG file of its own, of one run; NAME is throughput, p99 or a figure of the
    /// run. Several times.
    #[arg(long, value_name = "NAME=FILE.svg", value_parser = pair)]
    svg: Vec<(String, String)>,
    /// Combinations of the charts, and no others, as workload=insert. Several times.
    #[arg(long, value_name = "AXIS=VALUE", value_parser = pair, requires = "svg")]
    only: Vec<(String, String)>,
    /// Print the figures as a table.
    #[arg(long)]
    table: bool,
}

pub(super) fn pair(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.into(), value.into())),
        _ => Err("two words with = between them are needed".to_string()),
    }
}

/// Does it. Failed figures are no failure of the report.
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
    if !options.svg.is_empty() && runs.len() > 1 {
        return Err(Error::Usage("a chart is of one run".to_string()));
    }
    for (kept, (metric, file)) in runs.iter().flat_map(|kept| options.svg.iter().map(move |s| (kept, s))) {
        let chart = Chart { metric: metric.clone(), only: options.only.clone() };
        fs::write(file, svg::draw(kept, &chart)?).map_err(io_error("cannot write", file))?;
        println!("{file}");
    }
    if options.table {
        runs.iter().for_each(|kept| super::put(&run_table::render(kept)));
    }
    let out = options.out.clone().unwrap_or_else(|| match options.folders.as_slice() {
        [one] => one.join("report.html"),
        _ => PathBuf::from("report.html"),
    });
    html::write(&runs, &out)?;
    println!("{}", out.display());
    Ok(true)
}
