//! What people and programs get to see: the progress, the table, the files; of a kept run the page
//! ([`html`]), its exports ([`run_csv`]) and its comparison with another ([`compare`]).

pub mod compact;
pub mod compare;
pub mod downsample;
pub mod driver;
pub mod files;
pub mod groups;
pub mod html;
pub mod page;
pub mod progress;
pub mod publish;
pub mod quantity;
pub mod result;
pub mod run_csv;
pub mod run_table;
pub mod sparks;
pub mod svg;
pub mod table;
pub mod tpcc_files;
pub mod tpcc_progress;
pub mod tpcc_table;
