//! The program `tidelab`. Exit status: 0 when everything was measured and is right; 1 when a run or a
//! check failed or something was missing; 130 after an interrupt.

use std::process::ExitCode;

use clap::Parser;
use tidelab::cli::{run, Cli};
use tidelab_server::error::Error;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tidelab: {error}");
            match error {
                Error::Interrupted => ExitCode::from(130),
                _ => ExitCode::FAILURE,
            }
        }
    }
}
