//! The control file of the library (`preload/control.c`), from the laboratory's side. The server maps it; here it
//! is read and written by position.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use tidelab_server::error::{io_error, Result};

use super::{Call, Kind};

const MAGIC: u64 = u64::from_le_bytes(*b"ontrol01");
const REAL_SYNC: u64 = u64::MAX;
const WORD: u64 = 8;
const SIZE: u64 = 8192;
/// Offset of the path of the first call hit, and its longest length.
const FIRED_PATH: (u64, usize) = (4096, 4096);

/// Numbers of the words.
mod word {
    pub const MAGIC: u64 = 0;
    pub const ARMED: u64 = 1;
    pub const KIND: u64 = 2;
    pub const SYNC_MICROS: u64 = 8;
    pub const RECORD: u64 = 9;
    pub const SEEN: u64 = 10;
    pub const FIRED: u64 = 11;
    pub const FIRED_OFFSET: u64 = 12;
    pub const FIRED_SIZE: u64 = 13;
    pub const COUNTS: u64 = 16;
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It fails, and nothing is done.
    Fail(Errno),
    /// Half of the bytes are written, then it fails.
    Tear(Errno),
    /// Half of the bytes are read or written, and the call says so.
    Short,
    /// It comes later.
    Delay(Duration),
    /// A sync reports success, and does nothing.
    Lie,
}

impl Action {
    /// True if the caller is told of a failure.
    pub fn fails(self) -> bool {
        matches!(self, Action::Fail(_) | Action::Tear(_))
    }

    /// True if the caller is told of a full disk.
    pub fn is_full(self) -> bool {
        matches!(
            self,
            Action::Fail(Errno::ENOSPC | Errno::EDQUOT) | Action::Tear(Errno::ENOSPC | Errno::EDQUOT)
        )
    }

    fn words(self) -> (u64, u64) {
        match self {
            Action::Fail(errno) => (1, errno as u64),
            Action::Tear(errno) => (2, errno as u64),
            Action::Short => (3, 0),
            Action::Delay(delay) => (4, u64::try_from(delay.as_micros()).unwrap_or(u64::MAX)),
            Action::Lie => (5, 0),
        }
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Action::Fail(errno) => write!(f, "{errno:?}"),
            Action::Tear(errno) => write!(f, "torn, {errno:?}"),
            Action::Short => f.write_str("short"),
            Action::Delay(delay) => write!(f, "{} ms late", delay.as_millis()),
            Action::Lie => f.write_str("a lie"),
        }
    }
}

/// One fault: some calls in a row of one kind on one kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file's kind.
    pub kind: Kind,
    /// The call's kind.
    pub call: Call,
    /// The number of the first call hit, from 1, counted from the arming.
    pub first: u64,
    /// The number of calls hit.
    pub times: u64,
    /// Their outcome.
    pub action: Action,
}

impl Fault {
    /// True if writes of the store's log find no room: ordered commits wait for it.
    pub fn is_full_log(&self) -> bool {
        self.kind == Kind::Log && self.call == Call::Write && self.action.is_full()
    }

    /// True if the store may refuse writes until a restart: its log failed.
    pub fn may_want_restart(&self) -> bool {
        let of_log = self.kind == Kind::Log && matches!(self.call, Call::Write | Call::Sync);
        of_log && self.action.fails() && !self.is_full_log()
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} {}", self.call.name(), self.kind.name(), self.first)?;
        match self.times {
            1 => write!(f, ": {}", self.action),
            u64::MAX => write!(f, " and all after it: {}", self.action),
            times => write!(f, " and {} after it: {}", times - 1, self.action),
        }
    }
}

/// The calls hit by a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// Their number.
    pub calls: u64,
    /// The file of the first.
    pub path: PathBuf,
    /// Its offset, for reads and writes.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
}

/// Calls by kind of file and kind of call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<(Kind, Call), u64>);

impl Counts {
    /// The number of calls.
    pub fn of(&self, kind: Kind, call: Call) -> u64 {
        self.0.get(&(kind, call)).copied().unwrap_or(0)
    }

    /// The calls since an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts(
            self.0.iter().map(|(key, count)| (*key, count - earlier.of(key.0, key.1).min(*count))).collect(),
        )
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for kind in Kind::ALL {
            write!(f, "{}{}", if kind == Kind::Log { "" } else { "; " }, kind.name())?;
            for call in Call::ALL.into_iter().filter(|call| self.of(kind, *call) > 0) {
                write!(f, " {} {}", self.of(kind, call), call.name())?;
            }
        }
        Ok(())
    }
}

/// The control file.
#[derive(Debug)]
pub struct Control {
    file: File,
    path: PathBuf,
}

impl Control {
    /// Makes one in the directory `side`. With `record` the library keeps a journal there. With `sync`, a
    /// sync only takes this long: enough while the machine stays up; without it a sync is a sync.
    pub fn create(side: &Path, record: bool, sync: Option<Duration>) -> Result<Control> {
        let trash = side.join("trash");
        std::fs::create_dir_all(&trash).map_err(io_error("cannot make", &trash))?;
        let path = side.join("control");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.map_err(io_error("cannot make", &path))?;
        file.set_len(SIZE).map_err(io_error("cannot size", &path))?;
        let control = Control { file, path };
        control.set_sync(sync)?;
        control.put(word::RECORD, u64::from(record))?;
        control.put(word::MAGIC, MAGIC)?;
        Ok(control)
    }

    /// Sets the duration of a sync from now on.
    pub fn set_sync(&self, sync: Option<Duration>) -> Result<()> {
        let micros = sync.map_or(REAL_SYNC, |sync| u64::try_from(sync.as_micros()).unwrap_or(REAL_SYNC - 1));
        self.put(word::SYNC_MICROS, micros)
    }

    /// Arms a fault in place of the one before.
    pub fn arm(&self, fault: &Fault) -> Result<()> {
        self.disarm()?;
        let (action, value) = fault.action.words();
        let words = [fault.kind as u64, fault.call as u64, fault.first, fault.times, action, value];
        for (number, value) in (word::KIND..).zip(words) {
            self.put(number, value)?;
        }
        self.put(word::SEEN, 0)?;
        self.put(word::FIRED, 0)?;
        self.put(word::ARMED, 1)
    }

    /// No more calls are hit.
    pub fn disarm(&self) -> Result<()> {
        self.put(word::ARMED, 0)
    }

    /// The calls hit by the last fault; none so far.
    pub fn fired(&self) -> Result<Option<Fired>> {
        let calls = self.get(word::FIRED)?;
        if calls == 0 {
            return Ok(None);
        }
        let (offset, length) = FIRED_PATH;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, offset).map_err(io_error("cannot read", &self.path))?;
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let path = PathBuf::from(String::from_utf8_lossy(name).into_owned());
        Ok(Some(Fired {
            calls,
            path,
            offset: self.get(word::FIRED_OFFSET)?,
            size: self.get(word::FIRED_SIZE)?,
        }))
    }

    /// All calls since the file was made.
    pub fn counts(&self) -> Result<Counts> {
        let mut counts = BTreeMap::new();
        for kind in Kind::ALL {
            for call in Call::ALL {
                let number = kind as u64 * Call::ALL.len() as u64 + call as u64;
                counts.insert((kind, call), self.get(word::COUNTS + number)?);
            }
        }
        Ok(Counts(counts))
    }

    fn put(&self, number: u64, value: u64) -> Result<()> {
        self.file
            .write_all_at(&value.to_ne_bytes(), number * WORD)
            .map_err(io_error("cannot write", &self.path))
    }

    fn get(&self, number: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, number * WORD).map_err(io_error("cannot read", &self.path))?;
        Ok(u64::from_ne_bytes(bytes))
    }
}
