//! Sets `cfg(simulation)` for this crate alone: the engine of all others is built without it.

fn main() {
    println!("cargo::rustc-cfg=simulation");
    println!("cargo::rerun-if-changed=build.rs");
}
