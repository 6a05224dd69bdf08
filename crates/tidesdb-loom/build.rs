//! Sets `cfg(loom)` for this crate alone: the engine and all dependencies are built once, without it.

fn main() {
    println!("cargo::rustc-cfg=loom");
    println!("cargo::rerun-if-changed=build.rs");
}
