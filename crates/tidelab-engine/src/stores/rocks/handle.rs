//! An open RocksDB store and its objects, each pointer owned by one value, and freed by it.
//!
//! All `unsafe` calls are here. They rely on these facts:
//!
//! - A pointer from a constructor is valid until its value is dropped.
//! - RocksDB's handles may be used from several threads at once. Its iterators, batches and transactions
//!   may be used by one: they are not `Sync` here and borrow the handle.
//! - RocksDB's slices live as long as the iterator stands or the pinned value exists, as their lifetimes say.
//!
//! Errors of the library are its own texts.

use std::ffi::{c_char, CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::slice;

use librocksdb_sys as ffi;

/// The way to open a store.
pub(super) struct Configuration {
    /// Commits wait for the disk.
    pub(super) sync: bool,
    /// Blocks are compressed.
    pub(super) lz4: bool,
    /// Bytes of the one cache.
    pub(super) cache_bytes: usize,
    /// Bytes of a memtable; two may be there.
    pub(super) write_buffer_bytes: usize,
    /// Bytes of the first level below level 0.
    pub(super) base_level_bytes: u64,
    /// Bytes of a table file.
    pub(super) file_bytes: u64,
    /// Bytes of a block.
    pub(super) block_bytes: usize,
    /// Bits of a filter a key; 0: none.
    pub(super) filter_bits: u32,
    /// Threads for flushes.
    pub(super) flush_threads: i32,
    /// Threads for compactions.
    pub(super) compaction_threads: i32,
    /// Open table files.
    pub(super) open_files: i32,
    /// As a store of optimistic transactions.
    pub(super) optimistic: bool,
}

/// An open store.
pub(super) struct Handle {
    db: *mut ffi::rocksdb_t,
    /// The family of all keys; null for a store of optimistic transactions.
    family: *mut ffi::rocksdb_column_family_handle_t,
    /// The base of `db`; null for a plain store.
    optimistic: *mut ffi::rocksdb_optimistictransactiondb_t,
    write: *mut ffi::rocksdb_writeoptions_t,
    read: *mut ffi::rocksdb_readoptions_t,
    transaction: *mut ffi::rocksdb_optimistictransaction_options_t,
}

// SAFETY: RocksDB synchronises a store itself; the option objects are not changed after the opening.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// Calls a function whose last argument takes an error's text.
fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T, String> {
    let mut error: *mut c_char = null_mut();
    let result = call(&mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: a non-null error is a string that RocksDB allocated and that is the caller's to free.
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        ffi::rocksdb_free(error.cast());
        Err(text)
    }
}

fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

impl Configuration {
    /// Options of the library; the caller destroys them.
    fn options(&self) -> *mut ffi::rocksdb_options_t {
        // SAFETY: every object is fresh; the factory shares the cache and takes the filter policy over, as
        // their destructors' documentation says.
        unsafe {
            let options = ffi::rocksdb_options_create();
            ffi::rocksdb_options_set_create_if_missing(options, 1);
            ffi::rocksdb_options_set_write_buffer_size(options, self.write_buffer_bytes);
            ffi::rocksdb_options_set_max_write_buffer_number(options, 2);
            ffi::rocksdb_options_set_max_bytes_for_level_base(options, self.base_level_bytes);
            ffi::rocksdb_options_set_target_file_size_base(options, self.file_bytes);
            ffi::rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
            ffi::rocksdb_options_set_max_background_flushes(options, self.flush_threads);
            ffi::rocksdb_options_set_max_background_compactions(options, self.compaction_threads);
            ffi::rocksdb_options_set_max_open_files(options, self.open_files);
            let compression =
                if self.lz4 { ffi::rocksdb_lz4_compression } else { ffi::rocksdb_no_compression };
            ffi::rocksdb_options_set_compression(options, compression as i32);
            let table = ffi::rocksdb_block_based_options_create();
            ffi::rocksdb_block_based_options_set_block_size(table, self.block_bytes);
            let cache = ffi::rocksdb_cache_create_lru(self.cache_bytes);
            ffi::rocksdb_block_based_options_set_block_cache(table, cache);
            ffi::rocksdb_cache_destroy(cache);
            ffi::rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
            ffi::rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
            if self.filter_bits > 0 {
                let policy = ffi::rocksdb_filterpolicy_create_bloom_full(f64::from(self.filter_bits));
                ffi::rocksdb_block_based_options_set_filter_policy(table, policy);
            }
            ffi::rocksdb_options_set_block_based_table_factory(options, table);
            ffi::rocksdb_block_based_options_destroy(table);
            options
        }
    }
}

impl Handle {
    /// Opens or makes the store.
    pub(super) fn open(directory: &Path, configuration: &Configuration) -> Result<Handle, String> {
        let path = CString::new(directory.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
        let options = configuration.options();
        let mut family = null_mut();
        // SAFETY: options, path and name are valid for the calls; a failed opening gives null and an error.
        unsafe {
            let opened = if configuration.optimistic {
                checked(|e| ffi::rocksdb_optimistictransactiondb_open(options, path.as_ptr(), e))
                    .map(|db| (ffi::rocksdb_optimistictransactiondb_get_base_db(db), db))
            } else {
                let (name, each) = (c"default".as_ptr(), options.cast_const());
                checked(|e| {
                    ffi::rocksdb_open_column_families(options, path.as_ptr(), 1, &name, &each, &mut family, e)
                })
                .map(|db| (db, null_mut()))
            };
            ffi::rocksdb_options_destroy(options);
            let (db, optimistic) = opened?;
            let write = ffi::rocksdb_writeoptions_create();
            ffi::rocksdb_writeoptions_set_sync(write, configuration.sync.into());
            Ok(Handle {
                db,
                family,
                optimistic,
                write,
                read: ffi::rocksdb_readoptions_create(),
                transaction: ffi::rocksdb_optimistictransaction_options_create(),
            })
        }
    }

    /// Writes one key.
    pub(super) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        // SAFETY: the slices are valid for the call, which copies them.
        checked(|e| unsafe {
            ffi::rocksdb_put(self.db, self.write, chars(key), key.len(), chars(value), value.len(), e);
        })
    }

    /// Deletes one key.
    pub(super) fn delete(&self, key: &[u8]) -> Result<(), String> {
        // SAFETY: as above.
        checked(|e| unsafe { ffi::rocksdb_delete(self.db, self.write, chars(key), key.len(), e) })
    }

    /// Writes a batch filled by `fill`, atomically.
    pub(super) fn write(&self, fill: impl FnOnce(&mut Batch)) -> Result<(), String> {
        // SAFETY: a fresh batch, destroyed by its value.
        let mut batch = Batch(unsafe { ffi::rocksdb_writebatch_create() });
        fill(&mut batch);
        // SAFETY: store, options and batch are valid.
        checked(|e| unsafe { ffi::rocksdb_write(self.db, self.write, batch.0, e) })
    }

    /// The newest value of a key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Pinned>, String> {
        // SAFETY: the key is valid for the call; null means that there is none.
        let value =
            checked(|e| unsafe { ffi::rocksdb_get_pinned(self.db, self.read, chars(key), key.len(), e) })?;
        Ok((!value.is_null()).then_some(Pinned(value)))
    }

    /// The newest values of several keys, by one call.
    pub(super) fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Pinned>>, String> {
        if self.family.is_null() {
            return Err("the store is open for transactions".to_string());
        }
        let starts: Vec<*const c_char> = keys.iter().map(|key| chars(key)).collect();
        let sizes: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let mut values = vec![null_mut(); keys.len()];
        let mut errors: Vec<*mut c_char> = vec![null_mut(); keys.len()];
        // SAFETY: all arrays have a place for each key, and the keys are valid for the call.
        unsafe {
            ffi::rocksdb_batched_multi_get_cf(
                self.db,
                self.read,
                self.family,
                keys.len(),
                starts.as_ptr(),
                sizes.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false.into(),
            );
        }
        let found = values.into_iter().map(|value| (!value.is_null()).then_some(Pinned(value))).collect();
        let failed = errors.into_iter().filter(|error| !error.is_null()).map(|error| {
            checked(|e| {
                // SAFETY: `e` is a place for an error, which frees it.
                unsafe { *e = error }
            })
        });
        // All of them, so that each is freed.
        failed.fold(Ok(()), Result::and).map(|()| found)
    }

    /// An iterator over the store as it is now; it stands nowhere.
    pub(super) fn iterate(&self) -> Iteration<'_> {
        // SAFETY: the store outlives the iterator, which borrows it.
        Iteration(unsafe { ffi::rocksdb_create_iterator(self.db, self.read) }, std::marker::PhantomData)
    }

    /// Begins an optimistic transaction.
    pub(super) fn begin(&self) -> Result<Transaction<'_>, String> {
        if self.optimistic.is_null() {
            return Err("the store is not open for transactions".to_string());
        }
        // SAFETY: store and options are valid; null: no transaction is used again.
        let begun = unsafe {
            ffi::rocksdb_optimistictransaction_begin(
                self.optimistic,
                self.write,
                self.transaction,
                null_mut(),
            )
        };
        Ok(Transaction(begun, self))
    }

    /// Writes the memtable to a file and waits for it.
    pub(super) fn flush(&self) -> Result<(), String> {
        // SAFETY: the options are fresh and destroyed after the call; they wait by default.
        unsafe {
            let options = ffi::rocksdb_flushoptions_create();
            let done = checked(|e| ffi::rocksdb_flush(self.db, options, e));
            ffi::rocksdb_flushoptions_destroy(options);
            done
        }
    }

    /// A numeric property.
    pub(super) fn number(&self, property: &str) -> Option<u64> {
        let name = CString::new(property).ok()?;
        let mut value = 0;
        // SAFETY: the name is a string, the value ours.
        let failed = unsafe { ffi::rocksdb_property_int(self.db, name.as_ptr(), &mut value) };
        (failed == 0).then_some(value)
    }

    /// A text property.
    pub(super) fn text(&self, property: &str) -> Option<String> {
        let name = CString::new(property).ok()?;
        // SAFETY: the name is a string; the answer is null or a string that is ours to free.
        unsafe {
            let value = ffi::rocksdb_property_value(self.db, name.as_ptr());
            if value.is_null() {
                return None;
            }
            let text = CStr::from_ptr(value).to_string_lossy().into_owned();
            ffi::rocksdb_free(value.cast());
            Some(text)
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: sessions, iterators and transactions borrow the handle, so none is left. The base of an
        // optimistic store is a wrapper that has its own destructor.
        unsafe {
            if self.optimistic.is_null() {
                ffi::rocksdb_column_family_handle_destroy(self.family);
                ffi::rocksdb_close(self.db);
            } else {
                ffi::rocksdb_optimistictransactiondb_close_base_db(self.db);
                ffi::rocksdb_optimistictransactiondb_close(self.optimistic);
            }
            ffi::rocksdb_writeoptions_destroy(self.write);
            ffi::rocksdb_readoptions_destroy(self.read);
            ffi::rocksdb_optimistictransaction_options_destroy(self.transaction);
        }
    }
}

/// Changes written together.
pub(super) struct Batch(*mut ffi::rocksdb_writebatch_t);

impl Batch {
    /// Adds a value of a key.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) {
        // SAFETY: the slices are valid for the call, which copies them.
        unsafe {
            ffi::rocksdb_writebatch_put(self.0, chars(key), key.len(), chars(value), value.len());
        }
    }

    /// Adds a deletion.
    pub(super) fn delete(&mut self, key: &[u8]) {
        // SAFETY: as above.
        unsafe { ffi::rocksdb_writebatch_delete(self.0, chars(key), key.len()) }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: ours, once.
        unsafe { ffi::rocksdb_writebatch_destroy(self.0) }
    }
}

/// A value in the cache, held there.
pub(super) struct Pinned(*mut ffi::rocksdb_pinnableslice_t);

impl Pinned {
    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        let mut length = 0;
        // SAFETY: the slice lives as long as the pinned value.
        unsafe {
            let bytes = ffi::rocksdb_pinnableslice_value(self.0, &mut length);
            view(bytes, length)
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: ours, once.
        unsafe { ffi::rocksdb_pinnableslice_destroy(self.0) }
    }
}

/// A view of RocksDB's bytes.
///
/// # Safety
/// `bytes` is null, or points to `length` bytes, unchanged during `'a`.
unsafe fn view<'a>(bytes: *const c_char, length: usize) -> &'a [u8] {
    if bytes == null() || length == 0 {
        return &[];
    }
    // SAFETY: the caller's.
    unsafe { slice::from_raw_parts(bytes.cast(), length) }
}

/// An iterator.
pub(super) struct Iteration<'a>(*mut ffi::rocksdb_iterator_t, std::marker::PhantomData<&'a Handle>);

impl Iteration<'_> {
    /// Stands on the first row.
    pub(super) fn first(&mut self) {
        // SAFETY: a valid iterator, here and below.
        unsafe { ffi::rocksdb_iter_seek_to_first(self.0) }
    }

    /// Stands on the last row.
    pub(super) fn last(&mut self) {
        // SAFETY: see `first`.
        unsafe { ffi::rocksdb_iter_seek_to_last(self.0) }
    }

    /// Stands on the first row at or after a key.
    pub(super) fn at_or_after(&mut self, key: &[u8]) {
        // SAFETY: see `first`.
        unsafe { ffi::rocksdb_iter_seek(self.0, chars(key), key.len()) }
    }

    /// Stands on the last row at or before a key.
    pub(super) fn at_or_before(&mut self, key: &[u8]) {
        // SAFETY: see `first`.
        unsafe { ffi::rocksdb_iter_seek_for_prev(self.0, chars(key), key.len()) }
    }

    /// The current row.
    pub(super) fn row(&self) -> Option<(&[u8], &[u8])> {
        let (mut key_length, mut value_length) = (0, 0);
        // SAFETY: key and value are valid until the iterator moves, which needs it exclusively.
        unsafe {
            if ffi::rocksdb_iter_valid(self.0) == 0 {
                return None;
            }
            let key = ffi::rocksdb_iter_key(self.0, &mut key_length);
            let value = ffi::rocksdb_iter_value(self.0, &mut value_length);
            Some((view(key, key_length), view(value, value_length)))
        }
    }

    /// Steps to the next row; only when it stands on one.
    pub(super) fn next(&mut self) {
        // SAFETY: see `first`.
        unsafe { ffi::rocksdb_iter_next(self.0) }
    }

    /// Steps to the row before; only when it stands on one.
    pub(super) fn previous(&mut self) {
        // SAFETY: see `first`.
        unsafe { ffi::rocksdb_iter_prev(self.0) }
    }

    /// The error, if the rows ended because of one.
    pub(super) fn end(self) -> Result<(), String> {
        // SAFETY: see `first`.
        checked(|e| unsafe { ffi::rocksdb_iter_get_error(self.0, e) })
    }
}

impl Drop for Iteration<'_> {
    fn drop(&mut self) {
        // SAFETY: ours, once.
        unsafe { ffi::rocksdb_iter_destroy(self.0) }
    }
}

/// An optimistic transaction; uncommitted changes are rolled back when it is dropped.
pub(super) struct Transaction<'a>(*mut ffi::rocksdb_transaction_t, &'a Handle);

impl Transaction<'_> {
    /// The value of a key; no other commit may change it until this transaction's.
    pub(super) fn get_for_update(&self, key: &[u8]) -> Result<Option<Pinned>, String> {
        // SAFETY: the key is valid for the call.
        let value = checked(|e| unsafe {
            ffi::rocksdb_transaction_get_pinned_for_update(self.0, self.1.read, chars(key), key.len(), 1, e)
        })?;
        Ok((!value.is_null()).then_some(Pinned(value)))
    }

    /// Writes a key.
    pub(super) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        // SAFETY: the slices are valid for the call, which copies them.
        checked(|e| unsafe {
            ffi::rocksdb_transaction_put(self.0, chars(key), key.len(), chars(value), value.len(), e);
        })
    }

    /// Commits.
    pub(super) fn commit(self) -> Result<(), String> {
        // SAFETY: a transaction that is open.
        checked(|e| unsafe { ffi::rocksdb_transaction_commit(self.0, e) })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SAFETY: ours, once; destroying rolls back what is open.
        unsafe { ffi::rocksdb_transaction_destroy(self.0) }
    }
}
