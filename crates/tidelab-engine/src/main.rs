//! The program `tidelab-engine`. Exit status: 0 when all was measured and is right, 1 when something
//! failed, 130 after an interrupt.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use tidelab::experiment::engine::ROUND_COMMAND;
use tidelab_engine::cli::{run, Options};
use tidelab_engine::round::run_round;
use tidelab_server::error::Error;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let done = match words.as_slice() {
        // The call of an experiment for one engine and round; for no other caller.
        [_, command, order] if command == ROUND_COMMAND => run_round(Path::new(order)),
        _ => run(&Options::parse()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tidelab-engine: {error}");
            match error {
                Error::Interrupted => ExitCode::from(130),
                _ => ExitCode::FAILURE,
            }
        }
    }
}
