//! The order of the engine's layers: each layer uses only layers before it. The order here is the one in
//! `lib.rs` and `docs/architecture.md`. Tests of a layer may use any other.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// From the ground up.
const LAYERS: [&str; 29] = [
    "mutant",
    "splitmix",
    "sync",
    "error",
    "options",
    "types",
    "value",
    "value_holds",
    "memory_gauge",
    "latency",
    "host",
    "io",
    "env",
    "format",
    "cache",
    "iter",
    "memtable",
    "wal",
    "table",
    "values",
    "version",
    "flush",
    "compaction",
    "lock",
    "store",
    "txn",
    "db",
    "backup",
    "api",
];

/// Remaining uses against the order, each with the step to remove it. A pair without a use in the code fails
/// the test: it must leave this list.
const NOT_YET: [(&str, &str); 0] = [];

/// The layer of a file below `src`: its folder, or its own name.
fn layer_of(path: &Path) -> String {
    let first = path.iter().next().and_then(|part| part.to_str()).unwrap_or_default();
    first.trim_end_matches(".rs").to_string()
}

/// A file of tests by its name.
fn is_test(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let folder = path.iter().any(|part| part == "tests");
    folder
        || stem == "tests"
        || stem.ends_with("_test")
        || stem.ends_with("_tests")
        || stem.starts_with("test_")
}

/// The text built without tests: up to the module of unit tests, the last one, and without comments.
fn code_of(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The layers named in a text as `crate::layer`, or in a list (`crate::{a, b::c}`).
fn used_layers(code: &str) -> BTreeSet<String> {
    let name = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut used = BTreeSet::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        match rest.strip_prefix('{') {
            None => {
                used.insert(name(rest));
            }
            Some(list) => {
                let mut depth = 0;
                let mut start = 0;
                for (at, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => {
                            used.insert(name(&list[start..]));
                            break;
                        }
                        '}' => depth -= 1,
                        ',' if depth == 0 => {
                            used.insert(name(&list[start..]));
                            start = at + 1;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    used.retain(|layer| LAYERS.contains(&layer.as_str()));
    used
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("lists") {
        let path = entry.expect("lists").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Where values are in their stored form: in runs, and on their way between them.
const STORED_FORM: [&str; 5] = ["types.rs", "value.rs", "iter/", "table/", "values/"];

/// Files of other crates that show stored forms: in a dump they are the content.
const STORED_FORM_ELSEWHERE: [&str; 1] = ["tidesdb-admin/src/dump/table.rs"];

/// True if the code handles values in their stored form. Fields with one are private to their files, so it goes by
/// these names alone.
fn handles_stored_form(code: &str) -> bool {
    let names = |word: &str| {
        code.match_indices(word).any(|(at, _)| {
            let rest = &code[at + word.len()..];
            !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_')
        })
    };
    names("StoredValue") || names("::stored") || code.contains(".stored()") || code.contains(".handle()")
}

#[test]
fn the_names_of_the_stored_form_are_found() {
    for code in
        ["entry.stored().len()", "hits.map(Hit::stored)", "use crate::types::StoredValue;", "e.handle()"]
    {
        assert!(handles_stored_form(code), "{code}");
    }
    for code in ["self.stored.len()", "load::stored_rows()", "resolve(&entry, now, out)", "StoredValues"] {
        assert!(!handles_stored_form(code), "{code}");
    }
}

#[test]
fn values_leave_the_engine_by_one_door() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of crates");
    let mut files = Vec::new();
    for member in fs::read_dir(crates).expect("lists") {
        let folder = member.expect("lists").path().join("src");
        if folder.is_dir() {
            sources(&folder, &mut files);
        }
    }
    let (mut past_the_door, mut used) = (Vec::new(), BTreeSet::new());
    for file in files {
        let path = file.strip_prefix(crates).unwrap();
        let name = path.to_string_lossy().into_owned();
        if is_test(path) {
            continue;
        }
        if !handles_stored_form(&code_of(&fs::read_to_string(&file).unwrap())) {
            continue;
        }
        let places = match name.strip_prefix("tidesdb/src/") {
            Some(within) => STORED_FORM.iter().find(|place| within.starts_with(**place)),
            None => STORED_FORM_ELSEWHERE.iter().find(|place| name == **place),
        };
        match places {
            Some(place) => {
                used.insert(*place);
            }
            None => past_the_door.push(name),
        }
    }
    assert!(past_the_door.is_empty(), "use value::resolve in {past_the_door:?}");
    let stale: Vec<_> =
        STORED_FORM.iter().chain(&STORED_FORM_ELSEWHERE).filter(|place| !used.contains(*place)).collect();
    assert!(stale.is_empty(), "take out of the lists, nothing there handles stored forms: {stale:?}");
}

#[test]
fn each_layer_uses_only_layers_before_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let height = |layer: &str| LAYERS.iter().position(|known| *known == layer);
    let (mut against, mut needed) = (Vec::new(), BTreeSet::new());
    for file in files {
        let path = file.strip_prefix(&root).unwrap();
        let layer = layer_of(path);
        // `internal` has no code of its own: it hands out what the layers have.
        if ["lib", "bin", "internal"].contains(&layer.as_str()) || is_test(path) {
            continue;
        }
        let own = height(&layer).unwrap_or_else(|| panic!("{} is in no layer of the order", path.display()));
        for used in used_layers(&code_of(&fs::read_to_string(&file).unwrap())) {
            if height(&used) <= Some(own) {
                continue;
            }
            match NOT_YET.iter().find(|(from, to)| *from == layer && *to == used) {
                Some(pair) => {
                    needed.insert(pair);
                }
                None => against.push(format!("{} uses {used}", path.display())),
            }
        }
    }
    assert!(against.is_empty(), "arrows against the order of layers:\n{}", against.join("\n"));
    let stale: Vec<_> = NOT_YET.iter().filter(|pair| !needed.contains(pair)).collect();
    assert!(stale.is_empty(), "take out of NOT_YET, no code needs them: {stale:?}");
}

#[test]
fn the_order_is_the_one_that_lib_shows() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let start = lib.find("Each module uses only those before it").expect("lib.rs has the order");
    let text = &lib[start..start + lib[start..].find("The module `internal`").expect("the order ends")];
    let mut last = 0;
    for layer in LAYERS {
        let at = text.find(&format!("`{layer}`")).unwrap_or_else(|| panic!("lib.rs does not place {layer}"));
        assert!(at > last, "lib.rs places {layer} elsewhere");
        last = at;
    }
}

#[test]
fn one_module_alone_is_public() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let public: Vec<_> = lib.lines().filter(|line| line.starts_with("pub mod ")).collect();
    assert_eq!(public, ["pub mod internal;"]);
    assert!(
        lib.contains("#[doc(hidden)]\npub mod internal;"),
        "programs that embed the engine do not see it"
    );
}

/// The first names of a path or a list after `prefix`: for `std::sync::{Arc, Mutex}` both.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        let list = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default(),
            None => rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default(),
        };
        found.extend(list.split(',').map(|name| name.trim().to_string()));
    }
    found
}

/// A name that stands in `sync.rs` or `host` alone.
fn bypasses_sync(code: &str) -> Option<String> {
    if let Some(at) = ["parking_lot", "loom::"].iter().find(|name| code.contains(**name)) {
        return Some((*at).to_string());
    }
    let waits = |prefix: &str, allowed: &[&str]| {
        names_after(code, prefix).into_iter().find(|name| !allowed.contains(&name.as_str()))
    };
    let lock = waits("std::sync::", &["Arc", "Weak", "OnceLock", "atomic", "atomic::Ordering"]);
    let park = names_after(code, "thread::")
        .into_iter()
        .find(|name| ["park", "park_timeout", "yield_now", "current", "scope"].contains(&name.as_str()));
    // Random hashers: two runs walk their maps in different orders.
    let map = names_after(code, "collections::").into_iter().find(|name| name.starts_with("Hash"));
    let spin = names_after(code, "hint::").into_iter().find(|name| name == "spin_loop");
    lock.or(park).or(spin).or(map)
}

#[test]
fn one_place_names_locks_and_hash_maps() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut against = Vec::new();
    for file in files {
        let path = file.strip_prefix(&root).unwrap();
        if path == Path::new("sync.rs")
            || path.starts_with("sync")
            || path.starts_with("host")
            || is_test(path)
        {
            continue;
        }
        let text = code_of(&fs::read_to_string(&file).unwrap());
        // Models stand last, and so do unit tests beside a model.
        let end = text.find("#[cfg(all(test, ").unwrap_or(text.len());
        if let Some(name) = bypasses_sync(&text[..end]) {
            against.push(format!("{} names {name}", path.display()));
        }
    }
    assert!(against.is_empty(), "take these from crate::sync or crate::host:\n{}", against.join("\n"));
    assert_eq!(bypasses_sync("use std::sync::{Arc, Mutex};").as_deref(), Some("Mutex"));
    assert_eq!(bypasses_sync("let (a, b) = std::sync::mpsc::channel();").as_deref(), Some("mpsc"));
    assert_eq!(bypasses_sync("use std::collections::{BTreeMap, HashSet};").as_deref(), Some("HashSet"));
    assert_eq!(bypasses_sync("std::thread::park();").as_deref(), Some("park"));
    assert_eq!(bypasses_sync("use std::sync::atomic::Ordering;\nuse std::sync::{Arc, OnceLock};"), None);
}

/// Files with calls of the machine (`clippy.toml`).
const OF_THE_MACHINE: [&str; 5] =
    ["host/clock.rs", "host/random.rs", "host/threads.rs", "io/real.rs", "options/machine.rs"];

/// Statics, with their files.
const GLOBALS: [(&str, &str); 10] = [
    ("cache/work.rs", "COUNTING"),
    ("format/compression.rs", "COMPRESSORS"),
    ("format/compression.rs", "DECOMPRESSORS"),
    ("host/clock.rs", "START"),
    ("mutant.rs", "PLANTED"),
    ("sync/scheduler.rs", "NOTES"),
    ("sync/scheduler.rs", "RUN"),
    ("sync/scheduler.rs", "STACKS"),
    ("table/filter.rs", "PLANS"),
    ("table/load.rs", "SCRATCH"),
];

/// The names of the statics in a text.
fn globals_of(code: &str) -> Vec<String> {
    let declared = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
        let name = line.strip_prefix("static ")?.split(':').next()?;
        Some(name.trim_start_matches("mut ").to_string())
    };
    code.lines().filter_map(declared).collect()
}

#[test]
fn globals_and_calls_of_the_machine_are_listed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let page = fs::read_to_string(root.join("../../../docs/architecture.md")).unwrap();
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut of_the_machine, mut globals) = (BTreeSet::new(), BTreeSet::new());
    for file in files {
        let path = file.strip_prefix(&root).unwrap();
        if is_test(path) {
            continue;
        }
        let (name, text) = (path.to_string_lossy().into_owned(), fs::read_to_string(&file).unwrap());
        if text.contains("(clippy::disallowed_methods") && name != "lib.rs" {
            of_the_machine.insert(name.clone());
        }
        globals.extend(globals_of(&code_of(&text)).into_iter().map(|global| (name.clone(), global)));
    }
    assert_eq!(of_the_machine, BTreeSet::from(OF_THE_MACHINE.map(String::from)));
    let listed = BTreeSet::from(GLOBALS.map(|(file, name)| (file.to_string(), name.to_string())));
    assert_eq!(globals, listed);
    for name in OF_THE_MACHINE.iter().copied().chain(GLOBALS.iter().flat_map(|&(file, name)| [file, name])) {
        assert!(page.contains(&format!("`{name}`")), "docs/architecture.md does not name {name}");
    }
    assert_eq!(
        globals_of("    pub(crate) static A: u8 = 0;\n  let x: &'static str;\nstatic B:u8=1;"),
        ["A", "B"]
    );
}

#[test]
fn layers_are_found_in_every_form_of_a_path() {
    let layers = |code: &str| used_layers(code).into_iter().collect::<Vec<_>>();
    assert_eq!(layers("use crate::wal::{Wal, db};"), ["wal"]);
    assert_eq!(
        layers("use crate::{\n  cache::{BlockCache, lock},\n  db,\n  txn::commit};"),
        ["cache", "db", "txn"]
    );
    assert_eq!(layers("let a = crate::types::MAX; fn f(x: &crate::backup::X)"), ["backup", "types"]);
    assert_eq!(code_of("a\n  // crate::db\n#[cfg(test)]\nmod tests {\nuse crate::db;"), "a");
}
