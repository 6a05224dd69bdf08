//! Openings after a crash, with another death of the machine, or a failing call.

use std::path::Path;
use std::sync::Arc;

use tidesdb_simulated::internal::db::Db;
use tidesdb_simulated::internal::io::faulty::{Crash, Op};
use tidesdb_simulated::internal::io::FaultyDisk;
use tidesdb_simulated::Error;

use crate::disk::DIR;
use crate::events::hit;
use crate::faults::{Faults, Mood};
use crate::formats;
use crate::random::Random;

/// Calls of an opening, about: a later death meets an open store.
const CALLS: u64 = 150;

/// Opens a store on a disk.
pub type Open<'a> = &'a dyn Fn(&FaultyDisk, &Arc<Faults>) -> Result<Arc<Db>, Error>;

/// The call of an opening for its death: any, or one next to the manifest's change.
fn moment(disk: &FaultyDisk, random: &mut Random, open_copy: Open<'_>) -> u64 {
    if !random.one_in(4) {
        return 1 + random.below(CALLS);
    }
    let copy = disk.crash(Crash::Kill);
    drop(open_copy(&copy, &Arc::new(Faults::none())));
    let renamed = copy.history().iter().position(|op| *op == Op::Rename).unwrap_or_default() as u64;
    hit("crash at a change of manifests");
    renamed + random.below(4)
}

/// Opens the store left by a crash of this kind, perhaps after unfinished openings. Returns its disk, too.
pub fn open(
    crash: Crash,
    mut disk: FaultyDisk,
    random: &mut Random,
    open: Open<'_>,
    open_copy: Open<'_>,
) -> Result<(FaultyDisk, Arc<Db>), String> {
    loop {
        formats::check(&disk, Path::new(DIR))?;
        if random.one_in(2) {
            break;
        }
        if random.one_in(2) {
            hit("crash in a recovery");
            disk.crash_at(moment(&disk, random, open_copy));
            drop(open(&disk, &Arc::new(Faults::none())));
            // What the death of the process alone left is in the page cache: a power cut may take it.
            let crashes = if crash == Crash::Kill { &[Crash::Kill][..] } else { &Crash::ALL };
            disk = disk.crash(random.pick(crashes));
            continue;
        }
        let mood = random.pick(&[Mood::Failing(None, None), Mood::Full(None)]);
        let faults = Arc::new(Faults::new(mood, random.next()));
        faults.allow(1);
        match open(&disk, &faults) {
            Err(error) if faults.excuse(&error) => hit("fault in a recovery"),
            Err(error) => return Err(format!("an opening fails: {error}")),
            Ok(db) => drop(db),
        }
        disk = disk.crash(Crash::Kill);
    }
    let db = open(&disk, &Arc::new(Faults::none()));
    db.map(|db| (disk, db)).map_err(|error| format!("the store does not open: {error}"))
}
