//! Sets `cfg(loom)` for this crate alone: the engine and all dependencies are built once, without it.

fn main() {
    println!("cargo::rustc-cfg=loom");
    if std::env::var_os("CARGO_FEATURE_MUTANTS").is_some() {
        println!("cargo::rustc-cfg=mutants");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
