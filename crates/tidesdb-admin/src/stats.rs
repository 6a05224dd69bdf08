//! A store's figures by family and level, from a read-only opening. Rows in the log alone count as tables in
//! memory: they need as much memory as the server's memtables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::{json, Map, Value};
use tidesdb::internal::cache::BlockCache;
use tidesdb::internal::db::introspection::TableInfo;
use tidesdb::internal::db::stats::FamilyStats;
use tidesdb::internal::io::Disk;
use tidesdb::internal::table::TableStore;
use tidesdb::internal::types::{FileNo, DICTIONARY};
use tidesdb::internal::version::{OpenFor, VersionSet};
use tidesdb::{BlockCodec, Db, Options};

use crate::moment;
use crate::names::Names;
use crate::output::{check_store, put_bytes, shown_name, with_remedy, Failure, Form, Out};
use crate::{DAMAGED, DONE};

/// The way to see the figures of a store in use.
const IN_USE: &str =
    "a running server tells these figures in information_schema.TIDESDB_SSTABLES, TIDESDB_METRICS";

/// Table files open at a time, and bytes of cache, of the list of files: nothing is read through them.
const OPEN_FILES: usize = 16;
const CACHE: usize = 1 << 20;

/// Sums of tables.
#[derive(Default)]
struct Sums {
    tables: u64,
    files: BTreeSet<FileNo>,
    /// Of the tables, those whose rows are in the log alone.
    from_log: u64,
    entries: u64,
    tombstones: u64,
    keys: u64,
    bytes: u64,
    raw_bytes: u64,
    min_key: Option<(Vec<u8>, usize)>,
    max_key: Option<(Vec<u8>, usize)>,
    seq: Option<(u64, u64)>,
    /// Write times of the oldest and the newest file, in seconds since 1970.
    written: Option<(u64, u64)>,
}

impl Sums {
    fn add(&mut self, table: &TableInfo, written: Option<u64>, on_disk: bool) {
        self.tables += 1;
        match on_disk {
            true => drop(self.files.insert(table.file)),
            false => self.from_log += 1,
        }
        self.entries += table.entries;
        self.tombstones += table.tombstones;
        self.keys += table.keys;
        self.bytes += table.bytes;
        self.raw_bytes += table.raw_bytes;
        let (min, max) = (&table.min_key, &table.max_key);
        if self.min_key.as_ref().is_none_or(|(key, _)| min.bytes < *key) {
            self.min_key = Some((min.bytes.clone(), min.len));
        }
        if self.max_key.as_ref().is_none_or(|(key, _)| max.bytes > *key) {
            self.max_key = Some((max.bytes.clone(), max.len));
        }
        let (least, greatest) = self.seq.unwrap_or((table.min_seq, table.max_seq));
        self.seq = Some((least.min(table.min_seq), greatest.max(table.max_seq)));
        if let Some(at) = written {
            let (oldest, newest) = self.written.unwrap_or((at, at));
            self.written = Some((oldest.min(at), newest.max(at)));
        }
    }

    fn text(&self, form: Form, now: u64) -> String {
        let mut text = format!(
            "{} tables in {} files, {} entries, {} tombstones, {} bytes",
            self.tables,
            self.files.len(),
            self.entries,
            self.tombstones,
            self.bytes
        );
        let key = |key: &Option<(Vec<u8>, usize)>| {
            let (bytes, len) = key.clone().unwrap_or_default();
            let more = if len > bytes.len() { "..." } else { "" };
            format!("{}{more}", form.bytes(&bytes))
        };
        if self.tables > 0 {
            text += &format!(", keys {} to {}", key(&self.min_key), key(&self.max_key));
        }
        if let Some((least, greatest)) = self.seq {
            text += &format!(", sequence {least} to {greatest}");
        }
        if let Some((oldest, newest)) = self.written {
            let age = |at: u64| moment::length(now.saturating_sub(at));
            text += &format!(", written {} to {} ago", age(newest), age(oldest));
        }
        if self.from_log > 0 {
            text += &format!(", {} of the tables in the log alone", self.from_log);
        }
        text
    }

    fn fields(&self) -> Map<String, Value> {
        let mut object = Map::new();
        for (name, value) in [
            ("tables", self.tables),
            ("files", self.files.len() as u64),
            ("tables_in_log_alone", self.from_log),
            ("entries", self.entries),
            ("tombstones", self.tombstones),
            ("keys", self.keys),
            ("bytes", self.bytes),
            ("raw_bytes", self.raw_bytes),
        ] {
            object.insert(name.into(), value.into());
        }
        for (name, key) in [("min_key", &self.min_key), ("max_key", &self.max_key)] {
            if let Some((bytes, len)) = key {
                put_bytes(&mut object, name, bytes);
                object.insert(format!("{name}_length"), (*len).into());
            }
        }
        if let Some((least, greatest)) = self.seq {
            object.insert("min_sequence".into(), least.into());
            object.insert("max_sequence".into(), greatest.into());
        }
        if let Some((oldest, newest)) = self.written {
            object.insert("oldest_file".into(), oldest.into());
            object.insert("newest_file".into(), newest.into());
        }
        object
    }
}

/// The files named in the manifest with their lengths, and the missing ones of them.
fn files_of(
    disk: &Arc<dyn Disk>,
    store: &Path,
) -> Result<(BTreeMap<FileNo, u64>, BTreeSet<FileNo>), Failure> {
    let (files, cache) = (TableStore::new(disk.clone(), store, OPEN_FILES), BlockCache::new(CACHE));
    let versions = VersionSet::open(disk.clone(), store, files, cache, OpenFor::Read)?;
    let named = versions.live_files().0.iter().map(|file| (file.number, file.len)).collect();
    Ok((named, versions.missing().into_keys().collect()))
}

/// Bytes of the log's files.
fn log_bytes(store: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(store.join("wal")) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
}

/// A family's rows and the layout of its blocks: as text, and in the document.
fn rows_and_codec(stats: &FamilyStats, codec: BlockCodec, object: &mut Map<String, Value>) -> String {
    object.insert("rows".into(), stats.entries.into());
    object.insert("rows_counted".into(), stats.counted.into());
    object.insert("block_codec".into(), codec.name().into());
    let about = if stats.counted { "" } else { "about " };
    let blocks = if codec == BlockCodec::Plain { "" } else { ", blocks are lists of postings" };
    format!(": {about}{} rows{blocks}", stats.entries)
}

/// Prints the figures.
pub fn run(disk: &Arc<dyn Disk>, store: &Path, out: &mut Out<'_>) -> Result<u8, Failure> {
    check_store(store)?;
    let options = Options { create_if_missing: false, read_only: true, ..Options::default() };
    let db = Db::open(store, options).map_err(|error| with_remedy(error, IN_USE))?;
    let (named, missing) = files_of(disk, store)?;
    let written = |file: FileNo| {
        let modified = std::fs::metadata(store.join(TableStore::file_name(file)))
            .and_then(|meta| meta.modified())
            .ok()?;
        Some(moment::seconds(modified))
    };
    let mut levels: BTreeMap<(u32, u8), Sums> = BTreeMap::new();
    let mut totals = Sums::default();
    for table in db.engine().tables() {
        let on_disk = named.contains_key(&table.file);
        let at = written(table.file).filter(|_| on_disk);
        levels.entry((table.family, table.level)).or_default().add(&table, at, on_disk);
        totals.add(&table, at, on_disk);
    }
    let stats = db.engine().stats();
    let named_families: Vec<_> = db.engine().families();
    let records: Vec<_> =
        named_families.iter().map(|info| (info.family.name(), info.family.record())).collect();
    let names = Names::of(records.iter().map(|(name, record)| (&name[..], &record[..])));
    let mut families = vec![(DICTIONARY, b"(dictionary)".to_vec(), None)];
    for info in named_families {
        let codec = info.family.options().block_codec;
        families.push((info.family.id(), info.family.name().to_vec(), Some((info.stats, codec))));
    }
    let (form, now) = (Form { hex: false, width: 32 }, moment::now());
    let (file_bytes, log) = (named.values().sum::<u64>(), log_bytes(store));
    out.line(format_args!("store: {}", store.display()))?;
    out.line(format_args!("sequence: {}", stats.global_sequence))?;
    out.line(format_args!("families: {}", families.len() - 1))?;
    out.line(format_args!(
        "files: {}, {file_bytes} bytes, the dictionary's second copy included; log: {log} bytes",
        named.len()
    ))?;
    out.line(format_args!("all: {}", totals.text(form, now)))?;
    let mut listed = Vec::new();
    for (id, name, stats) in &families {
        let mut object = Map::new();
        object.insert("family".into(), (*id).into());
        object.insert("name".into(), shown_name(name).into());
        names.put(&mut object, name);
        let mut head = format!("family {} ({id})", names.text(name));
        if let Some((stats, codec)) = stats {
            head += &rows_and_codec(stats, *codec, &mut object);
        }
        out.line(&head)?;
        let mut by_level = Vec::new();
        for ((_, level), sums) in levels.range((*id, 0)..=(*id, u8::MAX)) {
            out.line(format_args!("  level {level}: {}", sums.text(form, now)))?;
            let mut fields = sums.fields();
            fields.insert("level".into(), (*level).into());
            by_level.push(Value::Object(fields));
        }
        object.insert("levels".into(), by_level.into());
        listed.push(Value::Object(object));
    }
    for file in &missing {
        out.line(format_args!("damage: {} is missing", store.join(TableStore::file_name(*file)).display()))?;
    }
    let mut all = totals.fields();
    all.insert("files".into(), named.len().into());
    all.insert("file_bytes".into(), file_bytes.into());
    all.insert("log_bytes".into(), log.into());
    out.document(&json!({
        "store": store.to_string_lossy(),
        "sequence": stats.global_sequence,
        "totals": all,
        "families": listed,
        "missing_files": missing,
    }))?;
    db.close()?;
    Ok(if missing.is_empty() { DONE } else { DAMAGED })
}
