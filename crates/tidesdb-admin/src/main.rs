//! `tidesdb-admin`: see the library of this crate.

use std::io::{stderr, stdout, BufWriter, IsTerminal};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut out = BufWriter::new(stdout().lock());
    let status =
        tidesdb_admin::run(std::env::args_os().skip(1), &mut out, &mut stderr(), stderr().is_terminal());
    ExitCode::from(status)
}
