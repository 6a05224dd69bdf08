//! The owner of a store: the file `OWNER` in its directory. A store of another owner is refused. So two
//! owners never meet in one store, and a new owner at an old one's place never meets its tables.
//!
//! The file has one or two lines: the owner's identity, to be compared, and its place, for messages; it may
//! change. Stores of earlier versions have one line, the place; they adopt the identity of the owner at that
//! place.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::checksum;
use crate::host::Random;
use crate::io::{read_whole, Disk, OpenMode};
use crate::options::StoreIdentity;
use crate::version::StoreState;

/// Name of the file.
pub const OWNER: &str = "OWNER";

/// Refuses a store of another owner (`Error::Busy`, with both names and the ways out). A store without an
/// owner gets this one, and a changed place is noted.
pub(crate) fn check(disk: &dyn Disk, dir: &Path, owner: Option<&StoreIdentity>) -> Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    let path = dir.join(OWNER);
    if !disk.exists(&path)? {
        return write(disk, dir, owner);
    }
    let known = StoreIdentity::parse(&String::from_utf8_lossy(&read_whole(disk, &path)?));
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

/// Name of the store's ids among the manifest's options: `ID@EPOCH ...`, each valid from its opening on.
/// Copies of a store have them too; an owner that adopts a store unknown to it draws a new id.
const STORE_IDS: &str = "store_ids";

/// Number of ids kept.
const IDS_KEPT: usize = 16;

/// The ids of a store and their first epochs, oldest first.
fn ids_of(state: &StoreState) -> Vec<(&str, u64)> {
    let ids = state.options.get(STORE_IDS).map_or("", String::as_str).split_whitespace();
    ids.filter_map(|entry| entry.split_once('@').and_then(|(id, from)| Some((id, from.parse().ok()?))))
        .collect()
}

/// The manifest's option for a store adopted in its present epoch, under a new id.
pub(crate) fn taken_on(state: &StoreState, random: &dyn Random) -> (String, String) {
    let mut ids: Vec<String> = ids_of(state).iter().map(|(id, from)| format!("{id}@{from}")).collect();
    ids.push(format!("{:016x}{:016x}@{}", random.next(), random.next(), state.epoch));
    (STORE_IDS.to_string(), ids.split_off(ids.len().saturating_sub(IDS_KEPT)).join(" "))
}

/// Identifies a store and its progress.
pub(crate) struct Mark {
    id: String,
    /// Number of openings for writing.
    epoch: u64,
}

impl Mark {
    /// The mark of a store; `None`: no owner has adopted it since marks exist.
    pub(crate) fn of(state: &StoreState) -> Option<Mark> {
        ids_of(state).last().map(|(id, _)| Mark { id: id.to_string(), epoch: state.epoch })
    }

    /// True if the store is this one, or once was.
    fn is_in_the_life_of(&self, state: &StoreState) -> bool {
        let ids = ids_of(state);
        let Some(at) = ids.iter().position(|(id, _)| *id == self.id) else { return false };
        // Under a later id it is in the past only up to the opening that drew that one: there copies may have parted.
        self.epoch <= ids.get(at + 1).map_or(state.epoch, |(_, from)| from.saturating_sub(1))
    }

    /// `ID EPOCH SUM`. A damaged text gives no mark, and refuses no store.
    pub(crate) fn text(&self) -> String {
        let named = format!("{} {}", self.id, self.epoch);
        format!("{named} {:08x}", checksum::crc(named.as_bytes()))
    }

    /// From its text.
    pub(crate) fn parse(text: &str) -> Option<Mark> {
        let (id, rest) = text.split_once(' ')?;
        let mark = Mark { id: id.to_string(), epoch: rest.split_once(' ')?.0.parse().ok()? };
        (mark.text() == text).then_some(mark)
    }
}

/// Refuses another store than the remembered one, or an older copy of it (`Error::Busy`): later commits are
/// elsewhere. `state` is the state found, before this opening.
pub(crate) fn check_mark(dir: &Path, mark: &Mark, place: &str, state: &StoreState) -> Result<()> {
    if mark.is_in_the_life_of(state) {
        return Ok(());
    }
    let why = match ids_of(state).iter().any(|(id, _)| *id == mark.id) {
        true => format!(
            "an older copy: it was opened {} times, the store that is remembered {}",
            state.epoch, mark.epoch
        ),
        false => "another one than was opened last".to_string(),
    };
    Err(Error::Busy(format!(
        "the store in {} is {why}; name the place of the newest one, or, to go on with this one and without what came \
         later, remove {place}",
        dir.display()
    )))
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
    use crate::db::Db;
    use crate::io::faulty::{Crash, Failure, Fault, Op};
    use crate::io::FaultyDisk;
    use crate::options::{Options, RememberedStore};

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
    fn a_store_that_was_taken_on_is_known_by_what_was_remembered_before() {
        let disk = disk();
        let mut state = StoreState { epoch: 7, ..StoreState::default() };
        assert!(Mark::of(&state).is_none());
        let take_on = |state: &mut StoreState| {
            let (name, value) = taken_on(state, &disk);
            state.options.insert(name, value);
            Mark::of(state).expect("it has an id")
        };
        let first = take_on(&mut state);
        let copy = state.clone();
        state.epoch = 9;
        let second = Mark::of(&state).expect("it has an id");
        assert!([&first, &second].iter().all(|mark| mark.is_in_the_life_of(&state)));
        assert!(first.is_in_the_life_of(&copy) && !second.is_in_the_life_of(&copy), "an older copy");
        let mut copy = StoreState { epoch: 8, ..copy };
        let other = take_on(&mut copy);
        copy.epoch = 20;
        assert!(first.is_in_the_life_of(&copy) && other.is_in_the_life_of(&copy));
        assert!(!second.is_in_the_life_of(&copy), "they have parted");
        assert!(!other.is_in_the_life_of(&state), "another store");
        for _ in 0..2 * IDS_KEPT {
            copy.epoch += 1;
            take_on(&mut copy);
        }
        assert_eq!(ids_of(&copy).len(), IDS_KEPT);
    }

    /// The edit with its new id is written, its sync finds the disk full, and a power cut leaves the edit there.
    #[test]
    fn a_store_that_was_taken_on_with_a_full_disk_is_no_copy_of_itself() {
        let with = |mark: Option<String>| Options {
            identity: Some(owner("a1", "/var/lib/mysql")),
            remembered: mark.map(|mark| RememberedStore { mark, place: "/var/lib/mysql/store".into() }),
            ..Options::default()
        };
        let (mut unknown, mut known) = (0, 0);
        for skip in 0..8 {
            let disk = FaultyDisk::new(1);
            Db::open_on(disk.shared(), "/s", with(None), None).expect("makes").close().expect("closes");
            let fault = Fault {
                op: Some(Op::Sync),
                path: "MANIFEST".into(),
                skip,
                times: 1,
                failure: Failure::Enospc,
            };
            disk.fail(fault);
            let Ok(db) = Db::open_on(disk.shared(), "/s", with(None), None) else { continue };
            let mark = db.mark();
            *if mark.is_none() { &mut unknown } else { &mut known } += 1;
            let after = disk.crash(Crash::Keep);
            drop(db);
            let again = Db::open_on(after.shared(), "/s", with(mark), None);
            assert!(again.is_ok(), "sync {skip} fails: {:?}", again.err());
        }
        assert!(unknown > 0 && known > 0, "{unknown} {known}");
    }

    #[test]
    fn a_damaged_mark_is_none() {
        let mark = Mark { id: "0123456789abcdef0123456789abcdef".into(), epoch: 41 };
        let text = mark.text();
        assert!(Mark::parse(&text).is_some_and(|again| (again.id, again.epoch) == (mark.id, mark.epoch)));
        for byte in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[byte] ^= 1 << bit;
                let flipped = String::from_utf8(bytes).unwrap();
                assert!(Mark::parse(&flipped).is_none(), "{flipped:?}");
            }
            assert!(Mark::parse(&text[..byte]).is_none());
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
