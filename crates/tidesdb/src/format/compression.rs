//! Compression of blocks: bytes to fewer bytes and back. A block that compression does not make an
//! eighth smaller is not worth the time of decompressing it and stays as it is.

use std::io;

use crate::options::Compression;

/// Largest payload that LZ4's block mode takes, in bytes.
const LZ4_MAX_INPUT: usize = 0x7e00_0000;

/// Compresses `raw` into `out` (which it empties first) and says as what it is to be stored: `method`,
/// or [`Compression::None`] when that saves less than an eighth; `out` is then of no use.
pub fn compress(method: Compression, raw: &[u8], out: &mut Vec<u8>) -> Compression {
    out.clear();
    match method {
        Compression::None => Compression::None,
        Compression::Lz4 => {
            let worth = raw.len() - raw.len() / 8;
            if raw.len() > LZ4_MAX_INPUT || worth == raw.len() {
                return Compression::None;
            }
            // The destination is only as long as a result worth having: LZ4 gives up beyond it.
            out.resize(worth, 0);
            match lz4::block::compress_to_buffer(raw, None, false, out) {
                Ok(len) if len > 0 && len < worth => {
                    out.truncate(len);
                    Compression::Lz4
                }
                _ => Compression::None,
            }
        }
    }
}

/// Decompresses `stored` into `raw`, which has exactly the length that the payload must have.
pub fn decompress(method: Compression, stored: &[u8], raw: &mut [u8]) -> io::Result<()> {
    let len = match method {
        Compression::None => {
            if stored.len() == raw.len() {
                raw.copy_from_slice(stored);
            }
            stored.len()
        }
        Compression::Lz4 => {
            let expected =
                i32::try_from(raw.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            lz4::block::decompress_to_buffer(stored, Some(expected), raw)?
        }
    };
    if len != raw.len() {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shrinks_comes_back_and_what_does_not_is_left_alone() {
        let raw: Vec<u8> = (0..4096u32).map(|i| (i / 64) as u8).collect();
        let mut packed = Vec::new();
        assert_eq!(compress(Compression::Lz4, &raw, &mut packed), Compression::Lz4);
        assert!(packed.len() < raw.len() / 2);
        let mut back = vec![0; raw.len()];
        decompress(Compression::Lz4, &packed, &mut back).unwrap();
        assert_eq!(back, raw);

        let mut state = 1u64;
        let noise: Vec<u8> = (0..4096)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        assert_eq!(compress(Compression::Lz4, &noise, &mut packed), Compression::None);
        assert_eq!(compress(Compression::Lz4, b"", &mut packed), Compression::None);
        assert_eq!(compress(Compression::None, &raw, &mut packed), Compression::None);
    }

    #[test]
    fn damaged_or_mislabelled_bytes_are_errors() {
        let raw = vec![7u8; 1000];
        let mut packed = Vec::new();
        assert_eq!(compress(Compression::Lz4, &raw, &mut packed), Compression::Lz4);
        assert!(decompress(Compression::Lz4, &packed, &mut vec![0; 999]).is_err());
        assert!(decompress(Compression::Lz4, &packed, &mut vec![0; 1001]).is_err());
        assert!(decompress(Compression::Lz4, &packed[..packed.len() - 1], &mut vec![0; 1000]).is_err());
        assert!(decompress(Compression::None, &raw, &mut vec![0; 999]).is_err());
    }
}
