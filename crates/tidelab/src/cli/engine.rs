//! `tidelab engine`: the bare engine alongside RocksDB and LMDB. A program of its own does it, so this one
//! links none of them.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use tidelab_server::error::{io_error, Error, Result};

/// The program, built into the folder of this one.
const PROGRAM: &str = "tidelab-engine";

#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// Options of tidelab-engine; --help lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    words: Vec<OsString>,
}

/// Becomes the program; comes back only with an error.
pub(super) fn run(options: &Options) -> Result<bool> {
    let this = std::env::current_exe().map_err(io_error("cannot find", "this program"))?;
    let program = sibling(&this)?;
    let error = Command::new(&program).args(&options.words).exec();
    Err(io_error("cannot start", program)(error))
}

fn sibling(this: &Path) -> Result<PathBuf> {
    let program = this.with_file_name(PROGRAM);
    if program.exists() {
        return Ok(program);
    }
    Err(Error::Missing {
        what: program.display().to_string(),
        remedy: "make bench-engine builds it with RocksDB, and runs it".to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::super::Command;
    use super::*;

    #[test]
    fn options_are_those_of_the_program() {
        match parse("tidelab engine --rows 1000 --help -x").unwrap().command {
            Some(Command::Engine(options)) => assert_eq!(options.words, ["--rows", "1000", "--help", "-x"]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_is_looked_for_beside_this_program() {
        let folder = tempfile::tempdir().unwrap();
        let this = folder.path().join("tidelab");
        let missing = sibling(&this).unwrap_err().to_string();
        assert!(missing.contains("tidelab-engine") && missing.contains("make bench-engine"), "{missing}");
        std::fs::write(folder.path().join(PROGRAM), "").unwrap();
        assert_eq!(sibling(&this).unwrap(), folder.path().join(PROGRAM));
    }
}
