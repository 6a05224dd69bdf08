//! The records of the write-ahead log in words.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::{json, Map, Value};
use tidesdb::internal::backup::read_log;
use tidesdb::internal::io::Disk;
use tidesdb::internal::types::Lsn;
use tidesdb::internal::wal::{dump_segment, BatchReader, Ddl, RecordRef, SegmentFacts};
use tidesdb::Error;

use super::{check_file, directory_of, Around, Damage};
use crate::cli::{LogStart, Shown};
use crate::output::{check_store, put_bytes, Change, Failure, Form, Out};

/// Prints records until the limit; keeps an error in the way of going on.
struct Printer<'a, 'o> {
    around: &'a Around,
    form: Form,
    out: &'a mut Out<'o>,
    from: Option<LogStart>,
    left: u64,
    segment: u32,
    failure: Option<Failure>,
    damage: Damage,
    is_cut: bool,
}

fn name_of(record: &RecordRef<'_>) -> &'static str {
    match record {
        RecordRef::Commit { .. } => "commit",
        RecordRef::Prepared { .. } => "prepare",
        RecordRef::LargeBatch { .. } => "large batch",
        RecordRef::Marker { .. } => "commit of a batch",
        RecordRef::Rollback { .. } => "rollback",
        RecordRef::RewrittenPrepare { .. } => "prepare, written again",
        RecordRef::DurableMark => "durable mark",
        RecordRef::Ddl { ddl, .. } => match ddl {
            Ddl::Create => "create family",
            Ddl::Drop => "drop family",
            Ddl::Rename => "rename family",
            Ddl::Swap => "swap families",
            Ddl::Alter => "alter family",
            Ddl::Other => "change of the dictionary",
        },
        RecordRef::Ceiling { .. } => "counter's ceiling",
        RecordRef::RunNames { .. } => "runs of a large transaction",
        RecordRef::EpochBoundary(_) => "cut",
    }
}

/// A record without its changes, in words and as fields.
fn head_of(record: &RecordRef<'_>, form: Form) -> (String, Map<String, Value>) {
    let mut text = name_of(record).to_string();
    let mut fields = Map::new();
    fields.insert("record".into(), name_of(record).into());
    if let Some(seq) = record.seq() {
        text += &format!(", sequence {seq}");
        fields.insert("sequence".into(), seq.into());
    }
    if let Some(position) = record.position() {
        text += &format!(", cluster's position {position}");
        fields.insert("position".into(), position.to_string().into());
    }
    match *record {
        RecordRef::Prepared { txn, xid, locks, .. } | RecordRef::RewrittenPrepare { txn, xid, locks, .. } => {
            text += &format!(", transaction {txn}, xid {}, {} bytes of locks", form.bytes(xid), locks.len());
            fields.insert("transaction".into(), txn.into());
            put_bytes(&mut fields, "xid", xid);
            fields.insert("lock_bytes".into(), locks.len().into());
        }
        RecordRef::LargeBatch { txn, .. } | RecordRef::Marker { txn, .. } | RecordRef::Rollback { txn } => {
            text += &format!(", transaction {txn}");
            fields.insert("transaction".into(), txn.into());
        }
        RecordRef::RunNames { txn, names } => {
            text += &format!(", transaction {txn}, {} bytes of names", names.len());
            fields.insert("transaction".into(), txn.into());
            fields.insert("name_bytes".into(), names.len().into());
        }
        RecordRef::Ceiling { family, counter, value } => {
            text += &format!(", family {family}, counter {counter}, {value}");
            fields.extend([
                ("family".to_string(), family.into()),
                ("counter".to_string(), counter.into()),
                ("value".to_string(), value.into()),
            ]);
        }
        RecordRef::EpochBoundary(boundary) => {
            text += &format!(
                ": epoch {} ends at {}:{} and goes on with segment {}, sequence {}",
                boundary.epoch,
                boundary.at.segment(),
                boundary.at.offset(),
                boundary.next_segment,
                boundary.next_seq
            );
            fields.extend([
                ("epoch".to_string(), boundary.epoch.into()),
                ("next_segment".to_string(), boundary.next_segment.into()),
                ("next_sequence".to_string(), boundary.next_seq.into()),
            ]);
        }
        RecordRef::Commit { .. } | RecordRef::Ddl { .. } | RecordRef::DurableMark => {}
    }
    (text, fields)
}

impl Printer<'_, '_> {
    /// Shows a record, or answers `Interrupted` when no further one is wanted.
    fn record(&mut self, facts: Option<&SegmentFacts>, at: Lsn, record: RecordRef<'_>) -> Result<(), Error> {
        let is_before = match self.from {
            Some(LogStart::Sequence(from)) => record.seq().is_none_or(|seq| seq < from),
            Some(LogStart::Position(from)) => at < from,
            None => false,
        };
        if is_before {
            return Ok(());
        }
        // From here on everything is shown, records without a sequence number too.
        self.from = None;
        if self.left == 0 {
            self.is_cut = true;
            return Err(Error::Interrupted);
        }
        self.left -= 1;
        self.show(facts, at, &record).map_err(|failure| {
            self.failure = Some(failure);
            Error::Interrupted
        })
    }

    fn show(&mut self, facts: Option<&SegmentFacts>, at: Lsn, record: &RecordRef<'_>) -> Result<(), Failure> {
        let segment = facts.map(|facts| facts.segment);
        let format = facts.and_then(|facts| facts.format);
        if self.segment != at.segment() {
            self.segment = at.segment();
            if let Some(segment) = segment {
                let version = format.map_or_else(
                    || "the header does not verify".to_string(),
                    |format| format!("format of version {}", format.number()),
                );
                self.out.line(format_args!(
                    "segment {} of epoch {}, wal/{:06}.wal, {version}",
                    segment.id, segment.epoch, segment.file
                ))?;
            }
        }
        let place = format!("{}:{}", at.segment(), at.offset());
        let (text, mut fields) = head_of(record, self.form);
        self.out.line(format_args!("{place} {text}"))?;
        fields.insert("at".into(), place.clone().into());
        if let Some(segment) = segment {
            fields.insert("epoch".into(), segment.epoch.into());
            fields.insert("file".into(), segment.file.into());
        }
        if let Some(format) = format {
            fields.insert("format".into(), format.number().into());
        }
        self.out.begin_list(fields, "changes")?;
        if let Some(batch) = record.batch() {
            if let Err(what) = self.changes(batch)? {
                let file = segment.map_or_else(String::new, |s| format!(" of wal/{:06}.wal", s.file));
                self.damage.add(format!("the batch at {place}{file} does not decode: {what}"));
            }
        }
        self.out.end_list()
    }

    /// Shows the changes of a batch, up to the first undecodable one.
    fn changes(&mut self, batch: &[u8]) -> Result<Result<(), &'static str>, Failure> {
        let reader = match BatchReader::new(batch) {
            Ok(reader) => reader,
            Err(what) => return Ok(Err(what)),
        };
        for (at, entry) in reader.enumerate() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(what) => return Ok(Err(what)),
            };
            let change =
                Change { kind: entry.kind, effect: Some(entry.effect), key: entry.key, value: entry.value };
            let family = self.around.family(entry.family);
            self.out.line(format_args!("  {family}: {}", change.text(self.form)))?;
            if self.out.is_json() {
                let mut fields = Map::new();
                fields.insert("family".into(), entry.family.into());
                if let Some(name) = self.around.name(entry.family) {
                    fields.insert("family_name".into(), name.into());
                }
                change.fields(&mut fields);
                self.out.item(&Value::Object(fields), at == 0)?;
            }
        }
        Ok(Ok(()))
    }

    fn end(
        &mut self,
        end: Lsn,
        stop: &(Lsn, String),
        is_torn: bool,
        records_after: u64,
    ) -> Result<(), Failure> {
        let place = |at: Lsn| format!("{}:{}", at.segment(), at.offset());
        let (at, why) = (place(stop.0), &stop.1);
        self.out.line(match is_torn {
            true => format!(
                "torn tail at {at}: {why}. An interrupted write, or what the file held before; recovery drops it"
            ),
            false => format!("the log ends at {} ({why})", place(end)),
        })?;
        if records_after > 0 {
            self.out.line(format_args!("{records_after} records that verify follow"))?;
        }
        self.out.object(&json!({
            "end": place(end), "stopped_at": at, "why": why, "torn_tail": is_torn, "records_after": records_after,
        }))
    }
}

/// Prints the log of a store, or a file of one.
pub fn run(
    disk: &Arc<dyn Disk>,
    path: &Path,
    from: Option<LogStart>,
    shown: &Shown,
    out: &mut Out<'_>,
    err: &mut dyn Write,
) -> Result<u8, Failure> {
    let is_store = path.is_dir();
    match is_store {
        true => check_store(path)?,
        false => check_file(path)?,
    }
    let dir = if is_store { path.to_path_buf() } else { directory_of(&directory_of(path)) };
    let around = Around::of(disk, &dir, err);
    let mut printer = Printer {
        around: &around,
        form: shown.form(),
        out,
        from,
        left: shown.limit.unwrap_or(u64::MAX),
        segment: 0,
        failure: None,
        damage: Damage::default(),
        is_cut: false,
    };
    if is_store {
        let read = read_log(disk, path, &mut |facts, at, record| printer.record(facts, at, record))?;
        if let Some(failure) = printer.failure.take() {
            return Err(failure);
        }
        if let Some((end, stop, why)) = read.end {
            printer.end(end, &(stop, why), read.is_torn, read.discarded)?;
        }
        read.damage.iter().for_each(|error| printer.damage.add(error.to_string()));
    } else {
        let read = dump_segment(disk, path, &mut |facts, at, record| printer.record(Some(facts), at, record));
        if let Some(failure) = printer.failure.take() {
            return Err(failure);
        }
        match read {
            Ok(dumped) => {
                printer.end(dumped.end, &dumped.stop, dumped.is_torn, dumped.records_after)?;
                if dumped.records_after > 0 {
                    let what = format!(
                        "damage in {} at offset {}: {}, and {} records that verify follow",
                        path.display(),
                        dumped.stop.0.offset(),
                        dumped.stop.1,
                        dumped.records_after
                    );
                    printer.damage.add(what);
                }
            }
            Err(Error::Interrupted) => {}
            Err(error @ Error::Corruption { .. }) => printer.damage.add(error.to_string()),
            Err(error) => return Err(error.into()),
        }
    }
    if printer.is_cut {
        printer.out.line("more records follow; the limit is reached")?;
    }
    let damage = std::mem::take(&mut printer.damage);
    damage.conclude(printer.out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_a_sequence_number_or_a_position() {
        assert_eq!("12".parse(), Ok(LogStart::Sequence(12)));
        assert_eq!("3:64".parse(), Ok(LogStart::Position(Lsn::new(3, 64))));
        for wrong in ["", "x", "3:", ":4", "-1"] {
            assert!(wrong.parse::<LogStart>().is_err(), "{wrong}");
        }
    }
}
