//! What people and programs get to see: the progress, the table, the files.

pub mod files;
pub mod progress;
pub mod result;
pub mod table;
pub mod tpcc_files;
pub mod tpcc_progress;
pub mod tpcc_table;
