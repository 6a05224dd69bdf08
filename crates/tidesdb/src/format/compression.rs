//! Compression of blocks. A block stays uncompressed unless compression saves an eighth; less is not worth
//! the time for decompression.

use std::io;

use lz4::block::CompressionMode;
use zstd::bulk;

use crate::options::Compression;
use crate::sync::Mutex;

/// Largest payload of LZ4's block mode, in bytes.
const LZ4_MAX_INPUT: usize = 0x7e00_0000;

/// Bytes of each sample of a large payload, compressed first to predict the result.
const SAMPLE: usize = 256 << 10;

/// LZ4's acceleration for [`Compression::Lz4Fast`]; 1 is its default.
const LZ4_FAST: i32 = 8;

/// Zstandard's level; RocksDB and Zstandard's own program have the same default.
const ZSTD_LEVEL: i32 = 3;

/// Idle contexts of Zstandard. A context has a few hundred KB, and its creation takes longer than the
/// compression of a block. Contexts are therefore kept, but not one for each of thousands of threads.
struct Contexts<T>(Mutex<Vec<T>>);

/// Most idle contexts of a kind.
const IDLE_CONTEXTS: usize = 16;

static COMPRESSORS: Contexts<bulk::Compressor<'static>> = Contexts::new();
static DECOMPRESSORS: Contexts<bulk::Decompressor<'static>> = Contexts::new();

impl<T> Contexts<T> {
    const fn new() -> Contexts<T> {
        Contexts(Mutex::new(Vec::new()))
    }

    /// Runs `work` with exclusive use of a context.
    fn with(
        &self,
        make: impl FnOnce() -> io::Result<T>,
        work: impl FnOnce(&mut T) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let idle = self.0.lock().pop();
        let mut context = match idle {
            Some(context) => context,
            None => make()?,
        };
        let answer = work(&mut context);
        let mut idle = self.0.lock();
        if idle.len() < IDLE_CONTEXTS {
            idle.push(context);
        }
        answer
    }
}

/// Compresses `raw` into `out`, replacing its contents. Returns the method to store: `method`, or LZ4 for
/// [`Compression::Lz4Fast`]. Returns [`Compression::None`] if the savings are below an eighth; `out` is then
/// unusable.
pub fn compress(method: Compression, raw: &[u8], out: &mut Vec<u8>) -> Compression {
    out.clear();
    let worth = raw.len() - raw.len() / 8;
    if method == Compression::None || worth == raw.len() {
        return Compression::None;
    }
    let is_large = raw.len() > 16 * SAMPLE;
    if is_large {
        // A large value is mostly a picture or an archive. Three places tell, without as much memory again.
        let places = [0, raw.len() / 2, raw.len() - SAMPLE];
        if places.iter().all(|&at| compress(method, &raw[at..at + SAMPLE], out) == Compression::None) {
            return Compression::None;
        }
        // Zeros of the kernel: what the result does not fill takes no memory.
        *out = vec![0; worth];
    }
    // The destination is only as long as a result worth having: LZ4 and Zstandard give up beyond it.
    out.resize(if method == Compression::Snappy { snap::raw::max_compress_len(raw.len()) } else { worth }, 0);
    let (stored_as, len) = match method {
        Compression::None => return Compression::None,
        Compression::Snappy => (method, snap::raw::Encoder::new().compress(raw, out).unwrap_or(0)),
        Compression::Lz4 => (method, lz4(raw, None, out)),
        Compression::Lz4Fast => (Compression::Lz4, lz4(raw, Some(CompressionMode::FAST(LZ4_FAST)), out)),
        Compression::Zstd => {
            let packed = COMPRESSORS.with(
                || bulk::Compressor::new(ZSTD_LEVEL),
                |context| context.compress_to_buffer(raw, out.as_mut_slice()),
            );
            (method, packed.unwrap_or(0))
        }
    };
    if len == 0 || len >= worth {
        return Compression::None;
    }
    out.truncate(len);
    stored_as
}

/// Compresses `raw` into `out` with LZ4 and returns the length; 0 if the result does not fit `out`.
fn lz4(raw: &[u8], mode: Option<CompressionMode>, out: &mut [u8]) -> usize {
    if raw.len() > LZ4_MAX_INPUT {
        return 0;
    }
    lz4::block::compress_to_buffer(raw, mode, false, out).unwrap_or(0)
}

/// Decompresses `stored` into `raw`, a buffer of the payload's exact length.
pub fn decompress(method: Compression, stored: &[u8], raw: &mut [u8]) -> io::Result<()> {
    let len = match method {
        Compression::None => {
            if stored.len() == raw.len() {
                raw.copy_from_slice(stored);
            }
            stored.len()
        }
        Compression::Snappy => snap::raw::Decoder::new().decompress(stored, raw)?,
        Compression::Lz4 | Compression::Lz4Fast => {
            let expected =
                i32::try_from(raw.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            lz4::block::decompress_to_buffer(stored, Some(expected), raw)?
        }
        Compression::Zstd => DECOMPRESSORS
            .with(bulk::Decompressor::new, |context| context.decompress_to_buffer(stored, &mut *raw))?,
    };
    if len != raw.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Compression; 4] =
        [Compression::Snappy, Compression::Lz4, Compression::Zstd, Compression::Lz4Fast];

    /// Rows of text with numbers, similar to those of tables.
    fn rows(len: usize) -> Vec<u8> {
        let row = |i| format!("{i:08} customer {} in street {}\n", i * 7919 % 1000, i % 13).into_bytes();
        (0..len).flat_map(row).take(len).collect()
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..len).map(next).collect()
    }

    #[test]
    fn a_large_payload_is_compressed_where_one_of_its_places_is_worth_it() {
        let mut raw = noise(6 << 20);
        for method in [Compression::Lz4, Compression::Zstd, Compression::Snappy] {
            assert_eq!(compress(method, &raw, &mut Vec::new()), Compression::None, "{method:?}");
        }
        raw[2 << 20..4 << 20].fill(7);
        for method in [Compression::Lz4, Compression::Zstd, Compression::Snappy] {
            let (mut packed, mut back) = (Vec::new(), vec![0; raw.len()]);
            assert_eq!(compress(method, &raw, &mut packed), method);
            assert!(packed.len() < 5 << 20, "{}", packed.len());
            decompress(method, &packed, &mut back).expect("decompresses");
            assert!(back == raw, "{method:?}");
        }
    }

    #[test]
    fn what_shrinks_comes_back_and_what_does_not_is_left_alone() {
        let mut packed = Vec::new();
        for method in ALL {
            for len in [64, 4096, 70_000] {
                let raw = if len == 64 { vec![7; len] } else { rows(len) };
                let stored_as = compress(method, &raw, &mut packed);
                let expected = if method == Compression::Lz4Fast { Compression::Lz4 } else { method };
                assert_eq!(stored_as, expected, "{len} bytes");
                assert!(packed.len() < raw.len() * 7 / 8, "{method:?}: {len} to {}", packed.len());
                let mut back = vec![0; raw.len()];
                decompress(stored_as, &packed, &mut back).unwrap();
                assert_eq!(back, raw, "{method:?}");
            }
            assert_eq!(compress(method, &noise(4096), &mut packed), Compression::None, "{method:?}");
            assert_eq!(compress(method, b"", &mut packed), Compression::None, "{method:?}");
            assert_eq!(compress(method, b"aaaa", &mut packed), Compression::None, "{method:?}");
        }
        assert_eq!(compress(Compression::None, &rows(4096), &mut packed), Compression::None);
    }

    #[test]
    fn the_methods_are_what_their_names_say() {
        let raw = rows(16_384);
        let len = |method| {
            let mut packed = Vec::new();
            compress(method, &raw, &mut packed);
            packed.len()
        };
        assert!(len(Compression::Zstd) < len(Compression::Lz4));
        assert!(len(Compression::Lz4) < len(Compression::Lz4Fast));
    }

    #[test]
    fn damaged_or_mislabelled_bytes_are_errors() {
        let raw = rows(1000);
        let mut packed = Vec::new();
        for method in ALL {
            let method = compress(method, &raw, &mut packed);
            assert_ne!(method, Compression::None);
            assert!(decompress(method, &packed, &mut vec![0; 999]).is_err(), "{method:?}");
            assert!(decompress(method, &packed, &mut vec![0; 1001]).is_err(), "{method:?}");
            let short = &packed[..packed.len() - 1];
            assert!(decompress(method, short, &mut vec![0; 1000]).is_err(), "{method:?}");
            assert!(decompress(method, &noise(300), &mut vec![0; 1000]).is_err(), "{method:?}");
            // A context that met an error is as good as new.
            let mut back = vec![0; 1000];
            decompress(method, &packed, &mut back).unwrap();
            assert_eq!(back, raw, "{method:?}");
        }
        assert!(decompress(Compression::None, &raw, &mut vec![0; 999]).is_err());
    }

    #[test]
    fn threads_have_contexts_of_their_own() {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    let raw = rows(5000 + thread * 100);
                    let (mut packed, mut back) = (Vec::new(), vec![0; raw.len()]);
                    for _ in 0..50 {
                        assert_eq!(compress(Compression::Zstd, &raw, &mut packed), Compression::Zstd);
                        decompress(Compression::Zstd, &packed, &mut back).unwrap();
                        assert_eq!(back, raw);
                    }
                });
            }
        });
        assert!(COMPRESSORS.0.lock().len() <= IDLE_CONTEXTS);
    }
}
