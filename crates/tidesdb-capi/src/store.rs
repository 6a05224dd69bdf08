//! Opening and closing a store; its log lines and lock waits, told to C.

use std::ffi::{c_char, c_int, c_void, CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;

use tidesdb::internal::db::Db;
use tidesdb::internal::lock::WaitObserver;
use tidesdb::internal::options::ProcessMemory;
use tidesdb::{Error, Options, RememberedStore, StoreIdentity};

use crate::error::{fail, guard, guard_shared, OK};
use crate::handles::{DbHandle, FamilyHandle};
use crate::heap;
use crate::observer::{Observer, WaitObserverC};
use crate::values::{direct_reads, format_version, sync_mode};
use crate::{answer, bytes, given, null, Slice, Visit, NOT_FOUND};

/// `tidesdb_log_fn`.
pub type LogFn = unsafe extern "C" fn(context: *mut c_void, level: c_int, message: *const c_char);

/// `tidesdb_label_fn`.
pub type LabelFn = unsafe extern "C" fn(
    context: *mut c_void,
    family: u32,
    name: Slice,
    to: *mut c_char,
    room: usize,
) -> usize;

/// Bytes of a family's label.
const LABEL_ROOM: usize = 1024;

/// `tidesdb_options`.
#[repr(C)]
pub struct OptionsC {
    pub(crate) struct_size: usize,
    pub(crate) owner: *const c_char,
    pub(crate) remembered: *const c_char,
    pub(crate) write_buffer_size: u64,
    pub(crate) block_cache_size: u64,
    pub(crate) max_memory: u64,
    pub(crate) sync_interval_us: u64,
    pub(crate) max_open_files: u32,
    pub(crate) compaction_threads: u32,
    pub(crate) sync_mode: u8,
    pub(crate) direct_reads: u8,
    pub(crate) create_if_missing: u8,
    pub(crate) read_only: u8,
    pub(crate) finish_compactions_on_close: u8,
    pub(crate) flush_on_close: u8,
    pub(crate) cache_grows: u8,
    pub(crate) new_format: u8,
    pub(crate) least_format: u8,
    pub(crate) log_level: c_int,
    pub(crate) log: Option<LogFn>,
    pub(crate) log_context: *mut c_void,
    pub(crate) write_buffer_variable: *const c_char,
    pub(crate) observer: *const WaitObserverC,
    pub(crate) family_label: Option<LabelFn>,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_options_init(options: *mut OptionsC) {
    let defaults = Options::default();
    let value = OptionsC {
        struct_size: std::mem::size_of::<OptionsC>(),
        owner: std::ptr::null(),
        remembered: std::ptr::null(),
        write_buffer_size: defaults.write_buffer_size as u64,
        block_cache_size: defaults.block_cache_size as u64,
        max_memory: 0,
        sync_interval_us: defaults.sync_interval_us,
        max_open_files: defaults.max_open_files as u32,
        compaction_threads: defaults.compaction_threads as u32,
        sync_mode: defaults.sync_mode as u8,
        direct_reads: 0,
        create_if_missing: 1,
        read_only: 0,
        finish_compactions_on_close: 0,
        flush_on_close: 0,
        cache_grows: 0,
        new_format: defaults.new_format.number() as u8,
        least_format: defaults.least_format.number() as u8,
        log_level: 1,
        log: None,
        log_context: std::ptr::null_mut(),
        write_buffer_variable: std::ptr::null(),
        observer: std::ptr::null(),
        family_label: None,
    };
    // SAFETY: the crate's contract.
    let _ = unsafe { answer(options, value) };
}

unsafe fn options_of(c: &OptionsC, log_level: &Arc<AtomicI32>) -> Result<Options, Error> {
    if c.struct_size != std::mem::size_of::<OptionsC>() {
        return Err(Error::InvalidArgument("the options were not made by tidesdb_options_init".into()));
    }
    let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let mut options = Options {
        create_if_missing: c.create_if_missing != 0,
        read_only: c.read_only != 0,
        write_buffer_size: size(c.write_buffer_size),
        block_cache_size: size(c.block_cache_size),
        cache_grows: c.cache_grows != 0,
        max_memory: c.max_memory,
        heap_bytes: Some(heap::heap_bytes),
        process: Some(ProcessMemory::of_this_one()),
        purge_heap: Some(heap::purge),
        sync_mode: sync_mode(c.sync_mode)?,
        direct_reads: direct_reads(c.direct_reads)?,
        sync_interval_us: c.sync_interval_us,
        compaction_threads: c.compaction_threads as usize,
        max_open_files: c.max_open_files as usize,
        finish_compactions_on_close: c.finish_compactions_on_close != 0,
        flush_on_close: c.flush_on_close != 0,
        new_format: format_version(c.new_format)?,
        least_format: format_version(c.least_format)?,
        ..Options::default()
    };
    if !c.write_buffer_variable.is_null() {
        // SAFETY: the crate's contract.
        let name = unsafe { CStr::from_ptr(c.write_buffer_variable) }.to_string_lossy().into_owned();
        // One name for the life of the process: a store is opened once or twice in it.
        options.write_buffer_variable = Box::leak(name.into_boxed_str());
    }
    if !c.owner.is_null() {
        // SAFETY: the crate's contract.
        let text = unsafe { CStr::from_ptr(c.owner) }.to_string_lossy();
        options.identity = Some(StoreIdentity::parse(&text));
    }
    if !c.remembered.is_null() {
        // SAFETY: the crate's contract.
        let text = unsafe { CStr::from_ptr(c.remembered) }.to_string_lossy();
        let (mark, place) = text.split_once('\n').unwrap_or((&text, "what its owner remembers of it"));
        options.remembered = Some(RememberedStore { mark: mark.into(), place: place.into() });
    }
    if let Some(log) = c.log {
        let context = c.log_context as usize;
        let least = log_level.clone();
        options.log = Some(tidesdb::LogSink::new(move |level, message: &str| {
            let level = level as c_int;
            if level < least.load(Ordering::Relaxed) {
                return;
            }
            let line = CString::new(message.replace('\0', " ")).unwrap_or_default();
            // SAFETY: the caller of tidesdb_open gave a function that takes these, from any thread.
            unsafe { log(context as *mut c_void, level, line.as_ptr()) };
        }));
    }
    if let Some(label) = c.family_label {
        let context = c.log_context as usize;
        options.family_label = Some(tidesdb::FamilyLabel::new(move |family, name: &[u8]| {
            let mut text = [0u8; LABEL_ROOM];
            let (name, to) = (Slice::of(name), text.as_mut_ptr().cast());
            // SAFETY: as above; there is room for so many bytes.
            let size = unsafe { label(context as *mut c_void, family, name, to, LABEL_ROOM) };
            String::from_utf8_lossy(&text[..size.min(LABEL_ROOM)]).into_owned()
        }));
    }
    Ok(options)
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_open(
    path: *const c_char,
    options: *const OptionsC,
    db: *mut *mut DbHandle,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { answer(db, std::ptr::null_mut())? };
        // SAFETY: as above.
        let (path, c) = unsafe { (CStr::from_ptr(given(path)?), given(options)?) };
        // SAFETY: as above.
        let log_level = Arc::new(AtomicI32::new(c.log_level));
        // SAFETY: as above.
        let options = unsafe { options_of(c, &log_level)? };
        // SAFETY: as above.
        let observer = unsafe { c.observer.as_ref() }
            .map(|observer| Arc::new(Observer(*observer)) as Arc<dyn WaitObserver>);
        heap::give_back_soon();
        let disk = Arc::new(tidesdb::internal::io::RealDisk);
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let opened = Db::open_on(disk, path, options, observer)?;
        // SAFETY: as above.
        let handle = DbHandle { api: tidesdb::Db::over(opened.clone()), db: opened, log_level };
        // SAFETY: as above.
        unsafe { answer(db, Box::into_raw(Box::new(handle)))? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_close(db: *mut DbHandle) -> c_int {
    if db.is_null() {
        return OK;
    }
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let closed = unsafe { given(db)? }.api.clone().close();
        if let Err(Error::Busy(_)) = closed {
            // An iterator is open: the store stays so, and the handle usable.
            return closed.map(|()| OK);
        }
        // SAFETY: as above: the handle is given up here.
        drop(unsafe { Box::from_raw(db) });
        closed.map(|()| OK)
    })
}

/// `TIDESDB_MARK_SIZE`.
pub(crate) const MARK_SIZE: usize = 64;

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_mark(db: *mut DbHandle, mark: *mut c_char) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(db)? };
        let Some(found) = handle.db.mark() else { return Ok(NOT_FOUND) };
        let text = CString::new(found).unwrap_or_default();
        let bytes = text.as_bytes_with_nul();
        if mark.is_null() || bytes.len() > MARK_SIZE {
            return Err(null());
        }
        // SAFETY: as above; there is room for `MARK_SIZE` bytes.
        unsafe { mark.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_format(db: *const DbHandle) -> u32 {
    // SAFETY: the crate's contract.
    unsafe { db.as_ref() }.map_or(0, |handle| handle.db.format().number())
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_free_space(db: *const DbHandle) -> u64 {
    // SAFETY: the crate's contract.
    unsafe { db.as_ref() }.map_or(u64::MAX, |handle| handle.db.free_space())
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_prepared_list(
    db: *mut DbHandle,
    visit: Visit,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(db)? };
        let visit = visit.ok_or_else(null)?;
        for xid in handle.db.prepared() {
            // SAFETY: as above.
            if unsafe { visit(context, Slice::of(&xid)) } != 0 {
                break;
            }
        }
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_prepared_changes(
    family: *mut FamilyHandle,
    xid: *const u8,
    xid_size: usize,
) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let (handle, xid) = unsafe { (given(family)?, bytes(xid, xid_size)) };
        Ok(if handle.db.prepared_changes(xid, &handle.family) { OK } else { NOT_FOUND })
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_has_expiring_keys(db: *mut DbHandle) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(db)? };
        Ok(if handle.db.has_expiring_keys() { OK } else { NOT_FOUND })
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_expiry_clock_lag(db: *mut DbHandle, seconds: *mut u64) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let lag = unsafe { given(db)? }.db.expiry_lag();
        // SAFETY: as above.
        unsafe { answer(seconds, lag)? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_commit_by_xid(db: *mut DbHandle, xid: *const u8, xid_size: usize) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let (handle, xid) = unsafe { (given(db)?, bytes(xid, xid_size)) };
        Ok(if handle.db.commit_by_xid(xid)? { OK } else { NOT_FOUND })
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_rollback_by_xid(
    db: *mut DbHandle,
    xid: *const u8,
    xid_size: usize,
) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let (handle, xid) = unsafe { (given(db)?, bytes(xid, xid_size)) };
        Ok(if handle.db.rollback_by_xid(xid)? { OK } else { NOT_FOUND })
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_checkpoint_request(
    db: *mut DbHandle,
    cookie: *mut c_void,
    done: Option<unsafe extern "C" fn(cookie: *mut c_void, status: c_int)>,
) -> c_int {
    let cookie = cookie as usize;
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(db)? };
        let done = done.ok_or_else(null)?;
        handle.db.when_durable(Box::new(move |result| {
            let status = result.as_ref().err().map_or(OK, fail);
            // SAFETY: the caller gave a function that takes its cookie, from any thread.
            unsafe { done(cookie as *mut c_void, status) };
        }))?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_flush_log(db: *mut DbHandle) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(db)? };
        handle.db.flush_log()?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_end_log_waits(db: *mut DbHandle) {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(db)? };
        handle.db.end_log_waits();
        Ok(OK)
    });
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_flush(db: *mut DbHandle) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given(db)? };
        handle.db.flush()?;
        Ok(OK)
    })
}
