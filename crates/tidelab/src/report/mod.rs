//! Results for people and programs: [`progress`] while they come about, [`benchmark`] for the table and
//! the files of one benchmark; for a kept run its page ([`html`]), its exports ([`run_csv`]) and its
//! comparison with another run ([`compare`]).

pub mod benchmark;
pub mod compact;
pub mod compare;
pub mod csv_table;
pub mod downsample;
pub mod driver;
pub mod groups;
pub mod html;
pub mod page;
pub mod progress;
pub mod publish;
pub mod quantity;
pub mod run_csv;
pub mod run_table;
pub mod sparks;
pub mod svg;
