//! The record of one key: its version chain and its bytes, allocated in one piece with its first version. A
//! key has one record for the life of the memtable. It never moves and its bytes never change, so a borrow of
//! the arena keeps the slice valid.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use super::arena::Arena;
use super::version_chain::{Chain, MemtableVersion};
use crate::types::{Kind, Seq};

/// Header of a record; the key's bytes follow.
#[repr(C)]
pub(super) struct Record {
    chain: Chain,
}

/// A reference to a record with lifetime `'a`.
#[derive(Clone, Copy)]
pub(super) struct RecordRef<'a> {
    record: NonNull<Record>,
    arena: PhantomData<&'a Arena>,
}

impl<'a> RecordRef<'a> {
    /// A new record outside of any tree, with its first version. If the record is not needed, the version can
    /// be linked into another chain.
    pub(super) fn new(
        arena: &'a Arena,
        key: &[u8],
        seq: Seq,
        kind: Kind,
        value: &[u8],
    ) -> (RecordRef<'a>, NonNull<MemtableVersion>) {
        let key_len = u32::try_from(key.len()).expect("keys are at most MAX_KEY_LEN long");
        let version_at = (size_of::<Record>() + key.len()).next_multiple_of(8);
        let start = arena.alloc(version_at + MemtableVersion::size(value.len()), 8);
        // SAFETY: the memory is this thread's alone, aligned to 8, and has room for both.
        unsafe {
            let version = MemtableVersion::write(start.add(version_at), seq, kind, value);
            start.cast::<Record>().write(Record { chain: Chain::new(version, key_len) });
            ptr::copy_nonoverlapping(key.as_ptr(), start.as_ptr().add(size_of::<Record>()), key.len());
            (RecordRef::from_raw(start.cast()), version)
        }
    }

    /// # Safety
    /// The record was made by [`RecordRef::new`] in an arena with lifetime `'a`, and its construction happens
    /// before this call.
    pub(super) unsafe fn from_raw(record: NonNull<Record>) -> RecordRef<'a> {
        RecordRef { record, arena: PhantomData }
    }

    pub(super) fn as_raw(self) -> NonNull<Record> {
        self.record
    }

    pub(super) fn chain(self) -> &'a Chain {
        // SAFETY: `from_raw`; the header is shared from here on.
        unsafe { &(*self.record.as_ptr()).chain }
    }

    pub(super) fn key(self) -> &'a [u8] {
        // SAFETY: `from_raw`; `new` put the bytes after the header, in the same allocation.
        unsafe {
            let bytes = self.record.as_ptr().cast::<u8>().add(size_of::<Record>());
            std::slice::from_raw_parts(bytes, self.chain().key_len())
        }
    }
}
