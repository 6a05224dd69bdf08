//! Results for people and programs.
//!
//! [`progress`] shows them while they come about, [`benchmark`] has the table and files of one benchmark.
//! A kept run has a page ([`html`]), charts ([`svg`], [`curve`]), exports ([`run_csv`]) and comparisons with other runs ([`compare`]).

pub mod benchmark;
pub mod compact;
pub mod compare;
pub mod conditions;
pub mod csv_table;
pub mod curve;
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
