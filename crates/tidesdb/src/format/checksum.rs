//! CRC-32C, the checksum of every format.

/// CRC-32C of `bytes`.
pub fn crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// CRC-32C of a byte string with the checksum `crc`, followed by `bytes`.
pub fn extend(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_crc_32c() {
        assert_eq!(super::crc(b"123456789"), 0xe306_9283);
        assert_eq!(super::extend(super::crc(b"1234"), b"56789"), 0xe306_9283);
    }
}
