//! `stats`, `dump` and `compact` over a store written by the Rust interface, compared with the written rows.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use serde_json::Value;
use tidesdb::internal::format::{ClusterPosition, Gtid};
use tidesdb::{BlockCodec, Compression, Db, FamilyOptions, FormatVersion, Options};

/// Runs the program in this process: exit status, output, errors.
fn admin(words: &[&str]) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = tidesdb_admin::run(words.iter().map(OsString::from), &mut out, &mut err, false);
    (status, String::from_utf8(out).expect("text"), String::from_utf8(err).expect("text"))
}

/// The same with `--json`: a value for each line.
fn json_lines(words: &[&str]) -> Vec<Value> {
    let (_, out, _) = admin(&[words, &["--json"]].concat());
    out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

struct Store {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl Store {
    fn path(&self) -> &str {
        self.path.to_str().expect("a name")
    }

    /// The files whose names end so, in their order.
    fn files(&self, directory: &str, ending: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path.join(directory)).expect("lists");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("lists").path()).collect();
        files.retain(|path| path.to_string_lossy().ends_with(ending));
        files.sort();
        files
    }

    fn manifest(&self) -> PathBuf {
        let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("MANIFEST-");
        self.files("", "").into_iter().find(is_manifest).expect("a manifest")
    }

    /// The table file with the bytes.
    fn table_with(&self, bytes: &[u8]) -> PathBuf {
        let has =
            |path: &PathBuf| fs::read(path).expect("reads").windows(bytes.len()).any(|part| part == bytes);
        self.files("", ".sst").into_iter().find(has).expect("a table with these bytes")
    }
}

fn options() -> Options {
    Options { compaction_threads: 0, ..Options::default() }
}

/// 100 rows of 'fruit' and a deletion in a table, then 3 rows in the log.
fn store() -> Store {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("store");
    let db = Db::open(&path, options()).expect("opens");
    let plain = FamilyOptions { compression: Compression::None, ..FamilyOptions::default() };
    let fruit = db.family_with("fruit", plain).expect("makes");
    for n in 0..100 {
        fruit.put(format!("key{n:03}"), format!("value{n:03}")).expect("puts");
    }
    fruit.delete("key007").expect("deletes");
    db.flush().expect("flushes");
    for n in 100..103_u8 {
        fruit.put(format!("key{n:03}"), [0, 255, n]).expect("puts");
    }
    drop(fruit);
    db.close().expect("closes");
    Store { _directory: directory, path }
}

#[test]
fn stats_count_what_was_written() {
    let store = store();
    let (status, text, err) = admin(&["stats", store.path()]);
    assert_eq!((status, err.as_str()), (0, ""), "{text}");
    for part in
        ["family 'fruit' (1): 102 rows", "level 0", "'key000' to 'key102'", "in the log alone", " ago"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let (_, out, _) = admin(&["stats", store.path(), "--json"]);
    let stats: Value = serde_json::from_str(&out).expect("JSON");
    let fruit = stats["families"].as_array().expect("families").iter().find(|f| f["name"] == "fruit");
    let fruit = fruit.expect("fruit");
    assert_eq!((&fruit["rows"], &fruit["rows_counted"]), (&102.into(), &true.into()));
    let levels = fruit["levels"].as_array().expect("levels");
    let sum = |name: &str| levels.iter().map(|level| level[name].as_u64().expect("a number")).sum::<u64>();
    assert_eq!((sum("tables"), sum("files"), sum("tables_in_log_alone")), (2, 1, 1));
    assert!(sum("entries") >= 102 && sum("tombstones") <= 1, "{levels:?}");
    assert!(stats["totals"]["log_bytes"].as_u64() > Some(0));
}

#[test]
fn lists_of_postings_have_their_name() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("store");
    let db = Db::open(&path, Options { new_format: FormatVersion::Two, ..options() }).expect("opens");
    let postings = FamilyOptions { block_codec: BlockCodec::Postings, ..FamilyOptions::default() };
    let words = db.family_with("words", postings).expect("makes");
    for number in 0..100_u32 {
        words.put([&b"lotus"[..], &number.to_be_bytes()].concat(), [3, 1]).expect("puts");
    }
    db.flush().expect("flushes");
    drop(words);
    db.close().expect("closes");
    let store = Store { _directory: directory, path };
    let (_, text, _) = admin(&["stats", store.path()]);
    assert!(text.contains("family 'words' (1): 100 rows, blocks are lists of postings"), "{text}");
    let (_, out, _) = admin(&["stats", store.path(), "--json"]);
    let stats: Value = serde_json::from_str(&out).expect("JSON");
    let stats = &stats["families"][1];
    assert_eq!((&stats["name"], &stats["block_codec"]), (&"words".into(), &"postings".into()));
    let (mut texts, mut codecs) = (String::new(), Vec::new());
    for file in store.files("", ".sst") {
        let file = file.to_str().expect("a name");
        texts += &admin(&["dump", "table", file, "--no-entries"]).1;
        let lines = json_lines(&["dump", "table", file, "--no-entries"]);
        codecs.extend(
            lines.iter().filter_map(|line| line["table"]["block_codec"].as_str().map(str::to_string)),
        );
    }
    assert!(texts.contains("data blocks (lists of postings) of"), "{texts}");
    codecs.sort();
    codecs.dedup();
    assert_eq!(codecs, ["plain", "postings"]);
}

#[test]
fn a_missing_file_is_damage_in_the_figures() {
    let store = store();
    let file = store.table_with(b"value042");
    fs::remove_file(&file).expect("removes");
    let (status, text, _) = admin(&["stats", store.path()]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains(file.to_str().expect("a name")), "{text}");
}

#[test]
fn a_table_is_dumped_entry_by_entry_within_bounds() {
    let store = store();
    let file = store.table_with(b"value042");
    let file = file.to_str().expect("a name");
    let (status, text, err) = admin(&["dump", "table", file]);
    assert_eq!((status, err.as_str()), (0, ""), "{text}");
    for part in ["'fruit' (1), level 0", "footer:", "properties:", "block at 0:", "put 'key042' = 'value042'"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let lines = json_lines(&["dump", "table", file]);
    let entries: Vec<_> = lines.iter().filter_map(|line| line.get("entry")).collect();
    let fruit: Vec<_> =
        entries.iter().filter(|e| e["key"].as_str().is_some_and(|k| k.starts_with("key"))).collect();
    let keys: Vec<_> = fruit.iter().map(|e| e["key"].as_str().expect("text").to_string()).collect();
    assert!(keys.is_sorted() && keys.len() >= 99, "{keys:?}");
    for entry in fruit.iter().filter(|e| e["op"] == "put") {
        let number = &entry["key"].as_str().expect("text")[3..];
        assert_eq!(entry["value"], format!("value{number}"));
    }

    let bounds = ["dump", "table", file, "--from", "key010", "--to", "0x6b6579303133", "--no-index"];
    let keys: Vec<_> = json_lines(&bounds)
        .iter()
        .filter_map(|line| line.get("entry"))
        .map(|entry| entry["key"].as_str().expect("text").to_string())
        .collect();
    assert_eq!(keys, ["key010", "key011", "key012"]);
    let (_, text, _) = admin(&["dump", "table", file, "--from", "key010", "--limit", "2", "--hex"]);
    assert!(text.contains("put 0x6b6579303130 = 0x76616c7565303130"), "{text}");
    assert!(text.contains("the limit is reached") && !text.contains("0x6b6579303132"), "{text}");
    let (_, text, _) = admin(&["dump", "table", file, "--no-entries", "--no-index"]);
    assert!(!text.contains("put ") && !text.contains("block at"), "{text}");
}

#[test]
fn a_table_outside_of_its_store_is_dumped_by_its_footer() {
    let store = store();
    let file = store.table_with(b"value042");
    let alone = tempfile::tempdir().expect("directory");
    let copy = alone.path().join(file.file_name().expect("a name"));
    fs::copy(&file, &copy).expect("copies");
    let (status, text, _) = admin(&["dump", "table", copy.to_str().expect("a name")]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("family 1, ") && text.contains("put 'key042' = 'value042'"), "{text}");
}

#[test]
fn damage_of_a_table_is_named_with_its_offset_and_the_rest_is_shown() {
    let store = store();
    let file = store.table_with(b"value042");
    let mut bytes = fs::read(&file).expect("reads");
    let at = bytes.windows(8).position(|part| part == b"value042").expect("a row");
    bytes[at] ^= 1;
    fs::write(&file, &bytes).expect("writes");
    let name = file.to_str().expect("a name");
    let (status, text, _) = admin(&["dump", "table", name]);
    assert_eq!(status, 1, "{text}");
    let damage = text.lines().find(|line| line.starts_with("damage: ")).expect("a line");
    assert!(
        damage.contains(name) && damage.contains("at offset ") && damage.contains("checksum"),
        "{damage}"
    );
    // The footer alone.
    let end = bytes.len();
    bytes[end - 20] ^= 1;
    let alone = tempfile::tempdir().expect("directory");
    let copy = alone.path().join("00000009.sst");
    fs::write(&copy, &bytes).expect("writes");
    let (status, text, _) = admin(&["dump", "table", copy.to_str().expect("a name")]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains(&format!("offset {}", end - 128)), "{text}");
}

#[test]
fn the_log_is_dumped_record_by_record() {
    let store = store();
    let (status, text, err) = admin(&["dump", "wal", store.path()]);
    assert_eq!((status, err.as_str()), (0, ""), "{text}");
    for part in ["segment ", "commit, sequence ", "'fruit' (1): put 'key101' = 0x00ff65", "the log ends at "]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let commits: Vec<_> = json_lines(&["dump", "wal", store.path()])
        .into_iter()
        .filter(|line| line["changes"][0]["key"].as_str().is_some_and(|key| key >= "key100"))
        .collect();
    let values: Vec<_> =
        commits.iter().map(|c| c["changes"][0]["value_hex"].as_str().expect("hex")).collect();
    assert_eq!(values, ["00ff64", "00ff65", "00ff66"]);

    let (second, at) = (&commits[1]["sequence"], commits[1]["at"].as_str().expect("a position"));
    for from in [second.to_string(), at.to_string()] {
        let lines = json_lines(&["dump", "wal", store.path(), "--from", &from, "--limit", "1"]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(lines[0]["changes"][0]["key"], "key101");
    }
    let file = log_with(&store, b"key102").0;
    let (status, alone, _) = admin(&["dump", "wal", file.to_str().expect("a name")]);
    assert_eq!(status, 0, "{alone}");
    assert!(alone.contains("'key102'"), "{alone}");
}

#[test]
fn a_dump_of_the_log_tells_the_format_of_its_segments() {
    for least_format in [FormatVersion::One, FormatVersion::Two] {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("store");
        let db = Db::open(&path, Options { least_format, ..options() }).expect("opens");
        db.family("fruit").expect("makes").put("key", "value").expect("puts");
        db.close().expect("closes");
        let number = least_format.number();
        let store = Store { _directory: directory, path };
        let file = log_with(&store, b"value").0;
        for dumped in [store.path(), file.to_str().expect("a name")] {
            let (status, text, _) = admin(&["dump", "wal", dumped]);
            let head = text.lines().find(|line| line.starts_with("segment ")).expect("a segment");
            assert!(head.ends_with(&format!(".wal, format of version {number}")), "{status}: {head}");
            let lines = json_lines(&["dump", "wal", dumped]);
            let put = lines.iter().find(|line| line["changes"][0]["key"] == "key").expect("a record");
            assert_eq!(put["format"], number, "{put}");
        }
    }
}

#[test]
fn the_clusters_position_is_told_of_records_and_edits() {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("store");
    let db = Db::open(&path, Options { least_format: FormatVersion::Two, ..options() }).expect("opens");
    let gtid = Some(Gtid { domain: 1, server: 2, number: 3 });
    let mut position = ClusterPosition { uuid: [0xab; 16], number: 41, gtid };
    db.engine().set_position(&position).expect("sets it");
    db.flush().expect("flushes");
    (position.number, position.gtid) = (-1, None);
    db.engine().set_position(&position).expect("sets it");
    db.close().expect("closes");
    let store = Store { _directory: directory, path };
    let of_edit = "abababab-abab-abab-abab-abababababab:41, GTID 1-2-3";
    let of_record = "abababab-abab-abab-abab-abababababab:-1";
    for (kind, shown, line) in [("manifest", of_edit, "is "), ("wal", of_record, "cluster's position ")] {
        let (status, text, _) = admin(&["dump", kind, store.path()]);
        assert_eq!(status, 0, "{text}");
        assert!(text.lines().any(|found| found.ends_with(&format!("{line}{shown}"))), "{text}");
        let told = json_lines(&["dump", kind, store.path()]).into_iter().any(|line| {
            let changes = line["changes"].as_array().cloned().unwrap_or_default();
            line["position"] == shown || changes.iter().any(|change| change["position"] == shown)
        });
        assert!(told, "{kind}");
    }
    let (status, text, _) = admin(&["verify", store.path()]);
    assert_eq!(status, 0, "{text}");
}

/// The file of the log with the bytes, and their place.
fn log_with(store: &Store, bytes: &[u8]) -> (PathBuf, usize) {
    let place = |path: PathBuf| {
        let content = fs::read(&path).expect("reads");
        content.windows(bytes.len()).rposition(|part| part == bytes).map(|at| (path, at))
    };
    store.files("wal", ".wal").into_iter().find_map(place).expect("a record")
}

#[test]
fn a_torn_tail_is_told_and_a_hole_is_damage() {
    let store = store();
    let (file, last) = log_with(&store, b"key102");
    let mut bytes = fs::read(&file).expect("reads");
    let whole = bytes.clone();
    bytes[last + 2..].fill(0);
    fs::write(&file, &bytes).expect("writes");
    let name = file.to_str().expect("a name");
    let (status, text, _) = admin(&["dump", "wal", name]);
    assert_eq!(status, 0, "{text}");
    assert!(
        text.contains("torn tail at ") && text.contains("checksum") && !text.contains("key102"),
        "{text}"
    );
    let mut bytes = whole;
    let at = bytes.windows(6).rposition(|part| part == b"key101").expect("a record");
    bytes[at] ^= 1;
    fs::write(&file, &bytes).expect("writes");
    let (status, text, _) = admin(&["dump", "wal", name]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("records that verify follow") && text.contains("offset "), "{text}");
    let (status, text, _) = admin(&["dump", "wal", store.path()]);
    assert!(text.contains("'key100'"), "{status}: {text}");
}

#[test]
fn a_manifest_is_told_in_words() {
    let store = store();
    let (status, text, err) = admin(&["dump", "manifest", store.path()]);
    assert_eq!((status, err.as_str()), (0, ""), "{text}");
    for part in [
        "edit 0, the snapshot, at 24",
        "epoch (openings for writing) 1",
        "table of 'fruit' (1) comes: level 0, file ",
        "keys 'key000' to 'key099'",
        "is in wal/000001.wal",
        "the edits end at ",
        "formats of version 1",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let lines = json_lines(&["dump", "manifest", store.path()]);
    let tables = lines.iter().flat_map(|line| line["changes"].as_array().cloned().unwrap_or_default());
    let tables: Vec<_> = tables.filter(|c| c["change"] == "new_table" && c["family"] == 1).collect();
    assert_eq!(tables.len(), 1);
    assert_eq!((&tables[0]["min_key"], &tables[0]["level"]), (&"key000".into(), &0.into()));
    let edits = lines.iter().filter(|line| line.get("edit").is_some()).count();
    assert_eq!(json_lines(&["dump", "manifest", store.path(), "--from", "1", "--limit", "1"]).len(), 2);

    let file = store.manifest();
    let mut bytes = fs::read(&file).expect("reads");
    let end = lines.last().expect("the end")["end"].as_u64().expect("a number") as usize;
    bytes[end - 1] ^= 1;
    fs::write(&file, &bytes).expect("writes");
    let (status, text, _) = admin(&["dump", "manifest", file.to_str().expect("a name")]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("torn tail at ") && text.contains("formats of version 1"), "{text}");
    assert_eq!(text.matches("\nedit ").count(), edits - 1);
    bytes[30] ^= 1;
    fs::write(&file, &bytes).expect("writes");
    let (status, text, _) = admin(&["dump", "manifest", file.to_str().expect("a name")]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("damage: ") && text.contains("offset 24"), "{text}");
}

/// Two runs of 'fruit' with the same 1000 keys, too large for a flush to make one of them; the second deletes
/// one. And a family 'other' of one row, still in the log.
fn store_with_two_runs() -> Store {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join("store");
    let db = Db::open(&path, Options { write_buffer_size: 1 << 20, ..options() }).expect("opens");
    let plain = FamilyOptions { compression: Compression::None, ..FamilyOptions::default() };
    let fruit = db.family_with("fruit", plain).expect("makes");
    for round in 0..2 {
        for n in 0..1000 {
            fruit.put(format!("key{n:03}"), format!("{round}{:0100}", n)).expect("puts");
        }
        if round == 1 {
            fruit.delete("key007").expect("deletes");
        }
        db.flush().expect("flushes");
    }
    db.family("other").expect("makes").put("a", "b").expect("puts");
    drop(fruit);
    db.close().expect("closes");
    Store { _directory: directory, path }
}

#[test]
fn a_family_is_compacted_and_keeps_its_rows() {
    let store = store_with_two_runs();
    let (status, text, err) = admin(&["compact", store.path(), "nothing"]);
    assert_eq!((status, text.as_str()), (2, ""));
    assert!(err.contains("no family 'nothing'") && err.contains("stats"), "{err}");
    let (status, text, err) = admin(&["compact", store.path(), "fruit"]);
    assert_eq!((status, err.as_str()), (0, ""), "{text}");
    assert!(text.starts_with("'fruit': 2 tables of ") && text.contains(" before, 1 of "), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let (_, text, _) = admin(&["stats", store.path()]);
    assert!(text.contains("999 entries, 0 tombstones"), "{text}");
    let db = Db::open(&store.path, options()).expect("opens");
    let fruit = db.find_family("fruit").expect("reads").expect("there");
    let rows: Vec<_> = fruit.iter().map(|row| row.expect("reads")).collect();
    assert_eq!(rows.len(), 999);
    assert!(rows.iter().all(|(key, value)| key.as_slice() != b"key007" && value[0] == b'1'));
    drop(fruit);
    db.close().expect("closes");
    let (status, out, _) = admin(&["compact", store.path(), "--json"]);
    let all: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((status, all["families"].as_array().map(Vec::len)), (0, Some(2)));
}

#[test]
fn a_compaction_without_a_reader_merges_every_family() {
    let store = store_with_two_runs();
    let words = ["compact", store.path()];
    let mut err = Vec::new();
    let status = tidesdb_admin::run(words.iter().map(OsString::from), &mut Pipe(0), &mut err, false);
    assert_eq!((status, err.len()), (0, 0));
    let (_, out, _) = admin(&["stats", store.path(), "--json"]);
    let stats: Value = serde_json::from_str(&out).expect("JSON");
    for family in stats["families"].as_array().expect("families").iter().skip(1) {
        let levels = family["levels"].as_array().expect("levels");
        assert!(levels.len() == 1 && levels[0]["level"] != 0, "{family}");
    }
}

#[test]
fn another_users_store_is_not_compacted() {
    let store = store();
    // Only root may give files away, and tests run as others too.
    if std::os::unix::fs::chown(store.path.join("CURRENT"), Some(12_345), None).is_err() {
        return;
    }
    let (status, text, err) = admin(&["compact", store.path()]);
    assert_eq!((status, text.as_str()), (2, ""));
    assert!(err.contains(store.path()) && err.contains("sudo -u '#12345' tidesdb-admin compact"), "{err}");
}

#[test]
fn a_store_in_use_is_refused_to_writers_with_path_and_process() {
    let store = store();
    let db = Db::open(&store.path, options()).expect("opens");
    for words in [["compact", store.path()], ["stats", store.path()]] {
        let (status, text, err) = admin(&words);
        assert_eq!((status, text.as_str()), (2, ""));
        let process = format!("process ({})", std::process::id());
        assert!(err.contains(store.path()) && err.contains(&process), "{err}");
        assert!(err.contains("server"), "a remedy in {err}");
    }
    // A dump reads on, and says so.
    let (status, text, err) = admin(&["dump", "manifest", store.path()]);
    assert_eq!(status, 0, "{text}");
    assert!(err.contains("note: ") && err.contains("in use"), "{err}");
    assert!(text.contains("'fruit' (1)"), "{text}");
    drop(db);
}

#[test]
fn what_is_no_store_and_no_file_is_refused() {
    let directory = tempfile::tempdir().expect("directory");
    let empty = directory.path().to_str().expect("a name");
    let other = directory.path().join("other");
    fs::write(&other, b"text").expect("writes");
    let other = other.to_str().expect("a name");
    for words in [
        &["stats", empty][..],
        &["compact", empty],
        &["dump", "wal", empty],
        &["dump", "manifest", empty],
        &["dump", "wal", other],
        &["dump", "manifest", other],
        &["dump", "table", other],
        &["dump", "table", "/nowhere/00000001.sst"],
        &["dump", "wal", "/nowhere/wal/000001.wal"],
        &["dump", "manifest", "/nowhere/MANIFEST-00000001"],
        &["dump", "table", empty],
        &["completions", "bash", "--json"],
        &["man", other],
        &["advise", "--socket", "/nowhere/socket"],
    ] {
        let (status, text, err) = admin(words);
        assert_eq!((status, text.as_str()), (2, ""), "{words:?}: {err}");
        assert!(err.starts_with("tidesdb-admin: "), "{err}");
    }
    assert_eq!(fs::read_dir(directory.path()).expect("lists").count(), 1, "nothing was made");
}

/// Takes so many bytes, then its reader is gone.
struct Pipe(usize);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let n = bytes.len().min(self.0);
        self.0 -= n;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_without_a_word() {
    let store = store();
    let file = store.table_with(b"value042");
    let file = file.to_str().expect("a name");
    let commands =
        [&["stats", store.path()][..], &["dump", "wal", store.path()], &["dump", "table", file], &["--help"]];
    for words in commands {
        for bytes in [0, 1, 100] {
            let mut err = Vec::new();
            let status =
                tidesdb_admin::run(words.iter().map(OsString::from), &mut Pipe(bytes), &mut err, false);
            assert_eq!((status, err.len()), (0, 0), "{words:?}");
        }
    }
    // The program itself, as `| head -n 0` leaves it.
    let program = env!("CARGO_BIN_EXE_tidesdb-admin");
    let mut child = Command::new(program)
        .args(["dump", "table", file])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ends");
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

/// A disk without room.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let store = store();
    let buffered: [&mut dyn Write; 2] = [&mut Full, &mut io::BufWriter::with_capacity(1 << 20, Full)];
    for out in buffered {
        let mut err = Vec::new();
        let words = ["stats", store.path()];
        let status = tidesdb_admin::run(words.iter().map(OsString::from), out, &mut err, false);
        let err = String::from_utf8(err).expect("text");
        assert_eq!(status, 2);
        assert!(err.contains("cannot write the output"), "{err}");
    }
}

#[test]
fn man_pages_and_completions_name_every_command() {
    let directory = tempfile::tempdir().expect("directory");
    let pages = directory.path().join("man1");
    let (status, _, err) = admin(&["man", pages.to_str().expect("a name")]);
    assert_eq!((status, err.as_str()), (0, ""));
    for page in ["tidesdb-admin.1", "tidesdb-admin-dump-table.1", "tidesdb-admin-backup-restore.1"] {
        let text = fs::read_to_string(pages.join(page)).expect("a page");
        assert!(text.contains(".SH EXIT STATUS\n0 done; 1 damage found"), "{page}: {text}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let (status, script, _) = admin(&["completions", shell]);
        assert_eq!(status, 0);
        for command in ["verify", "repair", "stats", "compact", "dump", "backup", "log", "advise"] {
            assert!(script.contains(command), "{command} for {shell}");
        }
    }
}

/// Writes the bytes where `dump` looks, runs it in both forms, and hands back the exit statuses.
fn dumped(kind: &str, name: &str, bytes: &[u8]) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("directory");
    let path = directory.path().join(name);
    fs::create_dir_all(path.parent().expect("a parent")).expect("makes");
    fs::write(&path, bytes).expect("writes");
    let path = path.to_str().expect("a name");
    vec![admin(&["dump", kind, path]).0, admin(&["dump", kind, path, "--json", "--limit", "3"]).0]
}

fn whole(kind: &str) -> Vec<u8> {
    let store = store();
    let path = match kind {
        "table" => store.table_with(b"value042"),
        "wal" => log_with(&store, b"key102").0,
        _ => store.manifest(),
    };
    let mut bytes = fs::read(path).expect("reads");
    // What comes after the records is long and empty.
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    if kind != "table" {
        bytes.truncate(used + 500);
    }
    bytes
}

const FILES: [(&str, &str); 3] =
    [("table", "00000001.sst"), ("wal", "wal/000001.wal"), ("manifest", "MANIFEST-00000001")];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..20_000)) {
        for (kind, name) in FILES {
            for status in dumped(kind, name, &bytes) {
                prop_assert!(status <= 2);
            }
        }
    }
}

#[test]
fn cut_and_flipped_files_never_panic() {
    for (kind, name) in FILES {
        let bytes = whole(kind);
        let mut state = 88_172_645_463_325_252_u64;
        for round in 0..150 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let mut changed = bytes.clone();
            let at = state as usize % changed.len();
            match round % 3 {
                0 => changed.truncate(at),
                1 => changed[at] ^= 1 << ((state >> 60) & 7),
                _ => changed.drain(..at.min(4096)).for_each(drop),
            }
            for status in dumped(kind, name, &changed) {
                assert!(status <= 2, "{kind}, round {round}");
            }
        }
    }
}

#[test]
fn commands_of_before_have_json_too() {
    let store = store();
    let (status, out, _) = admin(&["verify", store.path(), "--json"]);
    let check: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((status, check["damage"].as_array().map(Vec::len)), (0, Some(0)));
    let backup = Path::new(store.path()).with_file_name("backup");
    let db = Db::open(&store.path, options()).expect("opens");
    db.backup(&backup).expect("backs up");
    db.close().expect("closes");
    let backup = backup.to_str().expect("a name");
    for words in [["backup", "show", backup, "--json"], ["backup", "verify", backup, "--json"]] {
        let (status, out, err) = admin(&words);
        assert_eq!((status, err.as_str()), (0, ""));
        let info: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(info["tables"], "copies");
    }
    let into = Path::new(store.path()).with_file_name("restored");
    let into = into.to_str().expect("a name");
    let (status, text, _) = admin(&["backup", "restore", backup, "--store", into]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains(&format!("{backup}: restored into {into}")), "{text}");
    let (status, _, err) = admin(&["backup", "restore", backup, "--store", into]);
    assert_eq!(status, 1);
    assert!(err.contains("is not empty"), "{err}");
    let (status, _, err) = admin(&["log", "give-up", into]);
    assert_eq!(status, 1);
    assert!(err.contains("has all the files"), "{err}");
}
