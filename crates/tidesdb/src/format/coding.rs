//! Integers and byte strings in their stored form, common to all formats: little-endian, `varint` (unsigned
//! LEB128 in its shortest form), `bytes` (a varint length and so many bytes). Reading never panics. Truncated
//! or overlong input is `None`; the caller names the place.

/// Appends `value` as a varint.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps signed numbers near zero to small unsigned ones: 0, -1, 1, -2 become 0, 1, 2, 3. As in Protocol
/// Buffers.
pub const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The inverse of [`zigzag`].
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Length of `value` as a varint, in bytes.
pub const fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Reads a varint at `*at` and moves `*at` after it. `None` if it is truncated, longer than necessary or
/// above 64 bits; `*at` is then unspecified.
#[inline]
pub fn get_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    get_long_varint(bytes, at, first)
}

#[inline]
fn get_long_varint(bytes: &[u8], at: &mut usize, first: u8) -> Option<u64> {
    let mut value = u64::from(first & 0x7f);
    for shift in (7..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (byte != 0).then_some(value);
        }
    }
    None
}

/// Reads a varint as a length; `None` if it does not fit a `usize`.
#[inline]
pub fn get_len(bytes: &[u8], at: &mut usize) -> Option<usize> {
    usize::try_from(get_varint(bytes, at)?).ok()
}

/// Appends a varint length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads a varint length and so many bytes at `*at`, and moves `*at` after them.
#[inline]
pub fn get_bytes<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let len = get_len(bytes, at)?;
    let end = at.checked_add(len)?;
    let value = bytes.get(*at..end)?;
    *at = end;
    Some(value)
}

/// The little-endian `u32` at `at`, if it is there whole.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*field))
}

/// The little-endian `u64` at `at`, if it is there whole.
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*field))
}

/// The bytes as whole pieces of `N`, without the remainder at the end.
#[inline]
pub fn pieces<const N: usize>(bytes: &[u8]) -> &[[u8; N]] {
    // SAFETY: the pieces lie within `bytes`, arrays of bytes have no alignment and no padding, and the
    // result borrows `bytes`.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / N) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_numbers_round_trip() {
        for (value, coded) in
            [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1), (i64::MIN, u64::MAX)]
        {
            assert_eq!((zigzag(value), unzigzag(coded)), (coded, value));
        }
    }

    #[test]
    fn pieces_leave_out_the_rest() {
        assert_eq!(pieces::<4>(b"abcdefghijk"), [*b"abcd", *b"efgh"]);
        assert_eq!(pieces::<4>(b"abc"), [[0u8; 4]; 0]);
        assert_eq!(pieces::<8>(b""), [[0u8; 8]; 0]);
    }

    #[test]
    fn varints_round_trip_at_every_length() {
        for bits in 0..=64u32 {
            for value in [(1u128 << bits) - 1, 1u128 << bits] {
                let Ok(value) = u64::try_from(value) else { continue };
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value), "{value}");
                let mut at = 0;
                assert_eq!(get_varint(&out, &mut at), Some(value));
                assert_eq!(at, out.len());
                for cut in 0..out.len() {
                    assert_eq!(get_varint(&out[..cut], &mut 0), None);
                }
            }
        }
    }

    #[test]
    fn overlong_and_oversized_varints_are_refused() {
        assert_eq!(get_varint(&[0x80, 0x00], &mut 0), None);
        assert_eq!(get_varint(&[0xff; 11], &mut 0), None);
        let mut above = [0xff; 10];
        above[9] = 2;
        assert_eq!(get_varint(&above, &mut 0), None);
        above[9] = 1;
        assert_eq!(get_varint(&above, &mut 0), Some(u64::MAX));
    }

    #[test]
    fn bytes_and_fixed_integers_stop_at_the_end() {
        let mut out = Vec::new();
        put_bytes(&mut out, b"abc");
        assert_eq!(get_bytes(&out, &mut 0), Some(&b"abc"[..]));
        assert_eq!(get_bytes(&out[..3], &mut 0), None);
        assert_eq!(get_bytes(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], &mut 0), None);
        assert_eq!(u32_at(&[1, 0, 0, 0], 0), Some(1));
        assert_eq!(u32_at(&[1, 0, 0, 0], 1), None);
        assert_eq!(u64_at(&[1, 0, 0, 0], 0), None);
        assert_eq!(u64_at(&[1, 0, 0, 0], 100), None);
    }
}
