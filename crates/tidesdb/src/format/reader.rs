//! A reader of byte strings, field by field: records, batches, lists of locks and runs.

use crate::format::coding::get_varint;

/// The reason that bytes do not decode.
pub type Malformed = &'static str;

/// Fields taken from the front of a byte string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        match self.rest.split_at_checked(n) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err("it ends early"),
        }
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(bytes))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut at = 0;
        let value =
            get_varint(self.rest, &mut at).ok_or("a number does not end, or is not in its shortest form")?;
        self.rest = &self.rest[at..];
        Ok(value)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let n = self.varint()?;
        self.take(usize::try_from(n).map_err(|_| "it ends early")?)
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err("bytes follow its end")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::coding::{put_varint, varint_len};

    #[test]
    fn varints_round_trip_at_every_length() {
        for bits in 0..64 {
            for value in [1u64 << bits, (1u64 << bits) - 1, u64::MAX] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value));
                let mut reader = Reader { rest: &out };
                assert_eq!(reader.varint(), Ok(value));
                assert_eq!(reader.end(), Ok(()));
                assert!(Reader { rest: &out[..out.len() - 1] }.varint().is_err());
            }
        }
        assert!(Reader { rest: &[0xff; 11] }.varint().is_err());
        assert!(Reader { rest: &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2] }
            .varint()
            .is_err());
        assert!(Reader { rest: &[0x81, 0] }.varint().is_err(), "not in its shortest form");
    }
}
