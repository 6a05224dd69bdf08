//! Backups of an open store; verifying and restoring finished ones.

use std::ffi::{c_char, c_int, c_void, CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tidesdb::internal::backup::{self, Backup, BackupOptions, Watch};
use tidesdb::internal::io::RealDisk;
use tidesdb::Error;

use crate::error::{guard, guard_shared, OK};
use crate::handles::DbHandle;
use crate::{answer, given, given_mut, null};

/// `tidesdb_watch`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct WatchC {
    pub(crate) context: *mut c_void,
    pub(crate) stop: Option<unsafe extern "C" fn(context: *mut c_void) -> c_int>,
    pub(crate) progress: Option<unsafe extern "C" fn(context: *mut c_void, done: u64, total: u64)>,
}

/// Told a damaged file and a family with tables in it.
type LeftOutC = unsafe extern "C" fn(context: *mut c_void, file: *const c_char, family: *const c_char);

/// `tidesdb_backup_job`.
pub struct BackupHandle {
    backup: Backup,
    /// The callback for damaged files, and its context.
    left_out: Option<(LeftOutC, *mut c_void)>,
}

/// Runs `work` with the caller's functions; null is nobody's.
///
/// # Safety
/// As for the crate.
unsafe fn watched<T>(watch: *const WatchC, work: impl FnOnce(Watch<'_>) -> T) -> T {
    // SAFETY: the caller's contract.
    let Some(c) = (unsafe { watch.as_ref() }) else { return work(Watch::NONE) };
    let stop = || {
        c.stop.is_some_and(|stop| {
            // SAFETY: the header demands functions that take their context, for the time of the call.
            unsafe { stop(c.context) != 0 }
        })
    };
    let progress = |done: u64, total: u64| {
        if let Some(progress) = c.progress {
            // SAFETY: as above.
            unsafe { progress(c.context, done, total) }
        }
    };
    work(Watch { stop: &stop, progress: &progress })
}

/// # Safety
/// As for the crate.
unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path, Error> {
    // SAFETY: the caller's contract.
    let text = unsafe { CStr::from_ptr(given(path)?) };
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// # Safety
/// As for the crate.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Error> {
    // SAFETY: the caller's contract.
    let text = unsafe { CStr::from_ptr(given(text)?) };
    text.to_str().map_err(|_| Error::InvalidArgument("a name or note of a backup is not UTF-8".into()))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_backup(
    db: *mut DbHandle,
    to: *const c_char,
    links: c_int,
    watch: *const WatchC,
) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let (handle, to) = unsafe { (given(db)?, path(to)?) };
        let options = BackupOptions { links: links != 0 };
        // SAFETY: as above.
        unsafe { watched(watch, |watch| handle.db.backup(to, options, watch)) }?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_backup_begin(
    db: *mut DbHandle,
    to: *const c_char,
    links: c_int,
    job: *mut *mut BackupHandle,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { answer(job, std::ptr::null_mut())? };
        // SAFETY: as above.
        let (handle, to) = unsafe { (given(db)?, path(to)?) };
        let backup = handle.db.begin_backup(to, BackupOptions { links: links != 0 })?;
        // SAFETY: as above.
        unsafe { answer(job, Box::into_raw(Box::new(BackupHandle { backup, left_out: None })))? };
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_backup_set_rate(job: *mut BackupHandle, bytes_a_second: u64) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        unsafe { given_mut(job)? }.backup.set_rate(bytes_a_second);
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_backup_set_base(job: *mut BackupHandle, base: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, base) = unsafe { (given_mut(job)?, path(base)?) };
        handle.backup.set_base(base)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_backup_leave_out_damaged(
    job: *mut BackupHandle,
    left_out: Option<LeftOutC>,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given_mut(job)? };
        handle.backup.leave_out_damaged();
        handle.left_out = left_out.map(|left_out| (left_out, context));
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_backup_point(
    job: *mut BackupHandle,
    watch: *const WatchC,
    sequence: *mut u64,
) -> c_int {
    guard_shared(|| {
        // SAFETY: the crate's contract.
        let handle = unsafe { given_mut(job)? };
        // SAFETY: as above.
        let seq = unsafe { watched(watch, |watch| handle.backup.take_point(watch)) }?;
        if !sequence.is_null() {
            // SAFETY: as above.
            unsafe { answer(sequence, seq)? };
        }
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_backup_add_file(
    job: *mut BackupHandle,
    from: *const c_char,
    name: *const c_char,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, from, name) = unsafe { (given_mut(job)?, path(from)?, text(name)?) };
        handle.backup.add_file(from, name)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_backup_note(
    job: *mut BackupHandle,
    name: *const c_char,
    value: *const c_char,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (handle, name, value) = unsafe { (given_mut(job)?, text(name)?, text(value)?) };
        handle.backup.note(name, value)?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_backup_finish(job: *mut BackupHandle, watch: *const WatchC) -> c_int {
    guard(|| {
        if job.is_null() {
            return Err(null());
        }
        // SAFETY: the crate's contract: the handle is given up here.
        let BackupHandle { backup, left_out } = *unsafe { Box::from_raw(job) };
        // SAFETY: as above.
        let info = unsafe { watched(watch, |watch| backup.finish(watch)) }?;
        let Some((tell, context)) = left_out else { return Ok(OK) };
        for damaged in info.left_out {
            // A family's name is shown up to its first NUL, which C ends a text with.
            let family = damaged.family.split('\0').next().unwrap_or_default();
            let (Ok(file), Ok(family)) = (CString::new(damaged.file), CString::new(family)) else { continue };
            // SAFETY: the header demands a function that takes its context, until the call of finish ends.
            unsafe { tell(context, file.as_ptr(), family.as_ptr()) };
        }
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_backup_abandon(job: *mut BackupHandle) {
    if !job.is_null() {
        let _ = guard(|| {
            // SAFETY: the crate's contract: the handle is given up here.
            drop(unsafe { Box::from_raw(job) });
            Ok(OK)
        });
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_backup_verify(from: *const c_char, watch: *const WatchC) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let from = unsafe { path(from)? };
        // SAFETY: as above.
        unsafe { watched(watch, |watch| backup::verify(&RealDisk::shared(), from, watch)) }?;
        Ok(OK)
    })
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn tidesdb_backup_restore(
    from: *const c_char,
    store: *const c_char,
    data: *const c_char,
    watch: *const WatchC,
) -> c_int {
    guard(|| {
        // SAFETY: the crate's contract.
        let (from, store) = unsafe { (path(from)?, path(store)?) };
        let data = match data.is_null() {
            true => None,
            // SAFETY: as above.
            false => Some(unsafe { path(data)? }),
        };
        let disk = RealDisk::shared();
        // SAFETY: as above.
        unsafe { watched(watch, |watch| backup::restore(&disk, from, store, data, watch)) }?;
        Ok(OK)
    })
}
