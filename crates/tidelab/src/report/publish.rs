//! The published form of a kept run: a folder small enough for a repository.
//!
//! The folder has the figures as text and CSV, the charts, and the run itself as an archive for `tidelab
//! report`. The same run gives the same bytes.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tidelab_server::error::{io_error, Error, Result};

use super::page::Kept;
use super::svg::{self, Chart};
use super::{curve, run_csv, run_table};

/// The archive's name.
pub const ARCHIVE: &str = "run.tar.xz";
/// Bytes of an archive at most.
pub const LIMIT: usize = 300 << 10;
/// Files of a run's folder derived from the rest.
const DERIVED: [&str; 6] =
    ["report.html", "summary.csv", "cells.csv", "seconds.csv", "summary.json", "summary.txt"];
/// Files of cells to leave out of an archive while it is too large, one group after the other.
const DISPENSABLE: [&[&str]; 4] = [
    &["status-before.tsv", "status-after.tsv", "status.tsv", "variables.tsv"],
    &["engine-status.txt", "engine-status.tsv", "sysbench.txt"],
    &["telemetry.csv"],
    &["seconds.csv", "progress.csv"],
];

/// The result of publishing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// The files.
    pub files: Vec<PathBuf>,
    /// Missing parts with their reasons, a sentence each.
    pub notes: Vec<String>,
}

/// Publishes a run as `out/name`, in place of an older one. `only` picks combinations of the charts. Errors:
/// an incomplete run, one too large, those of files.
pub fn publish(kept: &Kept, out: &Path, name: &str, only: &[(String, String)]) -> Result<Published> {
    if kept.run.ended_unix_s.is_none() {
        return Err(Error::Usage(format!("{} is not finished", kept.folder.display())));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(Error::Usage(format!("the name '{name}' is to be of letters, digits, - _ and .")));
    }
    let mut done = Published::default();
    let (archive, left_out) = archive(&kept.folder)?;
    if !left_out.is_empty() {
        done.notes.push(format!("not in {ARCHIVE}, which would be too large: {}", left_out.join(", ")));
    }
    let folder = out.join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(io_error("cannot make", &folder))?;
    let draw = if curve::applies(kept) { curve::draw } else { svg::draw };
    let sizes = ["data_bytes", "resident_bytes"].into_iter();
    let sizes = sizes
        .filter(|name| curve::applies(kept) && kept.run.metrics.iter().any(|m| m.main && m.name == *name));
    for chart in ["throughput", "p99"].into_iter().chain(sizes) {
        let path = folder.join(format!("{chart}.svg"));
        match draw(kept, &Chart { metric: chart.to_string(), only: only.to_vec() }) {
            Ok(text) => {
                fs::write(&path, text).map_err(io_error("cannot write", &path))?;
                done.files.push(path);
            }
            Err(error) => done.notes.push(format!("no {chart}.svg: {error}")),
        }
    }
    done.files.extend(run_csv::write_figures(kept, &folder)?);
    let mut text = run_table::render(kept);
    for note in &done.notes {
        text.push_str(&format!("\n{note}\n"));
    }
    for (name, bytes) in [("summary.txt", text.into_bytes()), (ARCHIVE, archive)] {
        let path = folder.join(name);
        fs::write(&path, bytes).map_err(io_error("cannot write", &path))?;
        done.files.push(path);
    }
    Ok(done)
}

/// The run's folder as an archive, and the names left out.
fn archive(folder: &Path) -> Result<(Vec<u8>, Vec<String>)> {
    let mut left_out: Vec<&str> = Vec::new();
    let mut more = DISPENSABLE.iter();
    loop {
        let bytes = packed(folder, &left_out)?;
        if bytes.len() <= LIMIT {
            return Ok((bytes, left_out.iter().map(|name| name.to_string()).collect()));
        }
        match more.next() {
            Some(names) => left_out.extend(*names),
            None => {
                return Err(Error::Usage(format!(
                    "{} takes {} KB packed, even without series: {} KB are the most",
                    folder.display(),
                    bytes.len() >> 10,
                    LIMIT >> 10
                )))
            }
        }
    }
}

fn packed(folder: &Path, left_out: &[&str]) -> Result<Vec<u8>> {
    let own = folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut tar = tar::Builder::new(Vec::new());
    for path in files(folder)? {
        let within = path.strip_prefix(folder).unwrap_or(&path);
        let name = within.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let top = within.components().count() == 1;
        if top && (DERIVED.contains(&name.as_str()) || name.starts_with('.')) {
            continue;
        }
        if !top && left_out.contains(&name.as_str()) {
            continue;
        }
        let bytes = fs::read(&path).map_err(io_error("cannot read", &path))?;
        let mut head = tar::Header::new_gnu();
        head.set_size(bytes.len() as u64);
        head.set_mode(0o644);
        head.set_mtime(0);
        let place = Path::new(&own).join(within);
        tar.append_data(&mut head, place, bytes.as_slice()).map_err(io_error("cannot pack", &path))?;
    }
    let plain = tar.into_inner().map_err(io_error("cannot pack", folder))?;
    compressed(plain)
}

/// All files below a folder, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).map_err(io_error("cannot read", &directory))? {
            let entry = entry.map_err(io_error("cannot read", &directory))?;
            let kind = entry.file_type().map_err(io_error("cannot read", entry.path()))?;
            if kind.is_dir() && entry.file_name() != ".making" {
                open.push(entry.path());
            } else if kind.is_file() {
                all.push(entry.path());
            }
        }
    }
    all.sort();
    Ok(all)
}

fn compressed(plain: Vec<u8>) -> Result<Vec<u8>> {
    let mut child = Command::new("xz")
        .args(["-9", "-e", "-T1", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|_| Error::Missing { what: "xz".into(), remedy: "the package xz-utils has it".into() })?;
    let input = child.stdin.take();
    let writer = std::thread::spawn(move || input.map_or(Ok(()), |mut input| input.write_all(&plain)));
    let output = child.wait_with_output().map_err(io_error("cannot wait for", "xz"))?;
    let written = writer.join().unwrap_or_else(|_| Err(std::io::Error::other("the writer panicked")));
    written.map_err(io_error("cannot write to", "xz"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(Error::Usage(format!("xz ended with {}", output.status)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::groups::tests::{cell, run};
    use super::*;
    use crate::run::Folder;

    fn kept(parent: &Path, noise: usize) -> Kept {
        let mut head = run();
        head.ended_unix_s = Some(head.started_unix_s + 10);
        head.files = vec!["rules/r.toml".into()];
        let mut folder = Folder::create(parent, &head).unwrap();
        fs::create_dir(folder.path().join("rules")).unwrap();
        fs::write(folder.path().join("rules/r.toml"), "a = 1").unwrap();
        fs::write(folder.path().join("report.html"), "<p>").unwrap();
        // Text that does not compress: digits of a generator.
        let mut seed = 7u64;
        let mut digits = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{:016x}\n", seed ^ (seed >> 29))
        };
        let status: String = (0..noise).map(|_| digits()).collect();
        for engine in ["A", "B"] {
            let mut cell = cell(engine, "8", 1, 100.0);
            cell.figure("p99_ms", 1.0);
            let making = folder.begin(&cell.id).unwrap();
            fs::write(making.join("status.tsv"), &status).unwrap();
            fs::write(making.join("seconds.csv"), "at_s,x\n1,2\n").unwrap();
            cell.files = vec!["status.tsv".into()];
            cell.series = vec!["seconds.csv".into()];
            folder.finish(cell).unwrap();
        }
        let path = folder.path().to_path_buf();
        drop(folder);
        Kept::read(&path).unwrap()
    }

    fn names(archive: &Path) -> String {
        let output = Command::new("tar").arg("-tJf").arg(archive).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_run_becomes_a_folder_and_the_archive_is_a_run_again() {
        let parent = tempfile::tempdir().unwrap();
        let kept = kept(&parent.path().join("runs"), 10);
        let out = parent.path().join("results");
        let done = publish(&kept, &out, "t", &[]).unwrap();
        assert_eq!(done.notes, Vec::<String>::new());
        let mut there: Vec<String> = done
            .files
            .iter()
            .map(|p| p.strip_prefix(out.join("t")).unwrap().to_string_lossy().into_owned())
            .collect();
        there.sort();
        assert_eq!(there, ["cells.csv", "p99.svg", ARCHIVE, "summary.csv", "summary.txt", "throughput.svg"]);
        let archive = out.join("t").join(ARCHIVE);
        let listed = names(&archive);
        assert!(listed.contains("/rules/r.toml") && listed.contains("/cells/A-8-r1/status.tsv"), "{listed}");
        assert!(!listed.contains("report.html") && !listed.contains(".lock"), "{listed}");
        let unpacked = Command::new("tar").arg("-xJf").arg(&archive).current_dir(parent.path()).status();
        assert!(unpacked.unwrap().success());
        let again = Kept::read(&parent.path().join(kept.folder.file_name().unwrap())).unwrap();
        assert_eq!(again.cells, kept.cells);
        let before = fs::read(&archive).unwrap();
        publish(&kept, &out, "t", &[]).unwrap();
        assert_eq!(fs::read(&archive).unwrap(), before, "the same bytes each time");
    }

    #[test]
    fn what_is_too_large_leaves_out_what_can_be_spared_and_says_so() {
        let parent = tempfile::tempdir().unwrap();
        let kept = kept(&parent.path().join("runs"), 60_000);
        let out = parent.path().join("results");
        let done = publish(&kept, &out, "t", &[]).unwrap();
        assert_eq!(done.notes.len(), 1, "{:?}", done.notes);
        assert!(done.notes[0].contains("status.tsv") && !done.notes[0].contains("seconds.csv"));
        let archive = out.join("t").join(ARCHIVE);
        assert!(fs::metadata(&archive).unwrap().len() <= LIMIT as u64);
        assert!(names(&archive).contains("seconds.csv") && !names(&archive).contains("status.tsv"));
        let summary = fs::read_to_string(out.join("t/summary.txt")).unwrap();
        assert!(summary.contains("which would be too large"), "{summary}");
    }

    #[test]
    fn a_run_that_is_not_whole_and_a_name_that_is_a_path_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let mut kept = kept(&parent.path().join("runs"), 1);
        let out = parent.path().join("results");
        for name in ["", "..", "a/b"] {
            assert!(publish(&kept, &out, name, &[]).is_err(), "{name}");
        }
        kept.run.ended_unix_s = None;
        let error = publish(&kept, &out, "t", &[]).unwrap_err().to_string();
        assert!(error.contains("is not finished") && !out.exists(), "{error}");
    }
}
