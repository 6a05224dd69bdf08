//! A commit's position in the order of a Galera cluster, and its bytes. The log has them in commit records
//! (`docs/format/wal.md`, "Records"), the manifest in tag 36.

use std::fmt;

use super::reader::{Malformed, Reader};

/// The form written here.
const FORM: u8 = 1;

/// Bytes of a position without and with a GTID.
const SHORT: usize = 1 + 16 + 8;
const LONG: usize = SHORT + 4 + 4 + 8;

/// The error for a position of a later version.
pub(crate) const LATER_FORM: Malformed = "a cluster's position of a later form";

/// A commit's global transaction id in the servers of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gtid {
    /// The domain.
    pub domain: u32,
    /// The server that the transaction comes from.
    pub server: u32,
    /// The number in the domain.
    pub number: u64,
}

/// The place of a commit in the order of a Galera cluster. The engine compares no two of them: the newest is the one
/// of the newest commit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClusterPosition {
    /// The cluster's history of changes.
    pub uuid: [u8; 16],
    /// The number of the write set in that history; negative: undefined.
    pub number: i64,
    /// The commit's GTID, where it is known.
    pub gtid: Option<Gtid>,
}

impl ClusterPosition {
    /// Most bytes of an encoded position.
    pub(crate) const MAX_LEN: usize = LONG;

    /// Bytes of the encoded position.
    pub(crate) fn encoded_len(&self) -> usize {
        if self.gtid.is_some() {
            LONG
        } else {
            SHORT
        }
    }

    /// Appends the encoded position to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORM);
        out.extend_from_slice(&self.uuid);
        out.extend_from_slice(&self.number.to_le_bytes());
        if let Some(gtid) = &self.gtid {
            out.extend_from_slice(&gtid.domain.to_le_bytes());
            out.extend_from_slice(&gtid.server.to_le_bytes());
            out.extend_from_slice(&gtid.number.to_le_bytes());
        }
    }

    /// Decodes all of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<ClusterPosition, Malformed> {
        let mut reader = Reader { rest: bytes };
        match reader.u8()? {
            FORM => {}
            0 => return Err("a cluster's position of no form"),
            _ => return Err(LATER_FORM),
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(reader.take(16)?);
        let number = i64::from_le_bytes(reader.u64()?.to_le_bytes());
        let mut gtid = None;
        if !reader.rest.is_empty() {
            gtid = Some(Gtid { domain: reader.u32()?, server: reader.u32()?, number: reader.u64()? });
        }
        reader.end()?;
        Ok(ClusterPosition { uuid, number, gtid })
    }
}

/// UUID and number as a server writes them, then the GTID.
impl fmt::Display for ClusterPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.uuid.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        write!(f, ":{}", self.number)?;
        match &self.gtid {
            Some(Gtid { domain, server, number }) => write!(f, ", GTID {domain}-{server}-{number}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Any position.
    pub(crate) fn any_position() -> impl Strategy<Value = ClusterPosition> {
        let gtid =
            any::<(u32, u32, u64)>().prop_map(|(domain, server, number)| Gtid { domain, server, number });
        (any::<[u8; 16]>(), any::<i64>(), proptest::option::of(gtid))
            .prop_map(|(uuid, number, gtid)| ClusterPosition { uuid, number, gtid })
    }

    proptest! {
        #[test]
        fn a_position_comes_back_and_no_prefix_or_extension_does(position in any_position()) {
            let mut bytes = Vec::new();
            position.encode(&mut bytes);
            prop_assert_eq!(bytes.len(), position.encoded_len());
            prop_assert!(bytes.len() <= ClusterPosition::MAX_LEN);
            prop_assert_eq!(ClusterPosition::decode(&bytes), Ok(position));
            // The GTID is the one part that may be missing.
            for end in (0..bytes.len()).filter(|&end| end != SHORT) {
                prop_assert!(ClusterPosition::decode(&bytes[..end]).is_err());
            }
            bytes.push(0);
            prop_assert!(ClusterPosition::decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(position) = ClusterPosition::decode(&bytes) {
                let mut again = Vec::new();
                position.encode(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn the_bytes_of_a_position_stay() {
        let uuid = *b"0123456789abcdef";
        let position =
            ClusterPosition { uuid, number: -1, gtid: Some(Gtid { domain: 2, server: 3, number: 0x0405 }) };
        let mut bytes = Vec::new();
        position.encode(&mut bytes);
        let expected =
            [&[1][..], &uuid, &[0xff; 8], &[2, 0, 0, 0, 3, 0, 0, 0, 5, 4, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(bytes, expected);
        assert_eq!(position.to_string(), "30313233-3435-3637-3839-616263646566:-1, GTID 2-3-1029");
        bytes[0] = 2;
        assert_eq!(ClusterPosition::decode(&bytes), Err(LATER_FORM));
        bytes[0] = 0;
        assert_ne!(ClusterPosition::decode(&bytes), Err(LATER_FORM), "no version writes it");
    }
}
