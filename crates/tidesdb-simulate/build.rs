//! Sets `cfg(simulation)` for this crate alone: the engine of all others is built without it.

fn main() {
    println!("cargo::rustc-cfg=simulation");
    if std::env::var_os("CARGO_FEATURE_MUTANTS").is_some() {
        println!("cargo::rustc-cfg=mutants");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
