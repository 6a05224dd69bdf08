//! The script of random keys, run by sysbench on a connection that only looks at its statements.

use std::fs;
use std::process::Command;

use super::measures::SCRIPT;

/// Prints the kind and the length of each statement and row, with sysbench's bound on statements of several rows.
const CONNECTION: &str = r#"
dofile("keys.lua")
local con, insert = {}, nil
function con:query(text) print("statement", #text) end
function con:bulk_insert_init(text) insert = text end
function con:bulk_insert_next(row)
   if #insert + #row > 524288 then error("a statement of " .. #insert + #row .. " bytes") end
   print("row", #row)
end
function con:bulk_insert_done() insert = nil end
function con:disconnect() end
sysbench.sql.driver = function() return { connect = function() return con end } end
"#;

/// The statements of a load of three rows.
fn load(value_bytes: usize) -> Vec<(String, usize)> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("keys.lua"), SCRIPT).unwrap();
    fs::write(folder.path().join("look.lua"), CONNECTION).unwrap();
    let options = ["look.lua", "--table_size=3", &format!("--value_bytes={value_bytes}"), "prepare"];
    let ran = Command::new("sysbench").args(options).current_dir(folder.path()).output().unwrap();
    let printed = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{printed}{}", String::from_utf8_lossy(&ran.stderr));
    let line = |line: &str| {
        let (kind, len) = line.split_once('\t')?;
        Some((kind.to_string(), len.parse().ok()?))
    };
    printed.lines().filter_map(line).collect()
}

#[test]
fn values_of_any_length_are_loaded() {
    for (value_bytes, kind) in [
        (100, "row"),
        (262_144, "row"),
        (262_145, "statement"),
        (524_288, "statement"),
        (1 << 20, "statement"),
    ] {
        let loaded = load(value_bytes);
        assert_eq!(loaded[0].0, "statement", "the table");
        assert_eq!(loaded.len(), 4, "{value_bytes}: {loaded:?}");
        for (found, len) in &loaded[1..] {
            assert_eq!(found, kind, "{value_bytes}");
            assert!((value_bytes..value_bytes + 100).contains(len), "{value_bytes}: {len}");
        }
    }
}
