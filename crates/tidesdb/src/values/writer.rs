//! The present file of statements, and the syncs of files with new values.
//!
//! Writers reserve their places under a lock, and write at the same time. A value is in its file before its pointer is used,
//! so a killed process loses none of those in its log. A record of the log counts as durable only after [`ValueFiles::sync`]
//! has made the values before it durable (`docs/protocols.md` 9).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::format::{place_after, FileHeader, RecordHeader, FILE_HEADER, RECORD_HEADER};
use super::read::MOST_CACHED;
use super::ValueFiles;
use crate::cache::CachePriority;
use crate::error::{Error, Result};
use crate::format::checksum;
use crate::format::compression::compress;
use crate::format::value_pointer::ValuePointer;
use crate::io::File;
use crate::mutant::{self, Mutant};
use crate::options::Compression;
use crate::sync::{note, Mutex};
use crate::types::{FamilyId, FileNo, Pieces};
use crate::value_holds::{ValueFile, ValueWrite};

/// Bytes after which a file takes no more values: one part in so many of all files, within bounds. Its space comes back once
/// memtables hold it no more.
const FILE_PARTS: u64 = 64;
pub(super) const LARGEST_FILE: u64 = 64 << 20;
const SMALLEST_FILE: u64 = 16 << 20;

/// Most bytes of values without a flush; less in a store that has less: one part in so many of its files.
const MOST_UNFLUSHED: u64 = 256 << 20;
const UNFLUSHED_PARTS: u64 = 32;

/// Longer values are written from their writer's memory, uncompressed.
const LARGE: usize = 4 << 20;

/// The file that takes values.
pub(super) struct Current {
    hold: Arc<ValueFile>,
    file: Arc<dyn File>,
    /// The end of the last reserved record.
    end: u64,
    /// No record but the first goes beyond.
    most: u64,
}

/// The place of a value, for its writer.
struct Place {
    hold: Arc<ValueFile>,
    file: Arc<dyn File>,
    offset: u64,
    write: ValueWrite,
}

impl Current {
    pub(super) fn number(&self) -> FileNo {
        self.hold.number()
    }
}

/// The writing side.
///
/// `current` is held while a new file is made and named, so before the locks of the manifest.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) current: Mutex<Option<Current>>,
    /// Bytes of all reserved places.
    pub(super) written: AtomicU64,
    /// Bytes that merges and loads have moved, to files of their own.
    pub(super) moved: AtomicU64,
    /// Files with values that no sync covers.
    unsynced: Mutex<Vec<(FileNo, Arc<dyn File>)>>,
    /// Full files, until a sync.
    full: Mutex<Vec<Arc<dyn File>>>,
    /// Held during a sync: the next one is not done before it. True once a sync failed: nothing is known of its values, and
    /// they are in no list any more.
    has_failed: Mutex<bool>,
}

/// A value to write.
pub struct NewValue<'a> {
    pub family: FamilyId,
    pub key: &'a [u8],
    /// The entry's own part.
    pub first: &'a [u8],
    /// The part for the file.
    pub rest: Pieces<'a>,
    pub compression: Compression,
    /// Not where the rest seems to be the one of this pointer.
    pub unless_at: Option<ValuePointer>,
}

/// A value in a file.
pub struct WrittenValue {
    /// The pointer in its stored form.
    pub pointer: Vec<u8>,
    /// A hold on the file.
    pub file: Arc<ValueFile>,
}

/// A value on its way into a record.
pub(super) struct NewRecord<'a> {
    family: FamilyId,
    key: &'a [u8],
    first: &'a [u8],
    packed: Packed<'a>,
    stored_len: u32,
    raw_len: u32,
}

impl<'a> NewRecord<'a> {
    /// Packs a value.
    ///
    /// Errors: it is too long; it seems to be one that is there.
    pub(super) fn new(value: &NewValue<'a>) -> Result<NewRecord<'a>> {
        let &NewValue { family, key, first, rest, compression, unless_at } = value;
        let raw_len = rest.len();
        let packed = Packed::of(rest, compression);
        let stored_len: usize = packed.parts().iter().map(|part| part.len()).sum();
        let (Ok(stored_len), Ok(raw_len)) = (u32::try_from(stored_len), u32::try_from(raw_len)) else {
            return Err(Error::InvalidArgument(format!("a value of {raw_len} bytes is too long")));
        };
        let record = NewRecord { family, key, first, packed, stored_len, raw_len };
        match unless_at.is_some_and(|other| record.seems_to_be(&other)) {
            true => Err(Error::Unchanged),
            false => Ok(record),
        }
    }

    /// True for a value of the other's lengths and checksum.
    fn seems_to_be(&self, other: &ValuePointer) -> bool {
        let (stored_len, raw_len) = (u64::from(self.stored_len), u64::from(self.raw_len));
        if mutant::is(Mutant::SameLengthUnchanged) && raw_len == other.raw_len {
            return true;
        }
        stored_len == other.stored_len && raw_len == other.raw_len && self.crc() == other.crc
    }

    /// Of the bytes as stored.
    fn crc(&self) -> u32 {
        self.packed.parts().iter().fold(checksum::crc(b""), |crc, part| checksum::extend(crc, part))
    }

    /// Bytes of the record.
    pub(super) fn len(&self) -> u64 {
        (RECORD_HEADER + self.stored_len as usize + self.key.len()) as u64
    }

    /// Writes the record to its place.
    pub(super) fn write(&self, file: &dyn File, number: FileNo, offset: u64) -> Result<Record> {
        let &NewRecord { family, key, stored_len, raw_len, .. } = self;
        let compression = self.packed.compression();
        let key_len = key.len() as u32;
        let header = RecordHeader { stored_len, raw_len, key_len, family, compression, file: number, offset };
        let parts = self.packed.parts();
        let body: Vec<&[u8]> = parts.iter().copied().chain([key]).collect();
        let header = header.encode(&body);
        write_record(file, offset, &header, &body)?;
        let crc = self.crc();
        let (stored_len, raw_len) = (stored_len.into(), raw_len.into());
        Ok(Record {
            header,
            at: ValuePointer { file: number, offset, stored_len, raw_len, crc, kept: false },
        })
    }

    /// The value's pointer to this place, in its stored form.
    pub(super) fn pointer_to(&self, at: &ValuePointer) -> Vec<u8> {
        let mut pointer = Vec::with_capacity(self.first.len() + 32);
        at.encode(self.first, &mut pointer);
        pointer
    }
}

/// A written record.
pub(super) struct Record {
    header: [u8; RECORD_HEADER],
    pub(super) at: ValuePointer,
}

fn write_record(file: &dyn File, offset: u64, header: &[u8], body: &[&[u8]]) -> Result<()> {
    let len: usize = body.iter().map(|part| part.len()).sum();
    if len <= LARGE {
        let mut record = Vec::with_capacity(header.len() + len);
        record.extend_from_slice(header);
        body.iter().for_each(|part| record.extend_from_slice(part));
        return file.write_at(&record, offset);
    }
    let mut at = offset;
    for part in std::iter::once(&header).chain(body) {
        file.write_at(part, at)?;
        at += part.len() as u64;
    }
    Ok(())
}

/// A value in the form in which it is stored.
enum Packed<'a> {
    Compressed(Compression, Vec<u8>),
    Plain(Pieces<'a>),
}

impl<'a> Packed<'a> {
    fn of(value: Pieces<'a>, method: Compression) -> Packed<'a> {
        if value.len() > LARGE {
            return Packed::Plain(value);
        }
        let mut packed = Vec::new();
        let whole = value.whole();
        match compress(method, &whole, &mut packed) {
            Compression::None => Packed::Plain(value),
            method => Packed::Compressed(method, packed),
        }
    }

    fn compression(&self) -> Compression {
        match self {
            Packed::Compressed(method, _) => *method,
            Packed::Plain(_) => Compression::None,
        }
    }

    fn parts(&self) -> Vec<&[u8]> {
        match self {
            Packed::Compressed(_, bytes) => vec![bytes],
            Packed::Plain(value) => value.iter().collect(),
        }
    }
}

impl ValueFiles {
    /// From now on a file takes no more values beyond this length: a small store has small files.
    pub fn set_file_size(&self, bytes: u64) {
        self.file_size.store(bytes.min(LARGEST_FILE), Ordering::Relaxed);
    }

    /// Bytes that this life has written to value files.
    pub fn written_bytes(&self) -> u64 {
        self.statement_bytes() + self.writer.moved.load(Ordering::Relaxed)
    }

    /// Those that statements have written: memtables point to them.
    pub fn statement_bytes(&self) -> u64 {
        self.writer.written.load(Ordering::Relaxed)
    }

    /// Bytes of values after which a memtable is flushed.
    pub fn most_unflushed(&self) -> u64 {
        (self.bytes() / UNFLUSHED_PARTS).min(MOST_UNFLUSHED).max(self.most_of_file())
    }

    pub(super) fn most_of_file(&self) -> u64 {
        let most = (self.bytes() / FILE_PARTS).clamp(SMALLEST_FILE, LARGEST_FILE);
        self.file_size.load(Ordering::Relaxed).min(most)
    }

    /// Makes a file for values: header and directory entry are durable when it returns. The caller names it in the manifest
    /// then.
    pub fn create(&self, number: FileNo, epoch: u64) -> Result<()> {
        let file = self.store.create(number)?;
        file.write_at(&FileHeader { number, epoch }.encode(), 0)?;
        file.sync_data()?;
        self.store.sync()
    }

    /// Writes a value, and returns its pointer. `begin` makes a file when one is needed, names it in the manifest, and returns
    /// its number. Others that need a place wait for it. The value goes to the cache, too, with this priority: a read past the
    /// page cache would wait until the system has written it.
    ///
    /// Errors: I/O, disk full; nothing refers to what was written then. See [`NewValue::unless_at`].
    pub fn write(
        &self,
        value: &NewValue<'_>,
        priority: CachePriority,
        begin: impl FnOnce() -> Result<FileNo>,
    ) -> Result<WrittenValue> {
        let record = NewRecord::new(value)?;
        let Place { hold, file, offset, write } = self.reserve(record.len(), begin)?;
        let written = record.write(&*file, hold.number(), offset);
        // After an error, too: a part of it may be there. Before the write ends: a file that takes no more values is whole after
        // the next sync.
        self.note_unsynced(hold.number(), file);
        drop(write);
        let written = written?;
        if value.rest.len() as u64 <= MOST_CACHED {
            let stored = record.packed.parts();
            let whole: Vec<&[u8]> = [&written.header[..]].into_iter().chain(stored).collect();
            let value: Vec<&[u8]> = value.rest.iter().collect();
            self.keep(&written.at, &whole, &value, priority);
        }
        let pointer = record.pointer_to(&written.at);
        Ok(WrittenValue { pointer, file: hold })
    }

    /// A place for a record of `len` bytes.
    fn reserve(&self, len: u64, begin: impl FnOnce() -> Result<FileNo>) -> Result<Place> {
        let mut current = self.writer.current.lock();
        let fits = |current: &Current| {
            let begins = place_after(current.end, len);
            current.end == FILE_HEADER || begins + len <= current.most
        };
        if !current.as_ref().is_some_and(fits) {
            note("values: new file");
            let number = begin()?;
            let hold =
                self.hold(number).ok_or_else(|| self.store.damage(number, "a new file has no name"))?;
            let file = self.store.open_to_write(number)?;
            self.writer.full.lock().extend(current.take().map(|full| full.file));
            *current = Some(Current { hold, file, end: FILE_HEADER, most: self.most_of_file() });
        }
        let current = current.as_mut().expect("made above");
        let offset = place_after(current.end, len);
        current.end = offset + len;
        self.writer.written.fetch_add(len, Ordering::Relaxed);
        let (hold, file) = (Arc::clone(&current.hold), Arc::clone(&current.file));
        hold.add_taken(len);
        let write = hold.begin_write();
        Ok(Place { hold, file, offset, write })
    }

    fn note_unsynced(&self, number: FileNo, file: Arc<dyn File>) {
        let mut unsynced = self.writer.unsynced.lock();
        if unsynced.iter().all(|(other, _)| *other != number) {
            unsynced.push((number, file));
        }
    }

    /// True if some values are written, and in no sync so far.
    pub fn has_unsynced(&self) -> bool {
        !self.writer.unsynced.lock().is_empty()
    }

    /// Makes every value durable that was written before the call. After an error nothing is known of them, and each later call
    /// fails too.
    pub fn sync(&self) -> Result<()> {
        let mut has_failed = self.writer.has_failed.lock();
        if *has_failed {
            return Err(Error::ReadOnly("an earlier sync of a value file failed".into()));
        }
        let full = std::mem::take(&mut *self.writer.full.lock());
        let unsynced = std::mem::take(&mut *self.writer.unsynced.lock());
        if mutant::is(Mutant::ValuesUnsynced) {
            return Ok(());
        }
        let synced = unsynced.iter().try_for_each(|(_, file)| file.sync_data());
        *has_failed = synced.is_err();
        if synced.is_ok() {
            // A late writer's pages of it stay in the page cache.
            full.iter().for_each(|file| self.store.written(&**file));
        }
        synced
    }
}
