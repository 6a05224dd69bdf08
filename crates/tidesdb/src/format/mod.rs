//! Bytes and nothing else: integers, checksums, compression. What the formats of `docs/format.md` are
//! written with; knows no file and no table.

pub mod checksum;
pub mod coding;
pub mod compression;
pub mod reader;
pub mod units;
