//! The C interface from C: the header, the example and the programs in this directory are compiled as
//! C11 and as C++17 with all warnings as errors, linked to the static library, and run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Language of a compilation.
#[derive(Clone, Copy, Debug)]
enum Language {
    C11,
    Cxx17,
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?} does not start: {e}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// The static library from cargo's build of this test's library. Other features have another file in the same
/// directory: the newest is of this build.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let built = test.parent().expect("target/PROFILE/deps").read_dir().expect("reads the directory");
    let libraries = built.map(|entry| entry.expect("an entry").path()).filter(|path| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.starts_with("libtidesdb_capi-") && name.ends_with(".a")
    });
    let made = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).expect("its time");
    libraries.max_by_key(made).expect("the static library lies where the test does")
}

/// Compiles and links `source`; the program's path.
fn compile(source: &Path, language: Language, into: &Path) -> PathBuf {
    let (compiler, flags): (_, &[&str]) = match language {
        Language::C11 => ("cc", &["-std=c11", "-x", "c"]),
        Language::Cxx17 => ("c++", &["-std=c++17", "-x", "c++"]),
    };
    let program =
        into.join(format!("{}-{language:?}", source.file_stem().expect("a name").to_string_lossy()));
    let mut command = Command::new(compiler);
    command.args(flags).args(["-g", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include")).arg(source);
    // The language holds for sources only.
    command.args(["-x", "none"]).arg(library()).args(["-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    run(&mut command);
    program
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn the_quickstart_runs_as_c_and_as_cxx() {
    for language in [Language::C11, Language::Cxx17] {
        let dir = tempfile::tempdir().expect("directory");
        let program = compile(&source("examples/quickstart.c"), language, dir.path());
        // Twice on one store: the second run meets the family and the rows of the first.
        for _ in 0..2 {
            let out = run(Command::new(&program).arg(dir.path().join("store")));
            assert!(out.contains("mars has 2 moons\n"), "{out}");
            assert!(out.contains("from j to n: jupiter=95 mars=2\n"), "{out}");
            assert!(out.contains("backward: saturn=146 mars=2 jupiter=95 earth=1\n"), "{out}");
            assert!(out.ends_with("after the rollback neptune has no moons\nclosed\n"), "{out}");
        }
    }
}

#[test]
fn the_package_file_has_the_version_of_the_library() {
    let pc = std::fs::read_to_string(source("tidesdb.pc")).expect("the file");
    assert!(pc.contains(&format!("\nVersion: {}\n", env!("CARGO_PKG_VERSION"))), "{pc}");
}

/// Functions declared in the header.
fn declared() -> Vec<String> {
    let header = std::fs::read_to_string(source("include/tidesdb.h")).expect("the header");
    let mut names = Vec::new();
    for line in header.lines().filter(|line| !line.starts_with([' ', '/', '#'])) {
        let Some(open) = line.find('(') else { continue };
        let before = &line[..open];
        let start = before.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |i| i + 1);
        if before[start..].starts_with("tidesdb_") && !line.starts_with("typedef") {
            names.push(before[start..].to_string());
        }
    }
    names
}

#[test]
fn every_declared_function_links() {
    let names = declared();
    assert!(names.len() > 60, "the header's functions were not found: {names:?}");
    let mut program = String::from("#include \"tidesdb.h\"\ntypedef void (*any)(void);\nany all[] = {\n");
    for name in &names {
        program.push_str(&format!("  (any)&{name},\n"));
    }
    program.push_str("};\nint main(void) { return all[0] ? 0 : 1; }\n");
    let dir = tempfile::tempdir().expect("directory");
    let file = dir.path().join("links.c");
    std::fs::write(&file, program).expect("writes");
    for language in [Language::C11, Language::Cxx17] {
        run(&mut Command::new(compile(&file, language, dir.path())));
    }
}

/// Runs one group of cases of `tests/interface.c` in a process of its own.
fn interface(group: &str) {
    static PROGRAMS: OnceLock<(tempfile::TempDir, Vec<PathBuf>)> = OnceLock::new();
    let (_, programs) = PROGRAMS.get_or_init(|| {
        let dir = tempfile::tempdir().expect("directory");
        let languages = [Language::C11, Language::Cxx17];
        let programs = languages.map(|l| compile(&source("tests/interface.c"), l, dir.path())).to_vec();
        (dir, programs)
    });
    for program in programs {
        let dir = tempfile::tempdir().expect("directory");
        run(Command::new(program).arg(dir.path()).arg(group));
    }
}

macro_rules! groups {
    ($($group:ident),* $(,)?) => {$(
        #[test]
        fn $group() {
            interface(stringify!($group));
        }
    )*};
}

groups!(
    errors,
    cursors,
    seeks,
    own_writes,
    waits,
    ranges,
    statements,
    two_phase,
    checkpoints,
    counters,
    ddl,
    insight,
    misuse,
    observer,
    outlived,
    closed,
    marks,
    positions,
    connections,
    figures,
    backups,
    expiries,
    singles,
    txn_keys,
    iterators,
    ingests,
);
