//! The edits of a manifest in words.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde_json::{json, Map, Value};
use tidesdb::internal::io::Disk;
use tidesdb::internal::types::Lsn;
use tidesdb::internal::version::manifest::{dump, manifest_name, read_current};
use tidesdb::internal::version::{Edit, NewTable};

use super::{check_file, directory_of, Around, Damage};
use crate::cli::Shown;
use crate::moment::utc;
use crate::output::{check_store, put_bytes, Failure, Form, Out};

/// One change of an edit, in words and as fields.
struct Told {
    text: String,
    fields: Map<String, Value>,
}

/// The changes of an edit, in the order of application.
struct Teller<'a> {
    around: &'a Around,
    form: Form,
    told: Vec<Told>,
}

impl Teller<'_> {
    fn tell(&mut self, name: &str, text: String, fields: Value) {
        let mut object = Map::new();
        object.insert("change".into(), name.into());
        if let Value::Object(more) = fields {
            object.extend(more);
        }
        self.told.push(Told { text, fields: object });
    }

    fn position(&self, at: Lsn) -> String {
        format!("{}:{}", at.segment(), at.offset())
    }

    fn edit(&mut self, edit: &Edit) {
        self.numbers(edit);
        self.log(edit);
        self.files(edit);
        for (name, value) in &edit.options {
            let text = match value.is_empty() {
                true => format!("option {name} is forgotten"),
                false => format!("option {name} is {value}"),
            };
            self.tell("option", text, json!({ "name": name, "value": value }));
        }
        for (family, rows) in &edit.row_counts {
            let text = format!(
                "rows of {}: {:+}, uncounted changes {:+}",
                self.around.family(*family),
                rows.rows,
                rows.uncounted
            );
            let fields = json!({ "family": family, "rows": rows.rows, "uncounted": rows.uncounted });
            self.tell("row_count", text, fields);
        }
    }

    fn numbers(&mut self, edit: &Edit) {
        for (name, words, value) in [
            ("epoch", "epoch (openings for writing)", edit.epoch),
            ("next_file", "file numbers in use are below", edit.next_file),
            ("last_seq", "newest commit in a table", edit.last_seq),
            ("last_generation", "newest memtable whose tables are all named", edit.last_generation),
            ("transaction_ceiling", "transaction ids in use are below", edit.transaction_ceiling),
            ("proven_from", "puts may be unmarked from epoch", edit.proven_from),
            ("counted_from", "rows are counted from family", edit.counted_from.map(u64::from)),
        ] {
            if let Some(value) = value {
                self.tell(name, format!("{words} {value}"), json!({ "value": value }));
            }
        }
        for (name, words, value) in [
            ("expiry_clock", "the expiry clock has reached", edit.expiry_clock),
            ("expiry_reserved", "the expiry clock does not pass", edit.expiry_reserved),
        ] {
            if let Some(value) = value {
                self.tell(name, format!("{words} {}", utc(value)), json!({ "value": value }));
            }
        }
    }

    fn log(&mut self, edit: &Edit) {
        if let Some(position) = &edit.position {
            let text = format!("the cluster's position, as of the newest commit in a table, is {position}");
            self.tell("position", text, json!({ "position": position.to_string() }));
        }
        if let Some(id) = edit.log_forgotten_above {
            let text = format!("log segments above {id} are forgotten");
            self.tell("log_forgotten_above", text, json!({ "segment": id }));
        }
        if let Some(id) = edit.first_live_segment {
            let text = format!("the log is needed from segment {id}");
            self.tell("first_live_segment", text, json!({ "segment": id }));
        }
        for segment in &edit.log_segments {
            let text = format!(
                "log segment {} of epoch {} is in wal/{:06}.wal",
                segment.id, segment.epoch, segment.file
            );
            let fields = json!({ "segment": segment.id, "epoch": segment.epoch, "file": segment.file });
            self.tell("log_segment", text, fields);
        }
        for segment in &edit.boundaries_removed {
            let text = format!("the boundary in segment {segment} is forgotten");
            self.tell("cut_removed", text, json!({ "segment": segment }));
        }
        for boundary in &edit.boundaries {
            let at = self.position(boundary.at);
            let text = format!(
                "the log of epoch {} ends at {at} and goes on with segment {}, sequence {}",
                boundary.epoch, boundary.next_segment, boundary.next_seq
            );
            let fields = json!({
                "at": at,
                "epoch": boundary.epoch,
                "next_segment": boundary.next_segment,
                "next_sequence": boundary.next_seq,
            });
            self.tell("cut", text, fields);
        }
        if let Some(at) = edit.durable_upto {
            let at = self.position(at);
            self.tell("durable_upto", format!("the log is durable up to {at}"), json!({ "at": at }));
        }
    }

    fn files(&mut self, edit: &Edit) {
        for family in &edit.dropped_families {
            let text = format!("{} is dropped", self.around.family(*family));
            self.tell("dropped_family", text, json!({ "family": family }));
        }
        for (family, file) in &edit.removed_tables {
            let text = format!("table of {} in file {file} goes", self.around.family(*family));
            self.tell("removed_table", text, json!({ "family": family, "file": file }));
        }
        for file in &edit.new_files {
            let text = format!("file {} comes, {} bytes", file.number, file.len);
            self.tell("new_file", text, json!({ "file": file.number, "bytes": file.len }));
        }
        for table in &edit.new_tables {
            self.table(table);
        }
        for file in &edit.deleted_files {
            self.tell("deleted_file", format!("file {file} has no live table"), json!({ "file": file }));
        }
        for (family, level, key) in &edit.cursors {
            let name = self.around.family(*family);
            let text = match key.is_empty() {
                true => format!("compaction of {name}, level {level}, begins anew"),
                false => {
                    format!("compaction of {name}, level {level}, goes on after {}", self.form.bytes(key))
                }
            };
            let mut fields = Map::new();
            fields.insert("family".into(), (*family).into());
            fields.insert("level".into(), (*level).into());
            put_bytes(&mut fields, "key", key);
            self.tell("cursor", text, Value::Object(fields));
        }
    }

    fn table(&mut self, table: &NewTable) {
        let meta = &table.meta;
        let mut text = format!(
            "table of {} comes: level {}, file {} at {}, {} bytes, {} entries, {} tombstones, keys {} to {}, sequence {} \
             to {}",
            self.around.family(meta.family),
            table.level,
            table.file,
            meta.offset,
            meta.len,
            meta.entries,
            meta.tombstones,
            self.form.bytes(&meta.min_key),
            self.form.bytes(&meta.max_key),
            meta.min_seq,
            meta.max_seq,
        );
        if table.level == 0 {
            text += &format!(", of memtable {}", table.generation);
        }
        if meta.mirror != 0 {
            text += &format!(", with a copy in file {}", meta.mirror);
        }
        let mut fields = Map::new();
        for (name, value) in [
            ("family", u64::from(meta.family)),
            ("level", table.level.into()),
            ("file", table.file),
            ("offset", meta.offset),
            ("bytes", meta.len),
            ("entries", meta.entries),
            ("tombstones", meta.tombstones),
            ("keys", meta.keys),
            ("raw_bytes", meta.raw_bytes),
            ("min_sequence", meta.min_seq),
            ("max_sequence", meta.max_seq),
            ("commit_sequence", meta.commit_seq),
            ("memtable", table.generation),
            ("copy_in_file", meta.mirror),
        ] {
            fields.insert(name.into(), value.into());
        }
        put_bytes(&mut fields, "min_key", &meta.min_key);
        put_bytes(&mut fields, "max_key", &meta.max_key);
        if let Some(expiry) = meta.expiry {
            text += &format!(
                ", {} entries expire from {} to {}",
                expiry.entries,
                utc(expiry.oldest),
                utc(expiry.newest)
            );
            fields.insert("expiring_entries".into(), expiry.entries.into());
            fields.insert("oldest_expiry".into(), expiry.oldest.into());
            fields.insert("newest_expiry".into(), expiry.newest.into());
        }
        self.tell("new_table", text, Value::Object(fields));
    }
}

/// Prints the edits from number `from` on.
pub fn run(
    disk: &Arc<dyn Disk>,
    path: &Path,
    from: u64,
    shown: &Shown,
    out: &mut Out<'_>,
    err: &mut dyn Write,
) -> Result<u8, Failure> {
    let (dir, file) = match path.is_dir() {
        true => {
            check_store(path)?;
            let number = read_current(&**disk, path)?.unwrap_or(0);
            (path.to_path_buf(), path.join(manifest_name(number)))
        }
        false => {
            check_file(path)?;
            (directory_of(path), path.to_path_buf())
        }
    };
    let around = Around::of(disk, &dir, err);
    let dumped = dump(&**disk, &file)?;
    out.line(format_args!("manifest: {}", file.display()))?;
    let mut left = shown.limit.unwrap_or(u64::MAX);
    let wanted = dumped.edits.iter().zip(0..).skip_while(|(_, number)| *number < from);
    for ((offset, edit), number) in wanted {
        if left == 0 {
            out.line("more edits follow; the limit is reached")?;
            break;
        }
        left -= 1;
        let mut teller = Teller { around: &around, form: shown.form(), told: Vec::new() };
        teller.edit(edit);
        let what = if number == 0 { "edit 0, the snapshot," } else { &format!("edit {number}") };
        out.line(format_args!("{what} at {offset}"))?;
        for told in &teller.told {
            out.line(format_args!("  {}", told.text))?;
        }
        if out.is_json() {
            let changes: Vec<_> = teller.told.into_iter().map(|told| Value::Object(told.fields)).collect();
            out.object(&json!({ "edit": number, "offset": offset, "changes": changes }))?;
        }
    }
    let mut damage = Damage::default();
    dumped.damage.iter().for_each(|error| damage.add(error.to_string()));
    if dumped.damage.is_none() {
        let format = dumped.format.number();
        out.line(match dumped.is_torn {
            true => format!(
                "torn tail at {}: an edit whose write was interrupted; recovery drops it; formats of version {format}",
                dumped.end
            ),
            false => {
                format!("the edits end at {} of {} bytes; formats of version {format}", dumped.end, dumped.len)
            }
        })?;
        out.object(&json!({
            "end": dumped.end,
            "bytes": dumped.len,
            "torn_tail": dumped.is_torn,
            "format": format,
        }))?;
    }
    damage.conclude(out)
}
