//! Whom a store belongs to: the file `OWNER` of its directory. A store whose owner is another one is refused, so
//! that two owners never meet in one store, nor an owner made anew the tables of an old one at the same place.
//!
//! The file has one or two lines: the owner's identity, which is compared, and its place, which is for messages and
//! may change. Stores of earlier versions have one line, the place; they take on the identity of the owner that is
//! at that place.

use std::path::Path;

use crate::error::{Error, Result};
use crate::io::{Disk, OpenMode};
use crate::options::StoreIdentity;

/// Name of the file.
pub const OWNER: &str = "OWNER";

/// Refuses a store of another owner (`Error::Busy`, naming both and the ways out); a store without one gets this,
/// and the place of one that moved is noted.
pub(crate) fn check(disk: &dyn Disk, dir: &Path, owner: Option<&StoreIdentity>) -> Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    let path = dir.join(OWNER);
    if !disk.exists(&path)? {
        return write(disk, dir, owner);
    }
    let file = disk.open(&path, OpenMode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    drop(file);
    let known = StoreIdentity::parse(&String::from_utf8_lossy(&bytes));
    // An empty file: a creation that did not finish.
    let fresh = known.identity.is_empty();
    let of_earlier_version = known.place.is_empty() && known.identity == owner.place;
    if !fresh && !of_earlier_version && known.identity != owner.identity {
        return Err(Error::Busy(format!(
            "the store in {} belongs to {}, not to {}; give this owner a directory of its own, or, if the store's \
             data is not needed, remove the directory, or, to give it to this owner, remove {}",
            dir.display(),
            known.name(),
            owner.name(),
            path.display()
        )));
    }
    if known == *owner {
        return Ok(());
    }
    match write(disk, dir, owner) {
        // The place is for messages.
        Err(Error::DiskFull(_)) if !fresh => Ok(()),
        done => done,
    }
}

/// Writes the file as a whole: a crash leaves the old one or the new one.
fn write(disk: &dyn Disk, dir: &Path, owner: &StoreIdentity) -> Result<()> {
    let temporary = dir.join("OWNER.tmp");
    let file = disk.open(&temporary, OpenMode::Create)?;
    file.write_at(owner.text().as_bytes(), 0)?;
    file.sync_data()?;
    drop(file);
    disk.rename(&temporary, &dir.join(OWNER))?;
    disk.sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::faulty::Crash;
    use crate::io::FaultyDisk;

    fn owner(identity: &str, place: &str) -> StoreIdentity {
        StoreIdentity { identity: identity.into(), place: place.into() }
    }

    fn disk() -> FaultyDisk {
        let disk = FaultyDisk::new(1);
        disk.create_dir_all(Path::new("/s")).unwrap();
        disk
    }

    fn opens(disk: &FaultyDisk, owner: &StoreIdentity) -> Result<()> {
        check(disk, Path::new("/s"), Some(owner))
    }

    fn text(disk: &FaultyDisk) -> String {
        String::from_utf8(disk.contents(Path::new("/s/OWNER")).unwrap()).unwrap()
    }

    #[test]
    fn an_owner_may_move_and_another_at_its_place_is_refused_with_both_names() {
        let disk = disk();
        opens(&disk, &owner("a1", "/var/lib/mysql")).unwrap();
        opens(&disk, &owner("a1", "/srv/mysql")).unwrap();
        assert_eq!(text(&disk), "a1\n/srv/mysql\n");
        let refused = opens(&disk, &owner("b2", "/srv/mysql")).unwrap_err();
        assert!(matches!(refused, Error::Busy(_)));
        for part in ["/srv/mysql (a1)", "/srv/mysql (b2)", "remove /s/OWNER"] {
            assert!(refused.to_string().contains(part), "{refused}");
        }
        assert_eq!(text(&disk), "a1\n/srv/mysql\n");
        check(&disk, Path::new("/s"), None).unwrap();
    }

    #[test]
    fn a_store_of_an_earlier_version_takes_on_the_identity_of_the_owner_at_its_place() {
        for (place, fits) in [("/var/lib/mysql", true), ("/elsewhere", false)] {
            let disk = disk();
            let file = disk.open(Path::new("/s/OWNER"), OpenMode::Create).unwrap();
            file.write_at(b"/var/lib/mysql", 0).unwrap();
            assert_eq!(opens(&disk, &owner("a1", place)).is_ok(), fits, "{place}");
            assert_eq!(opens(&disk, &owner("b2", "/var/lib/mysql")).is_ok(), !fits, "{place}");
        }
    }

    #[test]
    fn a_crash_at_every_call_leaves_a_store_of_nobody_or_of_its_owner() {
        for call in 1.. {
            let disk = disk();
            disk.sync_dir(Path::new("/s")).unwrap();
            let before = disk.calls();
            disk.crash_at(before + call);
            let done = opens(&disk, &owner("a1", "/p"));
            for mode in Crash::ALL {
                let after = disk.crash(mode);
                after.create_dir_all(Path::new("/s")).unwrap();
                opens(&after, &owner("a1", "/p")).unwrap();
                assert!(opens(&after, &owner("b2", "/p")).is_err(), "dead at call {call}, {mode:?}");
            }
            if done.is_ok() {
                return;
            }
        }
    }
}
