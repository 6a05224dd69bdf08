//! Memory of rows of many megabytes while they are written.

use parking_lot::Mutex;

use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::options::Options;

/// Times that a large row is in memory at once: as its writer's or the file's block, and in the transaction.
const COPIES: u64 = 2;

/// What large rows take of the bound on memory. The cache gives way for them; the write buffers do not.
#[derive(Debug, Default)]
pub(crate) struct LargeRows {
    reserved: Mutex<u64>,
}

impl LargeRows {
    /// Takes memory for the writing of a row of `len` bytes, and returns the bytes for [`LargeRows::give_back`].
    /// [`Error::TooLittleMemory`] where the bound, the write buffers and others' rows leave too little.
    pub(crate) fn take(&self, len: usize, options: &Options, cache: &BlockCache) -> Result<u64> {
        if options.max_memory == 0 {
            return Ok(0);
        }
        let bytes = len as u64 * COPIES;
        let mut reserved = self.reserved.lock();
        let most = left_of(options);
        if reserved.saturating_add(bytes) > most {
            return Err(Error::TooLittleMemory { len: len as u64, most: (most - *reserved) / COPIES });
        }
        *reserved += bytes;
        make_room(*reserved, options, cache);
        Ok(bytes)
    }

    pub(crate) fn give_back(&self, bytes: u64, options: &Options, cache: &BlockCache) {
        if bytes > 0 {
            let mut reserved = self.reserved.lock();
            *reserved -= bytes;
            make_room(*reserved, options, cache);
        }
    }
}

/// Bytes of the bound that the write buffers leave to cache and rest.
fn left_of(options: &Options) -> u64 {
    options.max_memory.saturating_sub(2 * options.write_buffer_size as u64)
}

/// Sets the cache's size to what `reserved` bytes for rows leave of it.
fn make_room(reserved: u64, options: &Options, cache: &BlockCache) {
    let most = left_of(options).saturating_sub(reserved);
    let size =
        usize::try_from(most).map_or(options.block_cache_size, |most| most.min(options.block_cache_size));
    if cache.capacity() != size {
        cache.set_capacity(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{CachePriority, FrameBuf};

    const MB: usize = 1 << 20;

    #[test]
    fn the_cache_gives_way_and_gets_its_size_back() {
        let options = Options {
            max_memory: 100 * MB as u64,
            write_buffer_size: 20 * MB,
            block_cache_size: 40 * MB,
            ..Options::default()
        };
        let (rows, cache) = (LargeRows::default(), BlockCache::new(40 * MB));
        for block in 0..10_000 {
            let _ = cache.insert(1, block, FrameBuf::new(4096).freeze(), CachePriority::High);
        }
        assert!(cache.bytes() > 20 * MB);
        let small = rows.take(5 * MB, &options, &cache).expect("fits");
        assert_eq!(cache.capacity(), 40 * MB, "there is room beside it");
        let large = rows.take(20 * MB, &options, &cache).expect("fits");
        assert_eq!(cache.capacity(), 10 * MB);
        assert!(cache.bytes() <= 10 * MB);
        let error = rows.take(6 * MB, &options, &cache).expect_err("too much").to_string();
        assert!(error.contains("6291456") && error.contains("5242880"), "{error}");
        rows.give_back(large, &options, &cache);
        rows.give_back(small, &options, &cache);
        assert_eq!(cache.capacity(), 40 * MB);
        assert!(rows.take(31 * MB, &options, &cache).is_err(), "not even alone");
        let unbounded = Options { max_memory: 0, ..options };
        assert_eq!(rows.take(1 << 30, &unbounded, &cache).expect("no bound"), 0);
    }
}
