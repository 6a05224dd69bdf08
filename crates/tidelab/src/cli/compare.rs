//! `tidelab compare`: two kept runs, the worsened figures first.

use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;

use clap::Args;
use tidelab_server::error::{Error, Result};

use crate::report::compare::compare;
use crate::report::page::Kept;

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The run that was before.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The run that is held against it.
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Percent below which no change counts [default: 5]. A named threshold also judges figures with one
    /// round, whose noise is unknown.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    threshold: Option<f64>,
}

fn percent(text: &str) -> std::result::Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("{text} is no number"))?;
    if (0.0..=1000.0).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{text} is not between 0 and 1000"))
    }
}

/// Does it. False: something became worse, or fails.
pub(super) fn run(options: &Options) -> Result<bool> {
    let comparison = compare(&Kept::read(&options.a)?, &Kept::read(&options.b)?, options.threshold);
    if comparison.lines.is_empty() {
        return Err(Error::Usage("the two runs have no combination and figure in common".to_string()));
    }
    let mut stdout = std::io::stdout();
    let text = if options.json {
        serde_json::to_string_pretty(&comparison).map_err(|error| Error::Usage(error.to_string()))? + "\n"
    } else {
        comparison.text(stdout.is_terminal())
    };
    // A reader that went away (`| head`) does not change the answer.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    Ok(comparison.good())
}
