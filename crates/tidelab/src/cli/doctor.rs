//! `tidelab doctor`: missing prerequisites of the machine, and a check of the driver as the bottleneck.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;

use super::Places;
use crate::doctor::ceiling::{Ceilings, FILE};
use crate::doctor::driver::{self, Effort, Loads};
use crate::doctor::{self, Finding};

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    #[command(flatten)]
    pub(super) places: Places,
    /// Only look; start no server and measure nothing. So it is without --prefix.
    #[arg(long)]
    quick: bool,
    /// Clients that drive the server at once.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: u32,
    /// Measured seconds of each of its 18 loads.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// The directory that gets ceiling.json; tables of results in that directory show it.
    #[arg(long, value_name = "DIR", default_value = "build/results")]
    out: PathBuf,
    /// Print JSON: the findings, and the ceilings as in the file.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Diagnosis {
    findings: Vec<Finding>,
    ceilings: Option<Ceilings>,
}

pub(super) fn run(options: &Options) -> Result<bool> {
    let places = &options.places;
    let findings = doctor::examine(places.prefix.as_deref(), &places.plugin, &places.data);
    let whole = !findings.iter().any(|f| f.lacking);
    if !options.json {
        for finding in &findings {
            println!("{} {}", if finding.lacking { "LACKING" } else { "ok     " }, finding.text);
        }
    }
    let ceilings = match &places.prefix {
        Some(prefix) if !options.quick && doctor::can_measure(prefix) => {
            let interrupt = Interrupt::on_signals()?;
            let effort = Effort { threads: options.threads, seconds: options.seconds };
            let measured =
                driver::measure(prefix, &places.data, effort, &Loads::all(), &interrupt, |next| {
                    eprintln!("tidelab doctor: {next}");
                })?;
            measured.store(&options.out)?;
            eprintln!("Written: {}", options.out.join(FILE).display());
            Some(measured)
        }
        _ => None,
    };
    if options.json {
        let diagnosis = Diagnosis { findings, ceilings };
        let text = serde_json::to_string_pretty(&diagnosis)
            .map_err(|error| Error::Usage(format!("the findings as JSON: {error}")))?;
        println!("{text}");
    } else if let Some(ceilings) = &ceilings {
        print!("\n{}", ceilings.render());
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::super::Command;

    #[test]
    fn options_of_the_measurement_are_understood() {
        let words = "tidelab doctor --prefix /p --threads 3 --seconds 5 --out /r --json";
        let Some(Command::Doctor(options)) = parse(words).unwrap().command else { panic!("{words}") };
        assert_eq!((options.threads, options.seconds, options.json, options.quick), (3, 5, true, false));
        assert_eq!(options.out, std::path::Path::new("/r"));
        assert!(parse("tidelab doctor --seconds 0").is_err());
    }
}
