//! Primitives of the formats in `docs/format.md`: integers, checksums, compression. They are independent of
//! files and tables.

pub mod bits;
pub mod checksum;
pub mod cluster_position;
pub mod coding;
pub mod compression;
pub mod reader;
pub mod units;
pub mod value_pointer;
