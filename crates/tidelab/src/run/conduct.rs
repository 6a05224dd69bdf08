//! Carries a run out, cell by cell, and goes on with an interrupted one.

use std::time::{Duration, Instant};

use tidelab_server::error::{Error, Result};
use tidelab_server::interrupt::Interrupt;

use super::{now_unix_s, Cell, CellId, Folder, Run, Unbounded};

/// Cells measured together, because they share one load of tables, one server. A resumed run measures a group
/// anew unless all of it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The title for people while it is measured.
    pub title: String,
    /// Its cells, in their order.
    pub cells: Vec<CellId>,
}

/// The part of an experiment done by its kind.
pub trait Conductor {
    /// All groups in measuring order: competitors take turns. The same each time for the same design.
    fn groups(&self) -> Vec<Group>;

    /// Measures a group and gives each of its cells to [`Folder::finish`], also a failed one. A failure of
    /// one cell belongs into the cell. Errors end the run, and the folder stays as it is. The head is written
    /// again afterwards, so servers and notes can be added to it.
    fn measure(&mut self, group: &Group, run: &mut Run, folder: &mut Folder) -> Result<()>;

    /// Ends its servers and other resources. Called once, also after an error.
    fn close(&mut self) -> Result<()>;

    /// The rules for its servers' settings, as names and texts of files: the run keeps and shows them.
    fn rules(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The loads to measure without an engine, alongside its cells.
    fn unbounded(&self) -> Vec<Unbounded> {
        Vec::new()
    }
}

/// Measures the groups missing in the folder. True: all cells are there and count.
pub fn conduct(
    conductor: &mut dyn Conductor,
    run: &mut Run,
    folder: &mut Folder,
    interrupt: &Interrupt,
) -> Result<bool> {
    let groups = conductor.groups();
    let open: Vec<&Group> = groups.iter().filter(|g| !g.cells.iter().all(|c| folder.has(c))).collect();
    let before = groups.len() - open.len();
    if before > 0 {
        eprintln!("{before} of {} parts are measured already", groups.len());
    }
    run.ended_early = None;
    let mut ended = Ok(());
    let start = Instant::now();
    for (n, group) in open.iter().enumerate() {
        let left = left(start.elapsed(), n, open.len());
        eprintln!("[{}/{}] {}{left}", before + n + 1, groups.len(), group.title);
        ended = interrupt.check().and_then(|()| conductor.measure(group, run, folder));
        if ended.is_ok() {
            ended = folder.write_head(run);
        }
        if ended.is_err() {
            break;
        }
    }
    let closed = conductor.close();
    let ended = ended.and(closed);
    match &ended {
        Ok(()) => run.ended_unix_s = Some(now_unix_s()),
        Err(error) => run.ended_early = Some(error.to_string()),
    }
    folder.write_head(run)?;
    ended?;
    let (_, cells) = super::folder::read(folder.path())?;
    Ok(groups.iter().flat_map(|g| &g.cells).all(|id| cells.iter().any(|c| c.id == *id && c.counts())))
}

/// The time of the rest, at the speed so far; empty before anything is over.
fn left(took: Duration, over: usize, of: usize) -> String {
    if over == 0 {
        return String::new();
    }
    let left = took.as_secs_f64() / over as f64 * (of - over) as f64;
    format!(", about {} left", minutes(left))
}

/// The folder for a run: a new one, or the one to go on with if it was begun with the same design.
pub fn folder_for(
    run: &mut Run,
    parent: &std::path::Path,
    resume: Option<&std::path::Path>,
) -> Result<Folder> {
    let Some(path) = resume else { return Folder::create(parent, run) };
    let (folder, begun) = Folder::resume(path)?;
    if (&begun.name, &begun.kind, &begun.design) != (&run.name, &run.kind, &run.design) {
        return Err(Error::Usage(format!(
            "{} was begun with another design; a run goes on with its own",
            path.display()
        )));
    }
    *run = begun;
    Ok(folder)
}

/// A cell failed before its first figures.
pub fn failed(id: &CellId, why: impl ToString) -> Cell {
    let mut cell = Cell::new(id.clone(), 0);
    cell.failures.push(why.to_string());
    cell
}

/// `7 min 30 s`, or seconds alone below one minute.
pub(crate) fn minutes(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    if seconds < 60 {
        return format!("{seconds} s");
    }
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::folder;

    struct Counting {
        measured: Vec<String>,
        fails_at: Option<&'static str>,
        closed: u32,
    }

    impl Counting {
        fn new(fails_at: Option<&'static str>) -> Counting {
            Counting { measured: Vec::new(), fails_at, closed: 0 }
        }
    }

    impl Conductor for Counting {
        fn groups(&self) -> Vec<Group> {
            (1..=3)
                .map(|round| Group {
                    title: format!("round {round}"),
                    cells: ["A", "B"].map(|e| CellId::new([("engine", e.to_string())], round)).to_vec(),
                })
                .collect()
        }

        fn measure(&mut self, group: &Group, _: &mut Run, folder: &mut Folder) -> Result<()> {
            for id in &group.cells {
                if self.fails_at == Some(id.folder().as_str()) {
                    return Err(Error::Interrupted);
                }
                self.measured.push(id.folder());
                let mut cell = Cell::new(id.clone(), 1);
                cell.figure("rate_per_s", 1.0);
                folder.finish(cell)?;
            }
            Ok(())
        }

        fn close(&mut self) -> Result<()> {
            self.closed += 1;
            Ok(())
        }
    }

    #[test]
    fn a_group_that_was_ended_is_measured_anew_and_others_are_not() {
        let parent = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::on_signals().unwrap();
        let mut run = Run::new("t", "", "sweep");
        let mut first = Counting::new(Some("B-r2"));
        let mut folder = folder_for(&mut run, parent.path(), None).unwrap();
        let path = folder.path().to_path_buf();
        assert!(conduct(&mut first, &mut run, &mut folder, &interrupt).is_err());
        assert_eq!((first.measured.len(), first.closed), (3, 1));
        drop(folder);
        assert_eq!(folder::read(&path).unwrap().0.ended_early.as_deref(), Some("interrupted"));

        let mut again = Run::new("t", "", "sweep");
        let mut folder = folder_for(&mut again, parent.path(), Some(&path)).unwrap();
        let mut second = Counting::new(None);
        assert!(conduct(&mut second, &mut again, &mut folder, &interrupt).unwrap());
        assert_eq!(second.measured, ["A-r2", "B-r2", "A-r3", "B-r3"]);
        let (head, cells) = folder::read(&path).unwrap();
        assert_eq!((head.ended_early, cells.len()), (None, 6));
        assert_eq!(head.started_unix_s, run.started_unix_s);
    }

    #[test]
    fn the_rest_takes_as_long_as_what_is_over() {
        assert_eq!(left(Duration::from_secs(5), 0, 3), "");
        assert_eq!(left(Duration::from_secs(60), 2, 6), ", about 2 min 00 s left");
    }

    #[test]
    fn another_design_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let mut run = Run::new("t", "", "sweep");
        let path = folder_for(&mut run, parent.path(), None).unwrap().path().to_path_buf();
        let mut other = Run::new("t", "", "sweep");
        other.design = serde_json::json!({"rounds": 9});
        let error = folder_for(&mut other, parent.path(), Some(&path)).unwrap_err().to_string();
        assert!(error.contains("another design"), "{error}");
    }
}
