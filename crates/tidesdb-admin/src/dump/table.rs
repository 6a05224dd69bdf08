//! The tables in a file: footer, properties, index, entries.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::{json, Map, Value};
use tidesdb::internal::backup::tables_of_file;
use tidesdb::internal::cache::BlockCache;
use tidesdb::internal::io::Disk;
use tidesdb::internal::iter::VersionIterator;
use tidesdb::internal::table::{SsTable, TableFacts, TableStore};
use tidesdb::{BlockCodec, Error};

use super::{check_file, directory_of, Around, Damage};
use crate::cli::Shown;
use crate::moment::utc;
use crate::output::{put_bytes, Change, Failure, Form, Out};

/// Files open at a time, and bytes of cache.
const OPEN_FILES: usize = 4;
const CACHE: usize = 8 << 20;

/// Most unreadable places in a row until the rest of a table is given up.
const MOST_IN_A_ROW: u32 = 64;

/// Keys of the entries to show: from the first on, to before the other.
pub struct Bounds {
    pub from: Option<Vec<u8>>,
    pub to: Option<Vec<u8>>,
}

/// Parts to show after footer and properties.
#[derive(Clone, Copy)]
pub struct Parts {
    pub index: bool,
    pub entries: bool,
}

/// A table, with its facts from the manifest.
struct Place {
    table: Arc<SsTable>,
    level: Option<u8>,
}

/// The number in the name of a table's file.
fn number_of(file: &Path) -> Result<u64, Failure> {
    let digits = file.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".sst"));
    let number =
        digits.filter(|digits| digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit()));
    number.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        Failure::Other(format!("{} has not the name of a table's file, 00000001.sst", file.display()))
    })
}

/// The tables of the file: as the manifest knows them where it does, else by their footers.
fn places(
    disk: &Arc<dyn Disk>,
    file: &Path,
    around: &Around,
    damage: &mut Damage,
) -> Result<Vec<Place>, Failure> {
    let number = number_of(file)?;
    let (files, cache) =
        (TableStore::new(disk.clone(), directory_of(file), OPEN_FILES), BlockCache::new(CACHE));
    let found = SsTable::find_all(&files, &cache, number)?;
    let listed = match &around.dir {
        // A manifest that cannot be read is not this file's damage.
        Some(dir) => tables_of_file(disk, dir, number).unwrap_or_default(),
        None => Vec::new(),
    };
    if listed.is_empty() {
        found.damage.iter().for_each(|error| damage.add(error.to_string()));
        return Ok(found.tables.into_iter().map(|table| Place { table, level: None }).collect());
    }
    let open = |(level, meta)| Place {
        table: SsTable::open(files.clone(), cache.clone(), number, meta),
        level: Some(level),
    };
    let mut places: Vec<Place> = listed.into_iter().map(open).collect();
    // Those that no version needs any more lie between.
    let known: Vec<u64> = places.iter().map(|place| place.table.meta().offset).collect();
    let dead = found.tables.into_iter().filter(|table| !known.contains(&table.meta().offset));
    places.extend(dead.map(|table| Place { table, level: None }));
    places.sort_by_key(|place| place.table.meta().offset);
    Ok(places)
}

struct Printer<'a, 'o> {
    file: &'a Path,
    around: &'a Around,
    form: Form,
    out: &'a mut Out<'o>,
    damage: Damage,
    left: u64,
}

impl Printer<'_, '_> {
    /// Damage is listed; another error ends the dump.
    fn note(&mut self, error: Error) -> Result<(), Failure> {
        match error {
            Error::Corruption { .. } => {
                self.damage.add(error.to_string());
                Ok(())
            }
            other => Err(other.into()),
        }
    }

    fn head(&mut self, place: &Place) -> Result<(), Failure> {
        let meta = place.table.meta();
        let level = match place.level {
            Some(level) => format!(", level {level}"),
            None => String::new(),
        };
        let family = self.around.family(meta.family);
        self.out.line(format_args!("table at {}: {family}{level}, {} bytes", meta.offset, meta.len))?;
        let facts = match place.table.facts() {
            Ok(facts) => facts,
            Err(error) => return self.note(error),
        };
        self.out.line(format_args!(
            "  footer: version {}, {} levels of index, filter {}, filtered prefix {} bytes, top index at {} ({} bytes){}, properties at \
             {} ({} bytes), filter at {} ({} bytes)",
            facts.version,
            facts.index_levels,
            facts.filter,
            facts.prefix_len,
            facts.top_at.0,
            facts.top_at.1,
            if facts.top_in_cache { " through the cache" } else { "" },
            facts.properties_at.0,
            facts.properties_at.1,
            facts.filter_at.0,
            facts.filter_at.1
        ))?;
        self.out.line(format_args!(
            "  properties: {} entries, {} keys, {} tombstones, {} bytes of keys and values, {} data blocks{} of {} bytes and {} of padding, \
             sequence {} to {}, keys {} to {}{}",
            meta.entries,
            meta.keys,
            meta.tombstones,
            meta.raw_bytes,
            facts.data_blocks,
            if facts.block_codec == BlockCodec::Postings { " (lists of postings)" } else { "" },
            facts.data_bytes,
            facts.padding,
            facts.stored_seq.0,
            facts.stored_seq.1,
            self.form.bytes(&meta.min_key),
            self.form.bytes(&meta.max_key),
            match facts.expiry {
                Some((oldest, newest)) => format!(", expiries {} to {}", utc(oldest), utc(newest)),
                None => String::new(),
            }
        ))?;
        if meta.commit_seq != 0 {
            self.out.line(format_args!(
                "  a large transaction's run: every entry has sequence {}",
                meta.commit_seq
            ))?;
        }
        let fields = self.head_fields(place, &facts);
        self.out.object(&json!({ "table": fields }))
    }

    fn head_fields(&self, place: &Place, facts: &TableFacts) -> Map<String, Value> {
        let meta = place.table.meta();
        let mut fields = Map::new();
        for (name, value) in [
            ("offset", meta.offset),
            ("bytes", meta.len),
            ("family", meta.family.into()),
            ("entries", meta.entries),
            ("keys", meta.keys),
            ("tombstones", meta.tombstones),
            ("raw_bytes", meta.raw_bytes),
            ("data_blocks", facts.data_blocks),
            ("data_bytes", facts.data_bytes),
            ("min_sequence", facts.stored_seq.0),
            ("max_sequence", facts.stored_seq.1),
            ("commit_sequence", meta.commit_seq),
            ("index_levels", facts.index_levels.into()),
            ("filter_prefix_length", facts.prefix_len.into()),
            ("top_index_offset", facts.top_at.0),
            ("properties_offset", facts.properties_at.0),
            ("filter_offset", facts.filter_at.0),
        ] {
            fields.insert(name.into(), value.into());
        }
        fields.insert("filter".into(), facts.filter.into());
        fields.insert("block_codec".into(), facts.block_codec.name().into());
        fields.insert("level".into(), place.level.into());
        fields.insert("family_name".into(), self.around.name(meta.family).into());
        put_bytes(&mut fields, "min_key", &meta.min_key);
        put_bytes(&mut fields, "max_key", &meta.max_key);
        if let Some((oldest, newest)) = facts.expiry {
            fields.insert("oldest_expiry".into(), oldest.into());
            fields.insert("newest_expiry".into(), newest.into());
        }
        fields
    }

    fn index(&mut self, table: &SsTable) -> Result<(), Failure> {
        let mut outcome = Ok(());
        table.each_block(&mut |block| {
            let shown = match block {
                Err(error) => self.note(error),
                Ok(block) => {
                    let mut fields = Map::new();
                    for (name, value) in [
                        ("offset", block.offset),
                        ("bytes", block.len),
                        ("entries_before", block.before),
                        ("tombstones", block.tombstones),
                    ] {
                        fields.insert(name.into(), value.into());
                    }
                    put_bytes(&mut fields, "upto", &block.separator);
                    let line = format!(
                        "  block at {}: {} bytes, {} entries before it, {} tombstones, keys up to {}",
                        block.offset,
                        block.len,
                        block.before,
                        block.tombstones,
                        self.form.bytes(&block.separator)
                    );
                    self.out.line(line).and_then(|()| self.out.object(&json!({ "block": fields })))
                }
            };
            let goes_on = shown.is_ok();
            outcome = shown;
            goes_on
        });
        outcome
    }

    fn entries(&mut self, table: &Arc<SsTable>, bounds: &Bounds) -> Result<(), Failure> {
        let mut iter = table.version_iter();
        let mut step = iter.seek(bounds.from.as_deref().unwrap_or_default());
        let mut in_a_row = 0;
        loop {
            if let Err(error) = step {
                self.note(error)?;
                in_a_row += 1;
                if in_a_row > MOST_IN_A_ROW {
                    self.damage.add(format!(
                        "damage in {}: {in_a_row} places in a row; the rest of the table at offset {} is left out",
                        self.file.display(),
                        table.meta().offset
                    ));
                    return Ok(());
                }
                step = iter.skip();
                if step.is_ok() && !iter.valid() {
                    return Ok(());
                }
                continue;
            }
            if !iter.valid() || bounds.to.as_deref().is_some_and(|to| iter.key() >= to) {
                return Ok(());
            }
            in_a_row = 0;
            // After a damaged block the first entry may lie before the bound.
            if bounds.from.as_deref().is_none_or(|from| iter.key() >= from) {
                if self.left == 0 {
                    return self.out.line("  more entries follow; the limit is reached");
                }
                self.left -= 1;
                let entry = iter.entry();
                let change =
                    Change { kind: entry.kind, effect: None, key: iter.key(), value: entry.stored() };
                self.out.line(format_args!("  {} {}", entry.seq, change.text(self.form)))?;
                if self.out.is_json() {
                    let mut fields = Map::new();
                    fields.insert("sequence".into(), entry.seq.into());
                    change.fields(&mut fields);
                    self.out.object(&json!({ "entry": Value::Object(fields) }))?;
                }
            }
            step = iter.next();
        }
    }
}

/// Prints the tables of a file.
pub fn run(
    disk: &Arc<dyn Disk>,
    file: &Path,
    bounds: &Bounds,
    parts: Parts,
    shown: &Shown,
    out: &mut Out<'_>,
    err: &mut dyn Write,
) -> Result<u8, Failure> {
    check_file(file)?;
    number_of(file)?;
    let around = Around::of(disk, &directory_of(file), err);
    let mut damage = Damage::default();
    let places = places(disk, file, &around, &mut damage)?;
    let left = shown.limit.unwrap_or(u64::MAX);
    let mut printer = Printer { file, around: &around, form: shown.form(), out, damage, left };
    printer.out.line(format_args!("file: {}, {} tables", file.display(), places.len()))?;
    for place in &places {
        printer.head(place)?;
        if parts.index {
            printer.index(&place.table)?;
        }
        let known = printer.damage.count();
        if parts.entries {
            printer.entries(&place.table, bounds)?;
        }
        // A reading of everything, in which nothing was damaged, has not seen the filters and not compared the counts.
        let is_all = parts.entries && shown.limit.is_none() && bounds.from.is_none() && bounds.to.is_none();
        if is_all && printer.damage.count() == known {
            if let Err(error) = place.table.verify() {
                printer.note(error)?;
            }
        }
    }
    let damage = std::mem::take(&mut printer.damage);
    damage.conclude(printer.out)
}
