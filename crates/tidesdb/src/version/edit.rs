//! Edits, the differences between one version of a store and the next, and their encoding in the manifest
//! (`docs/format/manifest.md`). Plain data: `manifest.rs` frames and checksums an edit, `mod.rs` applies it.

use crate::format::cluster_position::{ClusterPosition, LATER_FORM};
use crate::format::coding::{get_varint, put_bytes, put_varint, unzigzag, zigzag};
use crate::sync::note;
use crate::table::{Expiries, SsTableMeta, ValueUse};
use crate::types::{FamilyId, FileNo, LogSegment, Lsn, MemtableId, RowCount, Seq, MAX_KEY_LEN, MAX_SEQ};
use crate::wal::EpochBoundary;

/// Deepest level of the format.
pub const MAX_LEVEL: u8 = 63;

/// A file added by an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// The file's number.
    pub number: FileNo,
    /// Length in bytes.
    pub len: u64,
}

/// A table added by an edit to a family's level.
#[derive(Clone, Debug)]
pub struct NewTable {
    /// The file of the table.
    pub file: FileNo,
    /// The level; 0 is the newest.
    pub level: u8,
    /// Generation of a run of level 0, highest in the newest run; 0 in deeper levels.
    pub generation: MemtableId,
    /// Family, place in the file, key range and counts.
    pub meta: SsTableMeta,
}

/// A change of a store's state. An empty or `None` field changes nothing. Parts apply in this order:
/// dropped families, removed tables, new files, new tables, deleted files.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// Number of openings for writing.
    pub epoch: Option<u64>,
    /// A number above every file number in use; never decreases.
    pub next_file: Option<FileNo>,
    /// First live segment of the write-ahead log; never decreases.
    pub first_live_segment: Option<u32>,
    /// Boundaries between epochs of the log to add.
    pub boundaries: Vec<EpochBoundary>,
    /// Segments whose boundaries are removed.
    pub boundaries_removed: Vec<u32>,
    /// Removes log segments with higher ids, before others are added; recovery then does not report them
    /// missing.
    pub log_forgotten_above: Option<u32>,
    /// Log segments whose files exist from now on.
    pub log_segments: Vec<LogSegment>,
    /// Log position below which the log is durable; never decreases.
    pub durable_upto: Option<Lsn>,
    /// The newest commit in a table; never decreases.
    pub last_seq: Option<Seq>,
    /// The newest generation whose tables are all in the manifest; never decreases.
    pub last_generation: Option<MemtableId>,
    /// Added files.
    pub new_files: Vec<NewFile>,
    /// Files without live tables. [`super::VersionSet::apply`] fills the list; jobs leave it empty.
    pub deleted_files: Vec<FileNo>,
    /// Added tables.
    pub new_tables: Vec<NewTable>,
    /// Removed tables, by family and file.
    pub removed_tables: Vec<(FamilyId, FileNo)>,
    /// Families whose tables, cursors and counts are all removed.
    pub dropped_families: Vec<FamilyId>,
    /// Compaction cursors: family, level, key. An empty key removes the cursor.
    pub cursors: Vec<(FamilyId, u8, Vec<u8>)>,
    /// Lower bound of the transaction ids never given out; never decreases.
    pub transaction_ceiling: Option<u64>,
    /// Lower bound, in seconds, of the expiry clock for all readers; never decreases. A store without this
    /// value has no entry with an expiry.
    pub expiry_clock: Option<u64>,
    /// Upper bound, in seconds, of the expiry clock until an edit raises it; may decrease.
    pub expiry_reserved: Option<u64>,
    /// First epoch with unmarked puts (`docs/protocols.md` 3.5); the first recorded value stays.
    pub proven_from: Option<u64>,
    /// Puts up to this sequence number prove nothing, because older versions of their keys may be lost; never
    /// decreases.
    pub unproven_upto: Option<Seq>,
    /// Options to store, by name; an empty value removes an option.
    pub options: Vec<(String, String)>,
    /// Amounts to add to families' row counts; several amounts for one family add up.
    pub row_counts: Vec<(FamilyId, RowCount)>,
    /// Families from this number on have been counted since their creation; never increases.
    pub counted_from: Option<FamilyId>,
    /// Value files that exist from now on.
    pub value_files: Vec<FileNo>,
    /// Value files that no table or other holder needs any more.
    pub ended_value_files: Vec<FileNo>,
    /// The cluster's position as of `last_seq`; replaces the one before, a higher one too.
    pub position: Option<ClusterPosition>,
}

mod tag {
    pub const EPOCH: u64 = 1;
    pub const NEXT_FILE: u64 = 2;
    pub const FIRST_LIVE_SEGMENT: u64 = 3;
    pub const BOUNDARY: u64 = 4;
    pub const BOUNDARY_REMOVED: u64 = 5;
    pub const DURABLE_UPTO: u64 = 6;
    pub const LAST_SEQ: u64 = 7;
    pub const LAST_GENERATION: u64 = 8;
    pub const NEW_FILE: u64 = 9;
    pub const DELETED_FILE: u64 = 10;
    pub const NEW_TABLE: u64 = 11;
    pub const REMOVED_TABLE: u64 = 12;
    pub const DROPPED_FAMILY: u64 = 13;
    pub const CURSOR: u64 = 14;
    pub const COMMITTED_TABLE: u64 = 15;
    pub const TRANSACTION_CEILING: u64 = 16;
    pub const OPTION: u64 = 17;
    pub const ROW_COUNT: u64 = 18;
    pub const COUNTED_FROM: u64 = 19;
    pub const EXPIRY_CLOCK: u64 = 20;
    pub const TABLE_EXPIRY: u64 = 21;
    pub const PROVEN_FROM: u64 = 22;
    pub const EXPIRY_RESERVED: u64 = 23;
    pub const LOG_SEGMENT: u64 = 24;
    pub const LOG_FORGOTTEN: u64 = 25;
    pub const TABLE_MIRROR: u64 = 26;
    pub const UNPROVEN_UPTO: u64 = 27;
    pub const VALUE_FILE: u64 = 31;
    pub const ENDED_VALUE_FILE: u64 = 32;
    pub const TABLE_VALUES: u64 = 33;
    pub const POSITION: u64 = 36;

    /// The reason that this build refuses a tag.
    pub fn of_later(tag: u64) -> &'static str {
        match tag {
            28 => "a file in an object store",
            29 => "the origin of a clone in an object store",
            30 => "the key of a sealed table",
            34 => "history that is kept",
            35 => "times of commits",
            _ => "no version of the format that this engine knows has this tag",
        }
    }
}

impl Edit {
    /// Releases the log before segment `first_live`, with those of the listed `boundaries` before it.
    pub(crate) fn set_first_live_segment(&mut self, first_live: u32, boundaries: &[EpochBoundary]) {
        self.first_live_segment = Some(first_live);
        let passed = boundaries.iter().filter(|boundary| boundary.next_segment <= first_live);
        self.boundaries_removed = passed.map(|boundary| boundary.at.segment()).collect();
    }

    /// Tells the simulation its kinds.
    pub(super) fn note(&self) {
        let (adds, removes) = (!self.new_tables.is_empty(), !self.removed_tables.is_empty());
        let (flushes, moves) = (self.last_generation.is_some(), self.new_files.is_empty());
        let kinds = [
            (!self.dropped_families.is_empty(), "edit: drops a family"),
            (!self.row_counts.is_empty(), "edit: count of rows"),
            (self.expiry_clock.is_some() || self.expiry_reserved.is_some(), "edit: expiry clock"),
            (!self.options.is_empty(), "edit: option"),
            (self.first_live_segment.is_some(), "edit: releases log"),
            (self.log_forgotten_above.is_some(), "edit: forgets log"),
            (!self.log_segments.is_empty(), "edit: lists a log segment"),
            (!self.boundaries.is_empty(), "edit: epoch boundary"),
            (!self.value_files.is_empty(), "edit: value file"),
            (!self.ended_value_files.is_empty(), "edit: value file ends"),
            (flushes && adds, "edit: flush"),
            (flushes && !adds, "edit: flush without tables"),
            (!flushes && removes && adds && moves, "edit: moves a table"),
            (!flushes && removes && adds && !moves, "edit: merge"),
            (!flushes && removes && !adds, "edit: merge without tables"),
        ];
        kinds.iter().filter(|(is_one, _)| *is_one).for_each(|(_, kind)| note(kind));
    }

    /// Appends the encoded payload to `out`.
    #[allow(clippy::too_many_lines, reason = "one field after the other")]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        let mut field = |tag: u64, fill: &dyn Fn(&mut Vec<u8>)| {
            body.clear();
            fill(&mut body);
            put_varint(out, tag);
            put_bytes(out, &body);
        };
        let numbers = |numbers: &[u64]| {
            let numbers = numbers.to_vec();
            move |body: &mut Vec<u8>| numbers.iter().for_each(|&n| put_varint(body, n))
        };
        for (tag, value) in [
            (tag::EPOCH, self.epoch),
            (tag::NEXT_FILE, self.next_file),
            (tag::FIRST_LIVE_SEGMENT, self.first_live_segment.map(u64::from)),
            (tag::LAST_SEQ, self.last_seq),
            (tag::LAST_GENERATION, self.last_generation),
            (tag::TRANSACTION_CEILING, self.transaction_ceiling),
            (tag::COUNTED_FROM, self.counted_from.map(u64::from)),
            (tag::EXPIRY_CLOCK, self.expiry_clock),
            (tag::PROVEN_FROM, self.proven_from),
            (tag::EXPIRY_RESERVED, self.expiry_reserved),
            (tag::LOG_FORGOTTEN, self.log_forgotten_above.map(u64::from)),
            (tag::UNPROVEN_UPTO, self.unproven_upto),
        ] {
            if let Some(value) = value {
                field(tag, &numbers(&[value]));
            }
        }
        if let Some(position) = &self.position {
            field(tag::POSITION, &|body| position.encode(body));
        }
        if let Some(lsn) = self.durable_upto {
            field(tag::DURABLE_UPTO, &numbers(&[lsn.segment().into(), lsn.offset().into()]));
        }
        for boundary in &self.boundaries {
            field(
                tag::BOUNDARY,
                &numbers(&[
                    boundary.at.segment().into(),
                    boundary.at.offset().into(),
                    boundary.epoch,
                    boundary.next_segment.into(),
                    boundary.next_seq,
                ]),
            );
        }
        for &segment in &self.boundaries_removed {
            field(tag::BOUNDARY_REMOVED, &numbers(&[segment.into()]));
        }
        for segment in &self.log_segments {
            field(tag::LOG_SEGMENT, &numbers(&[segment.id.into(), segment.epoch, segment.file]));
        }
        for &family in &self.dropped_families {
            field(tag::DROPPED_FAMILY, &numbers(&[family.into()]));
        }
        for &(family, file) in &self.removed_tables {
            field(tag::REMOVED_TABLE, &numbers(&[file, family.into()]));
        }
        for &file in &self.value_files {
            field(tag::VALUE_FILE, &numbers(&[file, file, 0]));
        }
        for file in &self.new_files {
            field(tag::NEW_FILE, &numbers(&[file.number, file.len]));
        }
        for new in &self.new_tables {
            match new.meta.commit_seq {
                0 => field(tag::NEW_TABLE, &|body| new.encode(body)),
                seq => field(tag::COMMITTED_TABLE, &|body| {
                    new.encode(body);
                    put_varint(body, seq);
                }),
            }
            if let Some(expiry) = new.meta.expiry {
                let family = u64::from(new.meta.family);
                let body = [new.file, family, expiry.oldest, expiry.newest, expiry.entries];
                field(tag::TABLE_EXPIRY, &numbers(&body));
            }
            if new.meta.mirror != 0 {
                field(tag::TABLE_MIRROR, &numbers(&[new.file, new.meta.family.into(), new.meta.mirror]));
            }
            if !new.meta.values.is_empty() {
                field(tag::TABLE_VALUES, &|body| {
                    put_varint(body, new.file);
                    put_varint(body, new.meta.family.into());
                    ValueUse::put_all(&new.meta.values, body);
                });
            }
        }
        for &file in &self.deleted_files {
            field(tag::DELETED_FILE, &numbers(&[file]));
        }
        for &file in &self.ended_value_files {
            field(tag::ENDED_VALUE_FILE, &numbers(&[file]));
        }
        for (family, level, key) in &self.cursors {
            field(tag::CURSOR, &|body| {
                put_varint(body, (*family).into());
                put_varint(body, (*level).into());
                body.extend_from_slice(key);
            });
        }
        for &(family, row_count) in &self.row_counts {
            field(
                tag::ROW_COUNT,
                &numbers(&[family.into(), zigzag(row_count.rows), zigzag(row_count.uncounted)]),
            );
        }
        for (name, value) in &self.options {
            field(tag::OPTION, &|body| {
                put_bytes(body, name.as_bytes());
                body.extend_from_slice(value.as_bytes());
            });
        }
    }

    /// Decodes a payload. The error names the byte and the cause.
    pub fn decode(payload: &[u8]) -> Result<Edit, DecodeError> {
        let mut edit = Edit::default();
        let mut all = Input { rest: payload, total: payload.len() };
        while !all.rest.is_empty() {
            let at = all.at();
            let tag = all.varint()?;
            let body = all.bytes()?;
            let mut body = Input { rest: body, total: body.len() };
            edit.decode_field(tag, &mut body).map_err(|e| DecodeError {
                at,
                what: format!("in the field with tag {tag}: {}", e.what),
                later: e.later,
            })?;
            if !body.rest.is_empty() {
                let what = format!("{} bytes too many in the field with tag {tag}", body.rest.len());
                return Err(DecodeError { at, what, later: false });
            }
        }
        Ok(edit)
    }

    #[allow(clippy::too_many_lines, reason = "one arm for each tag")]
    fn decode_field(&mut self, tag: u64, body: &mut Input<'_>) -> Result<(), DecodeError> {
        match tag {
            tag::EPOCH => self.epoch = Some(body.varint()?),
            tag::NEXT_FILE => self.next_file = Some(body.varint()?),
            tag::FIRST_LIVE_SEGMENT => self.first_live_segment = Some(body.u32("segment")?),
            tag::BOUNDARY => self.boundaries.push(EpochBoundary {
                at: body.lsn()?,
                epoch: body.varint()?,
                next_segment: body.u32("segment")?,
                next_seq: body.seq()?,
            }),
            tag::BOUNDARY_REMOVED => self.boundaries_removed.push(body.u32("segment")?),
            tag::DURABLE_UPTO => self.durable_upto = Some(body.lsn()?),
            tag::LAST_SEQ => self.last_seq = Some(body.seq()?),
            tag::LAST_GENERATION => self.last_generation = Some(body.varint()?),
            tag::NEW_FILE => {
                self.new_files.push(NewFile { number: body.varint()?, len: body.varint()? });
            }
            tag::DELETED_FILE => self.deleted_files.push(body.varint()?),
            tag::NEW_TABLE => self.new_tables.push(NewTable::decode(body)?),
            tag::REMOVED_TABLE => {
                let file = body.varint()?;
                self.removed_tables.push((body.u32("family")?, file));
            }
            tag::DROPPED_FAMILY => self.dropped_families.push(body.u32("family")?),
            tag::CURSOR => {
                self.cursors.push((body.u32("family")?, body.level()?, body.take_rest().to_vec()));
            }
            tag::COMMITTED_TABLE => {
                let mut new = NewTable::decode(body)?;
                let seq = body.seq()?;
                if seq == 0 || new.meta.entries != new.meta.keys {
                    return Err(body.error("a table with one sequence number has it, and each key once"));
                }
                new.meta = new.meta.committed_at(seq);
                self.new_tables.push(new);
            }
            tag::TRANSACTION_CEILING => self.transaction_ceiling = Some(body.varint()?),
            tag::ROW_COUNT => {
                let family = body.u32("family")?;
                let row_count =
                    RowCount { rows: unzigzag(body.varint()?), uncounted: unzigzag(body.varint()?) };
                self.row_counts.push((family, row_count));
            }
            tag::COUNTED_FROM => self.counted_from = Some(body.u32("family")?),
            tag::EXPIRY_CLOCK => self.expiry_clock = Some(body.varint()?),
            tag::PROVEN_FROM => self.proven_from = Some(body.varint()?),
            tag::EXPIRY_RESERVED => self.expiry_reserved = Some(body.varint()?),
            tag::UNPROVEN_UPTO => self.unproven_upto = Some(body.varint()?),
            tag::LOG_FORGOTTEN => self.log_forgotten_above = Some(body.u32("segment")?),
            tag::LOG_SEGMENT => self.log_segments.push(LogSegment {
                id: body.u32("segment")?,
                epoch: body.varint()?,
                file: body.varint()?,
            }),
            tag::TABLE_EXPIRY => {
                let (file, family) = (body.varint()?, body.u32("family")?);
                let expiry =
                    Expiries { oldest: body.varint()?, newest: body.varint()?, entries: body.varint()? };
                if expiry.oldest > expiry.newest {
                    return Err(body.error("the first expiry is after the last"));
                }
                match self.new_tables.last_mut() {
                    Some(new) if new.file == file && new.meta.family == family => {
                        new.meta.expiry = Some(expiry);
                    }
                    _ => return Err(body.error("it does not follow its table")),
                }
            }
            tag::TABLE_MIRROR => {
                let (file, family, mirror) = (body.varint()?, body.u32("family")?, body.varint()?);
                match self.new_tables.last_mut() {
                    Some(new) if new.file == file && new.meta.family == family && mirror != file => {
                        new.meta.mirror = mirror;
                    }
                    _ => return Err(body.error("it does not follow its table")),
                }
            }
            tag::VALUE_FILE => {
                let (logical, file, section) = (body.varint()?, body.varint()?, body.varint()?);
                if (file, section) != (logical, 0) {
                    return Err(DecodeError { later: true, ..body.error("a value file that was collected") });
                }
                self.value_files.push(file);
            }
            tag::ENDED_VALUE_FILE => self.ended_value_files.push(body.varint()?),
            tag::TABLE_VALUES => {
                let (file, family) = (body.varint()?, body.u32("family")?);
                let mut values = Vec::new();
                while !body.rest.is_empty() {
                    values.push(ValueUse::take(|| body.varint())?);
                }
                if !values.is_sorted_by(|a: &ValueUse, b| a.file < b.file) {
                    return Err(body.error("the value files of a table are out of order"));
                }
                match self.new_tables.last_mut() {
                    Some(new) if new.file == file && new.meta.family == family => new.meta.values = values,
                    _ => return Err(body.error("it does not follow its table")),
                }
            }
            tag::POSITION => {
                let position = ClusterPosition::decode(body.take_rest());
                let position =
                    position.map_err(|what| DecodeError { later: what == LATER_FORM, ..body.error(what) })?;
                self.position = Some(position);
            }
            tag::OPTION => {
                let name = body.bytes()?;
                let value = body.take_rest();
                let (name, value) = (body.text(name)?, body.text(value)?);
                self.options.push((name, value));
            }
            _ => return Err(DecodeError { later: true, ..body.error(tag::of_later(tag)) }),
        }
        Ok(())
    }
}

impl NewTable {
    /// Appends all fields except `commit_seq`.
    fn encode(&self, out: &mut Vec<u8>) {
        let m = &self.meta;
        for number in [
            self.file,
            m.family.into(),
            self.level.into(),
            self.generation,
            m.offset,
            m.len,
            m.min_seq,
            m.max_seq,
            m.entries,
            m.tombstones,
            m.keys,
            m.raw_bytes,
        ] {
            put_varint(out, number);
        }
        put_bytes(out, &m.min_key);
        put_bytes(out, &m.max_key);
    }

    fn decode(body: &mut Input<'_>) -> Result<NewTable, DecodeError> {
        let file = body.varint()?;
        let family = body.u32("family")?;
        let level = body.level()?;
        let generation = body.varint()?;
        let meta = SsTableMeta {
            family,
            offset: body.varint()?,
            len: body.varint()?,
            min_seq: body.seq()?,
            max_seq: body.seq()?,
            entries: body.varint()?,
            tombstones: body.varint()?,
            keys: body.varint()?,
            raw_bytes: body.varint()?,
            min_key: body.key()?,
            max_key: body.key()?,
            commit_seq: 0,
            expiry: None,
            mirror: 0,
            values: Vec::new(),
        };
        if meta.min_key > meta.max_key || meta.min_seq > meta.max_seq {
            return Err(body.error("the least key or sequence number is above the greatest"));
        }
        if meta.offset.checked_add(meta.len).is_none() {
            return Err(body.error("the table ends past every file"));
        }
        Ok(NewTable { file, level, generation, meta })
    }

    /// Appends the table, length-prefixed, for a list outside the manifest (the runs of a spilled
    /// transaction).
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        self.encode(&mut body);
        put_bytes(out, &body);
    }

    /// Decodes the output of [`NewTable::put`] without its length.
    pub(crate) fn take(body: &[u8]) -> Result<NewTable, DecodeError> {
        let mut input = Input { rest: body, total: body.len() };
        let new = NewTable::decode(&mut input)?;
        match input.rest.is_empty() {
            true => Ok(new),
            false => Err(input.error("bytes follow a table")),
        }
    }
}

/// The reason that a payload does not decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// Offset in the payload, in bytes.
    pub at: usize,
    /// The expected and the actual contents.
    pub what: String,
    /// The payload is complete but has a newer format version.
    pub later: bool,
}

struct Input<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Input<'a> {
    fn at(&self) -> usize {
        self.total - self.rest.len()
    }

    fn error(&self, what: impl Into<String>) -> DecodeError {
        DecodeError { at: self.at(), what: what.into(), later: false }
    }

    fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut at = 0;
        let value = get_varint(self.rest, &mut at)
            .ok_or_else(|| self.error("a number does not end, or is not in its shortest form"))?;
        self.rest = &self.rest[at..];
        Ok(value)
    }

    fn u32(&mut self, name: &str) -> Result<u32, DecodeError> {
        let value = self.varint()?;
        u32::try_from(value).map_err(|_| self.error(format!("{name} {value} has more than 32 bits")))
    }

    fn seq(&mut self) -> Result<Seq, DecodeError> {
        let value = self.varint()?;
        if value > MAX_SEQ {
            return Err(self.error(format!("{value} is not a sequence number")));
        }
        Ok(value)
    }

    fn level(&mut self) -> Result<u8, DecodeError> {
        let value = self.varint()?;
        if value > MAX_LEVEL.into() {
            return Err(self.error(format!("there is no level {value}")));
        }
        Ok(value as u8)
    }

    fn lsn(&mut self) -> Result<Lsn, DecodeError> {
        Ok(Lsn::new(self.u32("table")?, self.u32("offset")?))
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.varint()?;
        if len > self.rest.len() as u64 {
            return Err(self.error(format!("{len} bytes announced, {} left", self.rest.len())));
        }
        let (bytes, rest) = self.rest.split_at(len as usize);
        self.rest = rest;
        Ok(bytes)
    }

    fn key(&mut self) -> Result<Vec<u8>, DecodeError> {
        let key = self.bytes()?;
        if key.len() > MAX_KEY_LEN {
            return Err(self.error(format!("a key of {} bytes", key.len())));
        }
        Ok(key.to_vec())
    }

    fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn text(&self, bytes: &[u8]) -> Result<String, DecodeError> {
        String::from_utf8(bytes.to_vec()).map_err(|_| self.error("a text is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::cluster_position::Gtid;

    fn full_edit() -> Edit {
        let meta = SsTableMeta {
            family: 7,
            offset: 8192,
            len: 77_000,
            min_key: b"aaa".to_vec(),
            max_key: b"zzz".to_vec(),
            min_seq: 0,
            max_seq: MAX_SEQ,
            entries: 1000,
            tombstones: 20,
            keys: 900,
            raw_bytes: 123_456,
            commit_seq: 0,
            expiry: Some(Expiries { oldest: 5, newest: 9, entries: 3 }),
            mirror: 298,
            values: vec![
                ValueUse { file: 120, values: 4, bytes: 70_000 },
                ValueUse { file: 290, values: 1, bytes: 1 << 40 },
            ],
        };
        Edit {
            epoch: Some(3),
            next_file: Some(300),
            first_live_segment: Some(9),
            boundaries: vec![EpochBoundary {
                at: Lsn::new(5, 4096),
                epoch: 2,
                next_segment: 9,
                next_seq: 500,
            }],
            boundaries_removed: vec![2, 3],
            durable_upto: Some(Lsn::new(9, 100)),
            last_seq: Some(499),
            last_generation: Some(12),
            new_files: vec![NewFile { number: 299, len: 1 << 40 }],
            deleted_files: vec![12],
            new_tables: vec![NewTable { file: 299, level: 0, generation: 12, meta }],
            removed_tables: vec![(7, 12), (8, 12)],
            dropped_families: vec![u32::MAX],
            cursors: vec![(7, 3, b"mmm".to_vec()), (8, 1, Vec::new())],
            transaction_ceiling: Some(u64::MAX),
            expiry_clock: Some(1_760_000_000),
            expiry_reserved: Some(1_760_000_060),
            log_forgotten_above: Some(16),
            log_segments: vec![
                LogSegment { id: 17, epoch: 3, file: 2 },
                LogSegment { id: 18, epoch: 3, file: 1 },
            ],
            proven_from: Some(4),
            unproven_upto: Some(900),
            options: vec![("comparator".into(), "bytes".into()), ("gone".into(), String::new())],
            row_counts: vec![
                (7, RowCount { rows: -3, uncounted: 1 }),
                (u32::MAX, RowCount { rows: i64::MAX, uncounted: i64::MIN }),
            ],
            counted_from: Some(5),
            value_files: vec![120, 290],
            ended_value_files: vec![7, 1 << 40],
            position: Some(ClusterPosition {
                uuid: *b"0123456789abcdef",
                number: 1 << 40,
                gtid: Some(Gtid { domain: 1, server: 2, number: 3 }),
            }),
        }
    }

    #[test]
    fn every_field_survives_coding() {
        let edit = full_edit();
        let mut payload = Vec::new();
        edit.encode(&mut payload);
        let back = Edit::decode(&payload).unwrap();
        assert_eq!(format!("{edit:?}"), format!("{back:?}"));
        let mut again = Vec::new();
        back.encode(&mut again);
        assert_eq!(payload, again);
    }

    /// Stores in `tests/fixtures` cover the other tags.
    #[test]
    fn the_bytes_of_the_newest_fields_stay() {
        let meta = SsTableMeta {
            family: 0,
            offset: 0,
            len: 100,
            min_key: b"a".to_vec(),
            max_key: b"b".to_vec(),
            min_seq: 5,
            max_seq: 6,
            entries: 2,
            tombstones: 0,
            keys: 2,
            raw_bytes: 30,
            commit_seq: 0,
            expiry: Some(Expiries { oldest: 7, newest: 8, entries: 1 }),
            mirror: 10,
            values: vec![ValueUse { file: 8, values: 2, bytes: 300 }],
        };
        let edit = Edit {
            expiry_clock: Some(300),
            proven_from: Some(4),
            expiry_reserved: Some(360),
            log_forgotten_above: Some(16),
            unproven_upto: Some(300),
            log_segments: vec![LogSegment { id: 17, epoch: 3, file: 2 }],
            new_tables: vec![NewTable { file: 9, level: 0, generation: 3, meta }],
            value_files: vec![8],
            ended_value_files: vec![300],
            position: Some(ClusterPosition { uuid: *b"0123456789abcdef", number: 2, gtid: None }),
            ..Edit::default()
        };
        let payload: Vec<u8> = [
            &[20, 2, 0xac, 2][..],
            &[22, 1, 4],
            &[23, 2, 0xe8, 2],
            &[25, 1, 16],
            &[27, 2, 0xac, 2],
            &[36, 25, 1],
            b"0123456789abcdef",
            &[2, 0, 0, 0, 0, 0, 0, 0],
            &[24, 3, 17, 3, 2],
            &[31, 3, 8, 8, 0],
            &[11, 16, 9, 0, 0, 3, 0, 100, 5, 6, 2, 0, 2, 30, 1, b'a', 1, b'b'],
            &[21, 5, 9, 0, 7, 8, 1],
            &[26, 3, 9, 0, 10],
            &[33, 6, 9, 0, 8, 2, 0xac, 2],
            &[32, 2, 0xac, 2],
        ]
        .concat();
        let mut written = Vec::new();
        edit.encode(&mut written);
        assert_eq!(written, payload);
        assert_eq!(format!("{:?}", Edit::decode(&payload).unwrap()), format!("{edit:?}"));
    }

    #[test]
    fn a_table_with_one_sequence_number_survives_coding() {
        let mut edit = full_edit();
        let new = &mut edit.new_tables[0];
        new.meta.keys = new.meta.entries;
        new.meta = new.meta.committed_at(77);
        let mut payload = Vec::new();
        edit.encode(&mut payload);
        let back = Edit::decode(&payload).unwrap();
        assert_eq!(back.new_tables[0].meta, edit.new_tables[0].meta);
        edit.new_tables[0].meta.keys -= 1;
        payload.clear();
        edit.encode(&mut payload);
        assert!(Edit::decode(&payload).unwrap_err().what.contains("each key once"));
    }

    #[test]
    fn an_unknown_tag_is_named() {
        for (payload, expected) in [
            (vec![99u8, 0], "tag 99: no version"),
            (vec![28, 0], "tag 28: a file in an object store"),
            (vec![29, 0], "tag 29: the origin of a clone"),
            (vec![30, 0], "tag 30: the key of a sealed table"),
            (vec![31, 3, 7, 8, 0], "tag 31: a value file that was collected"),
            (vec![31, 3, 7, 7, 1], "tag 31: a value file that was collected"),
            (vec![34, 0], "tag 34: history"),
            (vec![35, 0], "tag 35: times of commits"),
            (vec![36, 1, 2], "tag 36: a cluster's position of a later form"),
            (vec![37, 0], "tag 37: no version"),
            (vec![1, 2, 1, 1], "1 bytes too many in the field with tag 1"),
            (vec![1, 9, 1], "9 bytes announced, 1 left"),
            (vec![1, 2, 0x80, 0], "not in its shortest"),
            (vec![14, 3, 1, 64, 0], "there is no level 64"),
        ] {
            let error = Edit::decode(&payload).unwrap_err();
            assert!(error.what.contains(expected), "{error:?} lacks {expected:?}");
            assert_eq!(error.later, payload[0] >= 28, "{error:?}");
        }
    }

    #[test]
    fn wrong_bytes_are_errors_or_other_edits_and_never_panics() {
        let mut payload = Vec::new();
        full_edit().encode(&mut payload);
        for len in 0..payload.len() {
            let _ = Edit::decode(&payload[..len]);
        }
        for at in 0..payload.len() {
            for value in 0..=255 {
                let mut damaged = payload.clone();
                damaged[at] = value;
                let _ = Edit::decode(&damaged);
            }
        }
    }
}
